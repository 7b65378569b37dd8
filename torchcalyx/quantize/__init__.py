"""Chooses the number format of every value: calibration for float tensors, proved ranges for integers.

Operations that only move or pick elements keep the format of their operand. Integer tensors are exact: their
width holds the range that interval arithmetic proves, starting from 32 bits (or the dtype's own, when
smaller) for inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.ranges import Interval, dtype_interval, interval
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, bits_for_range, integer, product
from torchcalyx.options import Options
from torchcalyx.quantize.inner import MOVES, inner_formats, stored_values
from torchcalyx.quantize.needs import Need
from torchcalyx.quantize.observe import largest_values
from torchcalyx.quantize.precision import Precisions

__all__ = ["MOVES", "Typed", "quantize"]


@dataclass(frozen=True)
class Typed:
    """A graph with the number format of every value, by node name.

    needs: how exact each float value has to be for its consumers. stored: names of the float values that have
    the user's width; the others are intermediates.
    """

    graph: Graph
    formats: Mapping[str, NumberFormat] = field(hash=False)
    needs: Mapping[str, Need] = field(hash=False, default_factory=dict)
    stored: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "\n".join(f"{n}  # {self.formats[n.name]}" for n in self.graph.nodes)


def quantize(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    options: Options,
    widths: Mapping[str, int] | None = None,
    largest: Mapping[str, float] | None = None,
) -> Typed:
    """Formats for all values of `graph`. samples: calibration inputs, each in the order of `graph.inputs`.

    widths: values, by name, that get another width than the options say. largest: `largest_values` of the
    samples, where they are known already.

    Raises InputError when a calibration input makes a value infinite or NaN, OptionsError for precision
    patterns that match no module, UnsupportedOpError for integers whose range cannot be held exactly and for
    tensors without elements. Constants are finite: `normalize` has refused others by name.
    """
    _check_sizes(graph)
    precisions = Precisions(graph, options, widths)
    largest = largest_values(graph, samples) if largest is None else largest
    choices = {n.name: precisions.choice(n) for n in graph.nodes}
    kept = stored_values(graph, frozenset(n for n, c in choices.items() if isinstance(c, NumberFormat)))
    formats: dict[str, NumberFormat] = {}
    ranges: dict[str, Interval] = {}
    too_wide: list[str] = []
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
            formats[node.name] = precisions.format(node, largest[node.name])
        else:
            found = interval(node, graph, ranges, formats)
            own = dtype_interval(node.dtype)
            if node.dtype != "int64" and not own.low <= found.low <= found.high <= own.high:
                found = own  # it wraps, as torch's integers do
            ranges[node.name] = found
            width = bits_for_range(found.low, found.high)
            if width > 64:
                too_wide.append(f"  {node} at {node.source}: values from {found.low} to {found.high}")
            signed = own.low < 0 or node.dtype == "int64"
            formats[node.name] = (
                integer(min(width, 64)) if signed else integer(min(width - 1, 63) or 1, signed=False)
            )
    if too_wide:
        raise UnsupportedOpError(
            "integer values that may pass 64 bits cannot be computed exactly:\n"
            + "\n".join(too_wide)
            + "\ninteger inputs are taken to span 32 bits: narrow them first (clamp, or a smaller dtype)"
        )
    wanted = {n: c.width if isinstance(c, NumberFormat) else c for n, c in choices.items()}
    spare = {n.name: precisions.spare(n, wanted[n.name]) for n in graph.nodes}
    inner = inner_formats(graph, formats, wanted, largest, spare)
    return Typed(graph, {**formats, **inner.formats}, inner.needs, kept)


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
