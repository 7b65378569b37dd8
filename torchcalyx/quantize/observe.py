"""What the calibration inputs show: the graph evaluated in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from torchcalyx.errors import InputError
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.reference import evaluate


def largest_values(graph: Graph, samples: Sequence[Sequence[Array]]) -> dict[str, float]:
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
            if node.op == "constant" and node.name not in last_use:
                continue  # a result that no operation reads leaves as it is
            if node.dtype.startswith("float") and values[node.name].size:
                peak = float(np.max(np.abs(values[node.name].astype(np.float64))))
                if not math.isfinite(peak):
                    raise InputError(
                        f"calibration input {number} makes {_shown(node)} "
                        f"infinite or NaN at {node.source}; "
                        "fixed-point formats are chosen from finite values: give other calibration inputs"
                    )
                largest[node.name] = max(largest[node.name], peak)
            for name in node.args:
                if last_use[name] == index and name not in graph.inputs:
                    values.pop(name, None)
    return largest


def _shown(node: Node) -> str:
    """The operation that the user wrote, and the part of it that the node is."""
    written = node.source.op.removeprefix("aten.")
    part = "" if written in ("", node.op) else f" of {node.source.op}"
    return f"{node.op}{part} (node {node.name!r})"


def _widened(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind == "f" else values
