"""Factors of activations, taken in by the constants of the layers around them.

What a graph computes stays the same: each label of `labels` gets a positive factor, which the layers that
make its elements multiply into their constants and those that read them divide out of theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.quantize.labels import Labelled, Labels, repeated

Factors: TypeAlias = "npt.NDArray[np.float64]"
"""The factor of every label."""


def rescaled(graph: Graph, found: Labelled, factors: Factors) -> Graph:
    """The graph whose values are those of `graph` times the factors of their labels."""
    if np.all(factors == 1.0):
        return graph
    constants = dict(graph.constants)
    nodes = graph.by_name
    for node in graph.nodes:
        if node.name in found.scalable:
            for name, value in _constants(node, nodes, graph, found, factors).items():
                constants[name] = value.astype(graph.constants[name].dtype)
    return replace(graph, constants=constants)


def channels(labels: Labels, node: Node) -> Labels:
    """The labels along the channels of the operand or the result of a layer."""
    place = 1 if node.op == "conv" else labels.ndim - 1
    return labels[tuple(slice(None) if d == place else 0 for d in range(labels.ndim))]


def weight_factors(node: Node, weight: Array, into: Factors, out: Factors) -> Factors:
    """What multiplies the weights of a layer. into, out: factors of the channels it reads and makes."""
    shape = (-1, *[1] * (weight.ndim - 1))
    per_out = out.reshape(shape)
    if node.op == "linear":
        return per_out / into[None, :]
    groups = node.whole("groups")
    per_in = np.repeat(into.reshape(groups, -1), weight.shape[0] // groups, axis=0)
    return per_out / per_in.reshape(weight.shape[0], -1, *[1] * (weight.ndim - 2))


def _constants(
    node: Node, nodes: dict[str, Node], graph: Graph, found: Labelled, factors: Factors
) -> dict[str, Factors]:
    """The new constants of a node."""
    out = found.labels[node.name]
    if node.op in ("linear", "conv"):
        into, made = (factors[channels(found.labels[n], node)] for n in (node.args[0], node.name))
        weight = graph.constants[node.args[1]].astype(np.float64)
        result = {node.args[1]: weight * weight_factors(node, weight, into, made)}
        if len(node.args) == 3:
            result[node.args[2]] = graph.constants[node.args[2]].astype(np.float64) * made
        return result
    name, source = node.args[::-1] if nodes[node.args[1]].op == "constant" else node.args
    value = graph.constants[name].astype(np.float64)
    axes = repeated(nodes[name], node)
    place = tuple(slice(0, 1) if d in axes else slice(None) for d in range(out.ndim))
    factor = factors[out[place]]
    if node.op == "mul":
        factor = factor / factors[found.labels[source][place]]
    return {name: value * factor.reshape(value.shape)}
