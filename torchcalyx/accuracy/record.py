"""From the first and the best trial to what the user is told: the record of a check, and who is to blame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchcalyx.accuracy.judging import Exam
from torchcalyx.accuracy.ladder import Ladder
from torchcalyx.accuracy.memory import memory_bits, tensor_bits
from torchcalyx.accuracy.telling import Suspect
from torchcalyx.accuracy.trial import Trial
from torchcalyx.ir.graph import Graph, Node
from torchcalyx.options import Options
from torchcalyx.results.accuracy import Accuracy, TensorAccuracy


@dataclass(frozen=True)
class Names:
    """How the user names each input and each output."""

    inputs: Sequence[str]
    outputs: Sequence[str]


def record(exam: Exam, trial: Trial, options: Options) -> Accuracy:
    """Of a check that needed nothing else."""
    return Accuracy(
        exam.tolerance,
        len(exam.samples),
        exam.calibrated,
        trial.outputs,
        (),
        (tensor_bits(trial.typed, trial.selection),) * 2,
        (trial.register_bits,) * 2,
        (memory_bits(trial.selection, options),) * 2,
        1,
    )


def search_record(
    exam: Exam,
    first: Trial,
    best: Trial,
    trials: int,
    ladder: Ladder,
    blame: Mapping[str, float],
    names: Names,
    options: Options,
) -> Accuracy:
    """Of a search that led from the first trial to the best one."""
    automatic = set(ladder.automatic)
    graph = best.typed.graph
    tensors = tuple(
        TensorAccuracy(
            name,
            _title(graph, graph.node(name), names),
            None if name in automatic else asked,
            best.typed.formats[name].width,
            str(best.typed.formats[name]),
            ladder.elements(name),
            blame[name],
            graph.node(name).source,
        )
        for name, asked in ladder.asked.items()
        if name in automatic or best.typed.formats[name].width != asked
    )
    return Accuracy(
        exam.tolerance,
        len(exam.samples),
        exam.calibrated,
        best.outputs,
        tensors,
        (tensor_bits(first.typed, first.selection), tensor_bits(best.typed, best.selection)),
        (first.register_bits, best.register_bits),
        (memory_bits(first.selection, options), memory_bits(best.selection, options)),
        trials,
    )


def suspects(best: Trial, ladder: Ladder, blame: Mapping[str, float], names: Names) -> list[Suspect]:
    """The stored values in the order of the model."""
    graph, free = best.typed.graph, set(ladder.free)
    return [
        Suspect(
            node,
            _title(graph, node, names) + ("" if node.op in ("input", "constant") else f" at {node.source}"),
            best.typed.formats[node.name],
            node.name not in free,
            blame[node.name],
        )
        for node in graph.nodes
        if node.name in blame
    ]


def _title(graph: Graph, node: Node, names: Names) -> str:
    if node.op == "input":
        return f"input {names.inputs[graph.inputs.index(node.name)]!r}"
    if node.op == "constant":
        first, *others = graph.parameter_names.get(node.name, node.name).split(", ")
        more = f" and {len(others)} more folded into {list(node.shape)}" if others else ""
        return f"constant {first!r}{more}"
    return f"{node.op} {node.name!r}"
