"""Chooses the number format of every value: calibration for float tensors, proved ranges for integers.

Operations that only move or pick elements keep the format of their operand. Integer tensors are exact: their
width holds the range that interval arithmetic proves, starting from 32 bits (or the dtype's own, when
smaller) for inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.masks import Head
from torchcalyx.ir.ranges import Interval, dtype_interval, interval
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, bits_for_range, integer, product
from torchcalyx.options import Options
from torchcalyx.quantize.channels import channel_fracs
from torchcalyx.quantize.equalise import AlikeByNodes, balanced
from torchcalyx.quantize.inner import (
    MOVES,
    PROBABILITY_BITS,
    TABLE_BITS,
    inner_formats,
    probabilities,
    stored_values,
    table_operands,
)
from torchcalyx.quantize.masked import FREE_BITS, Masked, clipped, limit_masks
from torchcalyx.quantize.needs import Need
from torchcalyx.quantize.outliers import separated
from torchcalyx.quantize.precision import Precisions
from torchcalyx.quantize.quotients import LEAST_FOR_DIVISION, lift_floors, share_reciprocals
from torchcalyx.quantize.scales import following
from torchcalyx.quantize.signs import never_negative

__all__ = ["MOVES", "Remembered", "Typed", "quantize"]


Prepared: TypeAlias = tuple[Masked, Sequence[Sequence[Array]]]
"""A graph with its masks limited, and the calibration inputs as these hold them."""


@dataclass(frozen=True)
class Typed:
    """A graph with the number format of every value, by node name.

    graph: may have other constants than the graph it was made from: factors move between layers (`equalise`).
    needs: how exact each float value has to be for its consumers. stored: names of the float values that have
    the user's width; the others are intermediates. floors: least value of inputs that are masks. heads:
    masked softmaxes of the graph that was quantised, whose rows a call has to look at. weight_fracs: fraction
    bits wanted for each output channel of constant weights, where they are not all those of the format.
    """

    graph: Graph
    formats: Mapping[str, NumberFormat] = field(hash=False)
    needs: Mapping[str, Need] = field(hash=False, default_factory=dict)
    stored: frozenset[str] = frozenset()
    floors: Mapping[str, float] = field(hash=False, default_factory=dict)
    heads: tuple[Head, ...] = ()
    weight_fracs: Mapping[str, tuple[int, ...]] = field(hash=False, default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(f"{n}  # {self.formats[n.name]}" for n in self.graph.nodes)


@dataclass
class Remembered:
    """What does not depend on widths, for quantising one graph with one calibration set and options again
    and again.
    """

    prepared: Prepared | None = None
    alike: AlikeByNodes = field(default_factory=dict)


def quantize(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    options: Options,
    widths: Mapping[str, int] | None = None,
    remembered: Remembered | None = None,
) -> Typed:
    """Formats for all values of `graph`. samples: calibration inputs, each in the order of `graph.inputs`.

    widths: values, by name, that get another width than the options say. remembered: of earlier
    calls with the same graph, samples and options; more is added to it.

    Raises InputError when a calibration input makes a value infinite or NaN, OptionsError for precision
    patterns that match no module, UnsupportedOpError for tensors without elements. Constants that an
    operation reads are finite: `normalize` has refused others by name.
    """
    prepared = None if remembered is None else remembered.prepared
    if prepared is None:
        _check_sizes(graph)
        prepared = _prepared(graph, samples, options)
    masked, samples = prepared
    alike = None
    if remembered is not None:
        remembered.prepared, alike = prepared, remembered.alike
    lanes = max(1, options.multipliers // options.lane_count)
    shared, divisors = share_reciprocals(masked.graph, lanes)
    typed, cut = _formats(shared, samples, options, widths, masked, alike)
    wide = frozenset(divisor for name, divisor in divisors.items() if name in cut)
    if wide and lanes > LEAST_FOR_DIVISION:  # a word does not hold their reciprocals: divide after all
        shared, _ = share_reciprocals(masked.graph, lanes, wide)
        typed, _ = _formats(shared, samples, options, widths, masked, alike)
    return typed


def _prepared(graph: Graph, samples: Sequence[Sequence[Array]], options: Options) -> Prepared:
    """What no width has a part in: limited masks, the samples as they are stored, separated outliers."""
    precisions = Precisions(graph, options)
    masked = limit_masks(graph, samples, options.spare_bits(16), precisions.given(graph))
    samples = clipped(graph, samples, masked.floors)
    return replace(masked, graph=separated(masked.graph, samples, precisions)), samples


def _formats(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    options: Options,
    widths: Mapping[str, int] | None,
    masked: Masked,
    alike: AlikeByNodes | None,
) -> tuple[Typed, frozenset[str]]:
    """Formats for a graph whose masks are limited, and the intermediates that do not get all they need."""
    precisions = Precisions(graph, options, widths)
    choices = {n.name: precisions.choice(n) for n in graph.nodes}
    more = {
        **dict.fromkeys(masked.floors, FREE_BITS),
        **dict.fromkeys(probabilities(graph), PROBABILITY_BITS),
    }
    for name, bits in more.items():
        choice = choices[name]
        choices[name] = min(choice + bits, max(choice, 32)) if isinstance(choice, int) else choice
    kept = stored_values(graph, choices)
    tabled = table_operands(graph, choices)
    graph, seen = balanced(graph, samples, precisions, kept, alike)
    kept |= {n.name for n in graph.nodes if n.op == "scale"}
    choices = {n.name: choices.get(n.name, precisions.choice(n)) for n in graph.nodes}
    unsigned, follow = never_negative(graph), following(graph)
    formats: dict[str, NumberFormat] = {}
    ranges: dict[str, Interval] = {}
    for node in graph.nodes:
        if node.dtype.startswith("float") and node.name not in kept:
            continue  # an intermediate: its format follows from its consumers
        if node.op in MOVES or (node.op == "pad" and _pads_within(node, formats[node.args[0]])):
            formats[node.name] = formats[node.args[0]]
            if node.args[0] in ranges:
                ranges[node.name] = ranges[node.args[0]]
        elif node.dtype == "bool":
            formats[node.name] = BOOL
            ranges[node.name] = Interval(0, 1)
        elif node.dtype.startswith("float"):
            formats[node.name] = precisions.format(
                node,
                seen,
                choices[node.name],
                signed=node.name not in unsigned,
                follow=follow.get(node.name),
                more=TABLE_BITS if node.name in tabled else 0,
            )
        else:
            found = interval(node, graph, ranges, formats)
            own = dtype_interval(node.dtype)
            if not own.low <= found.low <= found.high <= own.high:
                found = own  # it wraps, as torch's integers do
            ranges[node.name] = found
            width = bits_for_range(found.low, found.high)
            formats[node.name] = integer(width) if own.low < 0 else integer(width - 1 or 1, signed=False)
    graph = lift_floors(graph, formats)
    wanted = {n: c.width if isinstance(c, NumberFormat) else c for n, c in choices.items()}
    spare = {n.name: precisions.spare(n, wanted[n.name]) for n in graph.nodes}
    fracs = channel_fracs(graph, precisions, formats)
    inner = inner_formats(graph, formats, wanted, seen.largest, spare)
    chosen = {**formats, **inner.formats}
    typed = Typed(graph, chosen, inner.needs, kept, masked.floors, masked.heads, fracs)
    return typed, inner.cut


def _pads_within(node: Node, fmt: NumberFormat) -> bool:
    """Whether the padding value is exact in the operand's format, so that padding only moves elements."""
    value = node.attr("value")
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return bool(fmt.dequantize(fmt.quantize(value)) == value)


def _check_sizes(graph: Graph) -> None:
    """UnsupportedOpError naming every tensor without elements that hardware would have to hold."""
    read = {name for node in graph.nodes for name in node.args}
    empty = [
        f"  {graph.parameter_names.get(n.name, n.name)} ({n.op}, {n.dtype}{list(n.shape)}) at {n.source}"
        for n in graph.nodes
        if product(n.shape) == 0 and (n.name in read or n.op != "constant")
    ]
    if empty:
        raise UnsupportedOpError(
            "tensors without elements have no hardware form:\n"
            + "\n".join(empty)
            + "\ngive every axis a size"
        )
