"""Which stored values cause the errors of the outputs.

Each value's own error, what it adds to those of its operands, is carried through the float64 graph alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchcalyx.accuracy.disturbed import Edit, Tensor, Values, disturbed
from torchcalyx.accuracy.judging import Exam
from torchcalyx.accuracy.rounding import limited, roots, stored_as
from torchcalyx.accuracy.trial import Trial
from torchcalyx.emulate import EmulationResult
from torchcalyx.host import Stored, real_values
from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.reference import evaluate
from torchcalyx.quantize import Typed

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Blame:
    """shares[i, o]: the part of what output o is allowed that the error of value `names[i]` alone uses up."""

    names: tuple[str, ...]
    shares: Matrix

    def worst(self) -> Mapping[str, float]:
        """The greatest share of each value."""
        return {n: float(s) for n, s in zip(self.names, self.shares.max(axis=1, initial=0.0), strict=True)}


def measured_blame(exam: Exam, trial: Trial, names: Sequence[str]) -> Blame:
    """Blame for the errors that the software model made."""
    exam = exam.on(trial.typed.graph)
    errors = [
        _own_errors(trial, values, stored, emulated)
        for values, stored, emulated in zip(exam.values, trial.stored, trial.emulated, strict=True)
    ]

    def edit(name: str, place: int) -> Edit | None:
        error = errors[place].get(name)
        return None if error is None or not error.any() else (lambda value: value + error)

    return _carried(exam, names, edit)


def expected_blame(exam: Exam, typed: Typed, names: Sequence[str]) -> Blame:
    """Blame for the rounding of stored values to their formats."""
    return _carried(exam.on(typed.graph), names, lambda name, _: stored_as(typed, name))


def _carried(exam: Exam, names: Sequence[str], edit: Callable[[str, int], Edit | None]) -> Blame:
    shares = np.zeros((len(names), len(exam.outputs)))
    for row, name in enumerate(names):
        found: list[list[Tensor | None]] = []
        for place, values in enumerate(exam.values):
            change = edit(name, place)
            edits = {} if change is None else {name: change}
            found.append(list(disturbed(exam.graph, values, edits)) if edits else [None] * len(exam.outputs))
        shares[row] = [o.share for o in exam.marks(found)]
    return Blame(tuple(names), limited(shares))


def _own_errors(trial: Trial, exact: Values, stored: Stored, emulated: EmulationResult) -> dict[str, Tensor]:
    """What each stored value adds to the errors of the values it is computed from."""
    graph, own = trial.typed.graph, set(roots(trial.typed))
    model = _model_values(trial, graph, stored, emulated)
    seen: dict[str, Tensor] = {}
    errors: dict[str, Tensor] = {}
    for node in graph.nodes:
        ideal = evaluate(node, [seen[a] for a in node.args]) if node.args else exact[node.name]
        seen[node.name] = model.get(node.name, ideal)
        if node.name in own and node.name in model:
            with np.errstate(invalid="ignore"):
                error = model[node.name] - np.where(np.isfinite(ideal), ideal, exact[node.name])
            errors[node.name] = np.where(np.isfinite(error), error, 0.0)
    return errors


def _model_values(trial: Trial, graph: Graph, stored: Stored, emulated: EmulationResult) -> dict[str, Tensor]:
    """The stored values of the software model as reals."""
    selection = trial.selection
    found: dict[str, Tensor] = {
        name: stored_as(trial.typed, name)(graph.constants[name])
        for name in roots(trial.typed)
        if name in graph.constants
    }
    for binding, integers in zip(selection.inputs, stored.arrays, strict=True):
        found[binding.node] = np.asarray(real_values(binding.fmt, integers))
    for value in selection.values:
        integers = np.asarray(value.access.read(emulated.buffers[value.buffer]))
        found[value.node] = np.asarray(real_values(value.fmt, integers))
    nodes = graph.by_name
    return {name: _as(nodes[name], value) for name, value in found.items()}


def _as(node: Node, value: Tensor) -> Tensor:
    """In the dtype of the reference."""
    return value.astype("float64" if node.dtype.startswith("float") else node.dtype).reshape(node.shape)
