"""Quotients whose divisor is shared by a row become products with its reciprocal.

The reciprocal is computed once a row, in the kernel that makes the divisor, and as exactly as the product
needs it; a lane then has one multiplier instead of three.
"""

from __future__ import annotations

from dataclasses import replace

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import product

LEAST_FOR_DIVISION = 2
"""Multipliers of a lane without which it cannot divide in one kernel."""


def share_reciprocals(graph: Graph, lane_multipliers: int) -> Graph:
    """x / y as x * (1 / y) where y is smaller than x, or where a lane has too few multipliers to divide."""
    nodes = graph.by_name
    order: list[Node] = []
    made: dict[str, str] = {}
    taken = set(nodes)
    for node in graph.nodes:
        if node.op != "div" or not _gains(node, nodes, lane_multipliers):
            order.append(node)
            continue
        divisor = _unexpanded(nodes[node.args[1]], nodes, node)
        if divisor.name not in made:
            name = f"{divisor.name}_reciprocal"
            while name in taken:
                name += "_"
            taken.add(name)
            made[divisor.name] = name
            order.append(
                Node(name, "reciprocal", (divisor.name,), (), divisor.shape, divisor.dtype, node.source)
            )
        order.append(replace(node, op="mul", args=(node.args[0], made[divisor.name])))
    return replace(graph, nodes=tuple(order))


def _gains(node: Node, nodes: dict[str, Node], lane_multipliers: int) -> bool:
    dividend, divisor = (nodes[a] for a in node.args)
    if divisor.op == "constant" or dividend.op == "constant":
        return False
    smaller = product(_unexpanded(divisor, nodes, node).shape) < product(node.shape)
    return smaller or lane_multipliers <= LEAST_FOR_DIVISION


def _unexpanded(divisor: Node, nodes: dict[str, Node], quotient: Node) -> Node:
    """The divisor before it was broadcast, where its axes still say how."""
    while divisor.op == "expand" and len(nodes[divisor.args[0]].shape) == len(divisor.shape):
        divisor = nodes[divisor.args[0]]
    return divisor
