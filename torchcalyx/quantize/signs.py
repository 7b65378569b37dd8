"""Values that are provably never negative: at few bits they are stored without a sign."""

from __future__ import annotations

import numpy as np

from torchcalyx.ir.graph import Graph, Node

_ALWAYS = ("relu", "abs", "sigmoid", "exp", "exp2", "softplus", "sqrt", "rsqrt")
_WHEN_ALL = (
    "add", "mul", "minimum", "div", "reciprocal", "sum", "mean", "amax", "amin", "prod", "cumsum",
    "cummax", "cummin", "sort", "view",
    "permute", "slice", "expand", "cat", "max_pool", "sum_pool", "upsample",
)  # fmt: skip
"""Never negative when no operand is."""


def never_negative(graph: Graph) -> frozenset[str]:
    """Names of the float values that are not negative, whatever the inputs are."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.dtype.startswith("float") and _never(node, found, graph):
            found.add(node.name)
    return frozenset(found) - _only_negated(graph)


def _only_negated(graph: Graph) -> set[str]:
    """Values that only a change of sign reads: in its format they are not rounded twice."""
    negated: set[str] = set()
    otherwise = set(graph.outputs)
    for node in graph.nodes:
        (negated if node.op == "neg" else otherwise).update(node.args)
    return negated - otherwise


def _never(node: Node, found: set[str], graph: Graph) -> bool:
    if node.op == "constant":
        return bool(np.all(graph.constants[node.name].astype(np.float64) >= 0))
    if node.op in _ALWAYS:
        return True
    if node.op in _WHEN_ALL:
        square = node.op == "mul" and node.args[0] == node.args[1]
        return square or all(a in found for a in node.args)
    if node.op == "maximum":
        return any(a in found for a in node.args)
    if node.op == "where":
        return all(a in found for a in node.args[1:])
    if node.op == "clamp":
        low, high = node.attr("min"), node.attr("max")
        bounded = not isinstance(high, (int, float)) or high >= 0
        return bounded and (node.args[0] in found or (isinstance(low, (int, float)) and low >= 0))
    if node.op == "div_const":
        return node.args[0] in found and node.number("value") > 0
    if node.op == "take":
        return node.args[0] in found
    if node.op == "put":
        return node.args[0] in found and node.args[2] in found
    if node.op == "pad":
        return node.args[0] in found and node.number("value") >= 0
    return False
