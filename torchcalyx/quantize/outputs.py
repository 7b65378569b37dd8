"""Output channels of unlike scales: each gets a binary point of its own, which the outputs' reader undoes.

The factors that `equalise` gives to the channels of a result become exponents of a "scale" operation behind
it: the stored integers stay as they are, what they mean is told by the output's binding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.quantize.fresh import fresh_name
from torchcalyx.quantize.labels import Labelled, varying_axis
from torchcalyx.quantize.rescale import Factors


def undone_by_reader(graph: Graph, found: Labelled, factors: Factors) -> Graph:
    """`graph`, whose values have the factors (powers of two) of their labels, outputs as they were."""
    names = {n.name for n in graph.nodes}
    nodes, outputs = list(graph.nodes), list(graph.outputs)
    made: dict[str, str] = {}
    for name in dict.fromkeys(graph.outputs):
        axis = varying_axis(found.labels[name]) if name in found.labels else None
        if axis is None:
            continue
        labels = found.labels[name]
        row = labels[tuple(slice(None) if d == axis else 0 for d in range(labels.ndim))]
        exponents = tuple(-int(e) for e in np.log2(factors[row]))
        if not any(exponents):
            continue
        source = graph.node(name)
        scaled = fresh_name(f"{name}_scaled", names)
        attrs = (("axis", axis), ("exponents", exponents))
        nodes.append(Node(scaled, "scale", (name,), attrs, source.shape, source.dtype, source.source))
        made[name] = scaled
    return replace(graph, nodes=tuple(nodes), outputs=tuple(made.get(n, n) for n in outputs))
