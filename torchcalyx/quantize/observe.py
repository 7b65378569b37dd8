"""What the calibration inputs show: the graph evaluated in float64."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from torchcalyx.errors import InputError
from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.reference import evaluate

KEPT = 1 << 16
"""Values of a tensor that are kept, over all calibration inputs."""


@dataclass(frozen=True)
class Seen:
    """What a calibration run showed. largest: magnitude of every float value, by name. values: an even sample
    of the float values that were asked for.
    """

    largest: Mapping[str, float]
    values: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    peaks: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)


def observe(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    keep: Collection[str] = (),
    elements: Collection[str] = (),
) -> Seen:
    """Largest magnitude of every float value over the calibration inputs; of those in `keep` a sample too, of
    those in `elements` the largest magnitude of each element.

    Raises InputError when a calibration input makes a value infinite or NaN.
    """
    largest = {n.name: 0.0 for n in graph.nodes}
    kept: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in keep}
    wanted, peaks = frozenset(elements), dict[str, npt.NDArray[np.float64]]()
    share = max(64, KEPT // max(1, len(samples)))
    last_use = {a: i for i, n in enumerate(graph.nodes) for a in n.args}
    for number, sample in enumerate(samples):
        values = dict(zip(graph.inputs, sample, strict=True))
        for index, node in enumerate(graph.nodes):
            if node.op == "constant":
                values[node.name] = graph.constants[node.name]
            elif node.op != "input":
                args = [widened(values[a]) for a in node.args]
                values[node.name] = evaluate(node, args)
            if node.op == "constant" and node.name not in last_use:
                continue  # a result that no operation reads leaves as it is
            if node.dtype.startswith("float") and values[node.name].size:
                sizes = np.abs(values[node.name].astype(np.float64))
                peak = float(np.max(sizes))
                if not math.isfinite(peak):
                    raise InputError(
                        f"calibration input {number} makes {_shown(node)} "
                        f"infinite or NaN at {node.source}; "
                        "fixed-point formats are chosen from finite values: give other calibration inputs"
                    )
                largest[node.name] = max(largest[node.name], peak)
                if node.name in wanted:
                    peaks[node.name] = np.maximum(peaks.get(node.name, 0.0), sizes)
                if node.name in kept and (node.op != "constant" or not number):
                    kept[node.name].append(spread(values[node.name], share))
            for name in node.args:
                if last_use[name] == index and name not in graph.inputs:
                    values.pop(name, None)
    values_kept = {name: np.concatenate(parts) for name, parts in kept.items() if parts}
    return Seen(largest, values_kept, peaks)


def spread(values: Array, count: int = KEPT) -> npt.NDArray[np.float64]:
    """At most `count` values, evenly chosen."""
    flat = values.astype(np.float64).reshape(-1)
    if flat.size <= count:
        return flat
    return flat[np.linspace(0, flat.size - 1, count).round().astype(np.int64)]


def _shown(node: Node) -> str:
    """The operation that the user wrote, and the part of it that the node is."""
    written = node.source.op.removeprefix("aten.")
    op = str(node.attr("name")) if node.op == "function" else node.op
    part = "" if written in ("", op, f"special_{op}") else f" of {node.source.op}"
    return f"{op}{part} (node {node.name!r})"


def widened(values: Array) -> Array:
    """Floats as float64, others as they are."""
    return values.astype(np.float64) if values.dtype.kind == "f" else values
