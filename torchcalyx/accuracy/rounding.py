"""What storing values makes of them: the graph in float64 with every stored value rounded to its format.

Far cheaper than the software model, and close to it: inside, kernels are more exact than the formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from torchcalyx.accuracy.disturbed import Edit, Tensor
from torchcalyx.accuracy.judging import Exam
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.ir.reference import evaluate
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.quantize import MOVES, Typed
from torchcalyx.quantize.observe import widened
from torchcalyx.quantize.scales import stored
from torchcalyx.rules.channels import REACHES

INFINITE = 1e9
"""Stands for a share of an allowed error of 0."""


def limited(shares: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Shares as finite numbers."""
    return np.asarray(np.nan_to_num(np.asarray(shares, np.float64), nan=INFINITE, posinf=INFINITE))


def roots(typed: Typed) -> tuple[str, ...]:
    """The float values in memory that have a width of their own. Moved elements keep their operand's; a
    constant bias is stored as finely as the sums it is added to, whatever its format says.
    """
    biases = _biases(typed.graph)
    return tuple(
        n.name
        for n in typed.graph.nodes
        if n.name in typed.stored
        and n.dtype.startswith("float")
        and n.op not in MOVES
        and n.name not in biases
    )


def rounding(fmt: NumberFormat) -> Edit:
    """What storing a value in a format makes of it."""
    return lambda value: stored(np.asarray(value, dtype=np.float64), fmt)


def stored_as(typed: Typed, name: str) -> Edit:
    """What storing a value of the graph makes of it, its channels with binary points of their own or not."""
    fmt, fracs = typed.formats[name], typed.weight_fracs.get(name)
    if not fracs:
        return rounding(fmt)
    more = np.clip(np.asarray(fracs) - fmt.frac, 0, REACHES[0])

    def edit(value: Tensor) -> Tensor:
        places = more.reshape(-1, *[1] * (value.ndim - 1))
        finer = np.ldexp(value.astype(np.float64), places)
        return np.asarray(np.ldexp(stored(finer, fmt), -places))

    return edit


def rounded_shares(typed: Typed, exam: Exam) -> npt.NDArray[np.float64]:
    """Share of the allowed error that each output uses up when stored values are rounded to their formats."""
    edits = {name: stored_as(typed, name) for name in roots(typed)}
    graph = typed.graph
    fixed: dict[str, Tensor] = {name: widened(value) for name, value in graph.constants.items()}
    fixed |= {name: edits[name](value) for name, value in fixed.items() if name in edits}
    marks = exam.marks([_outputs(graph, fixed, edits, sample) for sample in exam.samples])
    return limited([o.share for o in marks] or [0.0])


def _outputs(
    graph: Graph, fixed: Mapping[str, Tensor], edits: Mapping[str, Edit], sample: Sequence[Array]
) -> list[Tensor]:
    given = dict(zip(graph.inputs, sample, strict=True))
    last_use = {a: i for i, n in enumerate(graph.nodes) for a in n.args}
    kept, found = set(graph.outputs), dict[str, Any]()
    for index, node in enumerate(graph.nodes):
        if node.op == "constant":
            found[node.name] = fixed[node.name]
            continue
        if node.op == "input":
            value = widened(given[node.name])
        else:
            value = evaluate(node, [found[a] for a in node.args])
        found[node.name] = edits[node.name](value) if node.name in edits else value
        for name in node.args:
            if last_use[name] == index and name not in kept:
                found.pop(name, None)
    return [found[name] for name in graph.outputs]


def _biases(graph: Graph) -> frozenset[str]:
    """Constants that are nothing but biases of layers."""
    found: set[str] = set()
    otherwise = set(graph.outputs)
    for node in graph.nodes:
        whole = node.op in ("linear", "conv")
        otherwise.update(node.args[:2] if whole else node.args)
        found.update(node.args[2:] if whole else ())
    return frozenset(name for name in found - otherwise if name in graph.constants)
