"""Chooses the number format of every value: calibration for float tensors, proved ranges for integers.

A float tensor of a named precision gets the most fraction bits with which every calibrated value fits, less
`HEADROOM` bits for values that calibration did not show (none at 8 bits, where each bit counts). Operations
that only move or pick elements keep the format of their operand. Integer tensors are exact: their width
holds the range that interval arithmetic proves, starting from 32 bits (or the dtype's own, when smaller)
for inputs.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from torchcalyx.errors import InputError, OptionsError, UnsupportedOpError
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.ranges import Interval, dtype_interval, interval
from torchcalyx.ir.reference import evaluate
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, bits_for_range, fixed, integer, product
from torchcalyx.options import Options, Precision, resolve_precision

MOVES = ("view", "permute", "slice", "expand", "amax", "amin")
"""Operations whose result has exactly the operand's elements: they keep its format."""

DEFAULT_PRECISION: Precision = "fixed16"


@dataclass(frozen=True)
class Typed:
    """A graph with the number format of every value, by node name."""

    graph: Graph
    formats: Mapping[str, NumberFormat] = field(hash=False)

    def __str__(self) -> str:
        return "\n".join(f"{n}  # {self.formats[n.name]}" for n in self.graph.nodes)


def _pads_within(node: Node, fmt: NumberFormat) -> bool:
    """Whether the padding value is exact in the operand's format, so that padding only moves elements."""
    value = node.attr("value")
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return bool(fmt.dequantize(fmt.quantize(value)) == value)


def headroom(width: int) -> int:
    """Integer bits kept free above the calibrated range."""
    return 1 if width > 8 else 0


def quantize(graph: Graph, samples: Sequence[Sequence[Array]], options: Options) -> Typed:
    """Formats for all values of `graph`. samples: calibration inputs, each in the order of `graph.inputs`.

    Raises InputError when a calibration input makes a value infinite or NaN, OptionsError for precision
    patterns that match no module, UnsupportedOpError for integers whose range cannot be held exactly and for
    tensors without elements. Constants are finite: `normalize` has refused others by name.
    """
    _check_sizes(graph)
    precisions = _Precisions(graph, options)
    largest = _largest_values(graph, samples)
    formats: dict[str, NumberFormat] = {}
    ranges: dict[str, Interval] = {}
    too_wide: list[str] = []
    for node in graph.nodes:
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
    return Typed(graph, formats)


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


class _Precisions:
    """The user's precision for each module path."""

    def __init__(self, graph: Graph, options: Options) -> None:
        precision = options.precision
        table = precision if isinstance(precision, Mapping) else {"*": precision}
        self._table = [(pattern, resolve_precision(p)) for pattern, p in table.items()]
        paths = sorted(
            {p for n in graph.nodes for p in (n.source.module_path, graph.parameter_names.get(n.name, ""))}
        )
        unknown = [p for p, _ in self._table if not any(fnmatch.fnmatchcase(path, p) for path in paths)]
        if unknown:
            known = ", ".join(repr(p) for p in paths if p) or "none"
            raise OptionsError(
                f"precision patterns {', '.join(map(repr, unknown))} match no module; "
                f"module paths of the model: {known}"
            )

    def format(self, node: Node, largest: float) -> NumberFormat:
        """Format of a float value whose largest magnitude is known."""
        path = node.source.module_path
        choice: int | NumberFormat = resolve_precision(DEFAULT_PRECISION)
        for pattern, precision in self._table:
            if fnmatch.fnmatchcase(path, pattern):
                choice = precision
                break
        if isinstance(choice, NumberFormat):
            return choice
        spare = 0 if node.op == "constant" else headroom(choice)
        return best_format(largest, choice, spare)


def best_format(largest: float, width: int, spare: int = 0) -> NumberFormat:
    """Signed format of `width` bits with the most fraction bits that holds +-`largest`, less `spare` bits."""
    if largest == 0:
        return fixed(width, width - 1)
    frac = width - 1 - math.frexp(largest)[1]
    if np.rint(math.ldexp(largest, frac)) > (1 << (width - 1)) - 1:
        frac -= 1
    return fixed(width, frac - spare)


def _largest_values(graph: Graph, samples: Sequence[Sequence[Array]]) -> dict[str, float]:
    """Largest magnitude of every float value over the calibration inputs."""
    largest = {n.name: 0.0 for n in graph.nodes}
    last_use = {a: i for i, n in enumerate(graph.nodes) for a in n.args}
    for number, sample in enumerate(samples):
        values = dict(zip(graph.inputs, sample, strict=True))
        for index, node in enumerate(graph.nodes):
            if node.op == "constant":
                values[node.name] = graph.constants[node.name]
            elif node.op != "input":
                args = [_widened(values[a]) for a in node.args]
                values[node.name] = evaluate(node, args)
            if node.dtype.startswith("float") and values[node.name].size:
                peak = float(np.max(np.abs(values[node.name].astype(np.float64))))
                if not math.isfinite(peak):
                    raise InputError(
                        f"calibration input {number} makes {node.op} (node {node.name!r}) "
                        f"infinite or NaN at {node.source}; "
                        "fixed-point formats are chosen from finite values: give other calibration inputs"
                    )
                largest[node.name] = max(largest[node.name], peak)
            for name in node.args:
                if last_use[name] == index and name not in graph.inputs:
                    values.pop(name, None)
    return largest


def _widened(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind == "f" else values
