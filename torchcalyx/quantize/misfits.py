"""Formats that do not hold the calibration data, where calibration alone did not choose them.

In: the typed graph, the formats of what computed nodes leave in memory, the calibration inputs. Out: the text
of a warning. A value is judged by the error of storing it, not by what the kernels make of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.reference import reference
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.options import Options
from torchcalyx.quantize import MOVES, Typed
from torchcalyx.quantize.masked import clipped
from torchcalyx.quantize.precision import Precisions
from torchcalyx.quantize.scales import best_format

TOLERANCE = 2.0**-5
"""Greatest error of storing a value, relative to the largest value it stands beside."""
SHOWN = 5
_ADDENDS = {"add": (0, 1), "sub": (0, 1), "linear": (2,), "conv": (2,)}
"""Operands whose error matters beside the result, not beside themselves: biases, residuals."""


@dataclass(frozen=True)
class Misfit:
    """A tensor that its format does not hold. error: of storing it, relative to `TOLERANCE`'s measure. cut:
    elements that saturate, of `elements`. best: the format of that width whose binary point fits best.
    """

    title: str
    fmt: NumberFormat
    largest: float
    error: float
    cut: int
    elements: int
    best: NumberFormat

    def __str__(self) -> str:
        cut = f"{self.cut} of {self.elements} elements saturate, " if self.cut else ""
        fits = self.best.resolution / 2 <= TOLERANCE * self.largest
        few = f"{self.fmt.width} bits are too few with any binary point"
        return (
            f"{self.fmt} for {self.title}: {cut}error {100 * self.error:.3g} % with values up to "
            f"{self.largest:.3g}; {f'{self.best} fits best' if fits else few}"
        )


def misfits(
    typed: Typed,
    stored: Mapping[str, NumberFormat],
    samples: Sequence[Sequence[Array]],
    paths: Sequence[str],
    options: Options,
) -> str:
    """The warning about values that do not survive being stored in formats that calibration did not choose
    alone: those the user gave, all where `headroom` is given; "" without any. stored: formats of the values
    that computed nodes leave in memory.
    """
    graph = typed.graph
    samples = clipped(graph, samples, typed.floors)  # what of a mask is stored
    precisions = Precisions(graph, options)
    read = {name for node in graph.nodes for name in node.args}
    formats = {n.name: typed.formats[n.name] for n in graph.nodes if n.op in ("input", "constant")}
    chosen = {
        node.name: fmt
        for node in graph.nodes
        if (fmt := {**formats, **stored}.get(node.name)) is not None
        and fmt.kind == "fixed"
        and (node.name in read or node.op != "constant")
        and (isinstance(precisions.choice(node), NumberFormat) or options.headroom is not None)
    }
    found = sorted(_misfits(graph, chosen, samples, paths), key=lambda m: -m.error) if chosen else []
    if not found:
        return ""
    lines = [f"{len(found)} of {len(chosen)} tensors do not fit the formats chosen by precision or headroom:"]
    lines += [f"  {m}" for m in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"  and {len(found) - SHOWN} more")
    smaller = "" if options.headroom is None else "lower headroom, or "
    advice = "give fixed8, fixed16 or fixed32 alone, and calibration chooses the binary point of each tensor"
    return "\n".join([*lines, f"what to do: {smaller}{advice}"])


def _misfits(
    graph: Graph,
    formats: Mapping[str, NumberFormat],
    samples: Sequence[Sequence[Array]],
    paths: Sequence[str],
) -> Iterator[Misfit]:
    floats = tuple(n.name for n in graph.nodes if n.dtype.startswith("float") and product(n.shape))
    runs = [
        dict(zip(floats, reference(replace(graph, outputs=floats), sample), strict=True))
        for sample in samples
    ]
    values = {name: [_finite(run[name]) for run in runs] for name in floats}
    largest = {
        name: max((float(np.abs(v).max(initial=0.0)) for v in many), default=0.0)
        for name, many in values.items()
    }
    users: dict[str, list[tuple[Node, int]]] = {name: [] for name in floats}
    for node in graph.nodes:
        for index, name in enumerate(node.args):
            users.setdefault(name, []).append((node, index))
    nodes = graph.by_name
    for name, fmt in formats.items():
        if not largest.get(name):
            continue
        parts = values[name][:1] if nodes[name].op == "constant" else values[name]
        stored = [fmt.quantize_counting(v) for v in parts]
        errors = [
            np.abs(fmt.dequantize(q) - v).max(initial=0.0) for (q, _), v in zip(stored, parts, strict=True)
        ]
        error = float(max(errors)) / _beside(name, graph, users, largest)
        if error > TOLERANCE:
            yield Misfit(
                _title(graph, name, paths),
                fmt,
                largest[name],
                error,
                sum(count for _, count in stored),
                sum(v.size for v in parts),
                best_format(largest[name], fmt.width),
            )


def _beside(
    name: str, graph: Graph, users: Mapping[str, list[tuple[Node, int]]], largest: Mapping[str, float]
) -> float:
    """The largest value beside which an error of `name` matters: its own, or, where it is only added to
    others, that of the least sum.
    """
    if name in graph.outputs:
        return largest[name]
    sums = []
    for node, index in users[name]:
        if index in _ADDENDS.get(node.op, ()):
            sums.append(largest[node.name])
        elif node.op in MOVES:
            sums.append(_beside(node.name, graph, users, largest) if largest.get(node.name) else 0.0)
        else:
            return largest[name]
    return max(largest[name], min(sums, default=0.0))


def _title(graph: Graph, name: str, paths: Sequence[str]) -> str:
    node = graph.node(name)
    if node.op == "input":
        return f"input {paths[graph.inputs.index(name)]!r}"
    if node.op == "constant":
        return f"constant {graph.parameter_names.get(name, name)!r}"
    return f"node {name!r} at {node.source}"


def _finite(values: Array) -> npt.NDArray[np.float64]:
    real = np.asarray(values, np.float64)
    return real if np.isfinite(real).all() else real[np.isfinite(real)]
