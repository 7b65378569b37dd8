"""The graph in float64: its exact values, and its outputs when some values are disturbed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array, Graph
from torchcalyx.ir.reference import evaluate, reference

Tensor: TypeAlias = "npt.NDArray[Any]"
Values: TypeAlias = "Mapping[str, Tensor]"
Edit: TypeAlias = "Callable[[Tensor], Tensor]"


def exact_values(graph: Graph, sample: Sequence[Array]) -> dict[str, Tensor]:
    """Every value of the graph for one input, floats in float64."""
    names = tuple(n.name for n in graph.nodes)
    return dict(zip(names, reference(replace(graph, outputs=names), sample), strict=True))


def disturbed(graph: Graph, exact: Values, edits: Mapping[str, Edit]) -> list[Tensor]:
    """The outputs when each value named in `edits` is replaced by its edit of what it would be.

    Only what depends on an edited value is computed again.
    """
    found: dict[str, Tensor] = {}
    last_use = {a: i for i, n in enumerate(graph.nodes) for a in n.args}
    kept = set(graph.outputs)
    for index, node in enumerate(graph.nodes):
        if any(a in found for a in node.args):
            value = evaluate(node, [found.get(a, exact[a]) for a in node.args])
            if node.name not in edits and np.array_equal(value, exact[node.name]):
                continue  # the disturbance ends here
            found[node.name] = value
        if node.name in edits:
            found[node.name] = edits[node.name](found.get(node.name, exact[node.name]))
        for name in node.args:
            if last_use[name] == index and name not in kept:
                found.pop(name, None)
    return [found.get(name, exact[name]) for name in graph.outputs]
