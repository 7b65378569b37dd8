"""What is checked: some calibration inputs, their exact values, and how far each output may lie off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from torchcalyx.accuracy.disturbed import Edit, Tensor, Values, disturbed, exact_values
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.options import TOLERANCE, Options
from torchcalyx.quantize import MOVES
from torchcalyx.results.accuracy import OutputAccuracy

WORK = 1 << 27
"""Multiply-accumulates and elements that a check may cost: about a second of the software model."""
MOST = 16
"""Inputs of a check, however small the model."""
NOISE = 2.0**-46
"""What float64 itself cannot tell from zero, relative to the operands of a sum."""
TIE = 2.0**-29
"""Step of a disturbance, relative to a tensor's largest magnitude, that no width of ours is finer than."""
_SUMS = ("add", "sub", "linear", "matmul", "conv", "sum", "mean", "sum_pool", "cumsum")


@dataclass(frozen=True)
class Exam:
    """samples: the inputs that are checked, of `calibrated`. values: exact ones, for each sample. outputs:
    what is allowed; their errors are 0.
    """

    graph: Graph
    tolerance: float
    samples: tuple[tuple[Array, ...], ...]
    calibrated: int
    values: tuple[Values, ...] = field(repr=False)
    outputs: tuple[OutputAccuracy, ...]

    def on(self, graph: Graph) -> Exam:
        """The same exam for a graph that computes the same outputs with other constants: factors have moved
        between its layers, so what lies between inputs and outputs has other values.
        """
        if graph is self.graph or (graph.nodes == self.graph.nodes and _same_constants(graph, self.graph)):
            return self
        return replace(self, graph=graph, values=tuple(exact_values(graph, s) for s in self.samples))

    def marks(self, found: Sequence[Sequence[Tensor | None]]) -> tuple[OutputAccuracy, ...]:
        """The outputs with the errors of `found`: for each sample an array an output, None where exact."""
        errors = [0.0] * len(self.outputs)
        for exact, results in zip(self.values, found, strict=True):
            for place, (name, value) in enumerate(zip(self.graph.outputs, results, strict=True)):
                if value is not None:
                    part = _error(exact[name], value, self.outputs[place].counted)
                    whole = errors[place]
                    counted = self.outputs[place].counted
                    errors[place] = whole + part / len(self.samples) if counted else max(whole, part)
        return tuple(replace(o, error=e) for o, e in zip(self.outputs, errors, strict=True))


def make_exam(
    graph: Graph, samples: Sequence[tuple[Array, ...]], names: Sequence[str], options: Options, more: int = 1
) -> Exam:
    """The exam of a graph. names: how the user knows each output. more: factor on the number of inputs."""
    chosen = _some(samples, min(more * MOST, max(1, more * WORK // work(graph))))
    values = tuple(exact_values(graph, sample) for sample in chosen)
    tolerance = TOLERANCE if options.tolerance is None else float(options.tolerance)
    outputs = tuple(
        _allowed(graph, graph.node(node), name, values, tolerance, options.tolerance is not None)
        for node, name in zip(graph.outputs, names, strict=True)
    )
    exam = Exam(graph, tolerance, chosen, len(samples), values, outputs)
    if not any(o.counted for o in outputs):
        return exam
    undecided = exam.marks([disturbed(graph, v, _hardly(graph, v)) for v in values])
    return replace(
        exam,
        outputs=tuple(
            replace(o, allowed=o.allowed + u.error) if o.counted else o
            for o, u in zip(outputs, undecided, strict=True)
        ),
    )


def work(graph: Graph) -> int:
    """Multiply-accumulates and elements of one evaluation."""
    nodes = graph.by_name
    total = 1
    for node in graph.nodes:
        folded = 1
        if node.op in ("linear", "conv"):
            folded = product(nodes[node.args[1]].shape[1:])
        elif node.op == "matmul":
            folded = nodes[node.args[0]].shape[-1]
        total += folded * product(node.shape)
    return total


def _same_constants(a: Graph, b: Graph) -> bool:
    if a.constants.keys() != b.constants.keys():
        return False
    return all(
        value is b.constants[name] or np.array_equal(value, b.constants[name])
        for name, value in a.constants.items()
    )


def _some(samples: Sequence[tuple[Array, ...]], count: int) -> tuple[tuple[Array, ...], ...]:
    """At most `count` samples, evenly spread."""
    if len(samples) <= count:
        return tuple(samples)
    return tuple(samples[i * len(samples) // count] for i in range(count))


def _allowed(
    graph: Graph, node: Node, name: str, values: Sequence[Values], tolerance: float, given: bool
) -> OutputAccuracy:
    largest = _peak(node.name, values)
    if not node.dtype.startswith("float"):
        return OutputAccuracy(name, True, largest, 0.0, tolerance, given)
    source = node
    while source.op in MOVES:
        source = graph.node(source.args[0])
    operands = [_peak(a, values) for a in source.args] if source.op in _SUMS else []
    scale = max([largest, *(NOISE * peak for peak in operands)])
    return OutputAccuracy(name, False, largest, 0.0, tolerance * scale, True)


def _hardly(graph: Graph, values: Values) -> dict[str, Edit]:
    """A disturbance of 30 bits: what it changes in an integer output, no width decides."""

    def edit(step: float) -> Edit:
        return lambda value: np.rint(value / step) * step

    peaks = {n.name: _peak(n.name, [values]) for n in graph.nodes if n.dtype.startswith("float")}
    return {name: edit(peak * TIE) for name, peak in peaks.items() if 0 < peak < math.inf}


def _peak(name: str, values: Sequence[Values]) -> float:
    return max(float(np.max(np.abs(v[name].astype(np.float64)), initial=0.0)) for v in values)


def _error(exact: Tensor, found: Tensor, counted: bool) -> float:
    if counted:
        return float(np.count_nonzero(exact != found)) / max(1, exact.size)
    with np.errstate(invalid="ignore"):
        off = np.abs(np.where(exact == found, 0.0, found - exact))
    worst = float(np.max(off, initial=0.0))
    return math.inf if math.isnan(worst) else worst
