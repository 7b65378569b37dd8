"""Quotients whose divisor is shared by a row become products with its reciprocal.

The reciprocal is computed once a row, in the kernel that makes the divisor, and as exactly as the product
needs it; a lane then has one multiplier instead of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat, product

LEAST_FOR_DIVISION = 2
"""Multipliers of a lane without which it cannot divide in one kernel."""


def share_reciprocals(
    graph: Graph, lane_multipliers: int, kept: frozenset[str] = frozenset()
) -> tuple[Graph, dict[str, str]]:
    """x / y as x * (1 / y) where y is smaller than x, or where a lane has too few multipliers to divide.

    kept: divisors that are divided by all the same. Returns the divisor of each reciprocal as well.
    """
    nodes = graph.by_name
    order: list[Node] = []
    made: dict[str, str] = {}
    taken = set(nodes)
    for node in graph.nodes:
        if node.op != "div" or not _gains(node, nodes, lane_multipliers):
            order.append(node)
            continue
        divisor = _unexpanded(nodes[node.args[1]], nodes, node)
        if divisor.name in kept:
            order.append(node)
            continue
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
    return replace(graph, nodes=tuple(order)), {name: divisor for divisor, name in made.items()}


def lift_floors(graph: Graph, formats: Mapping[str, NumberFormat]) -> Graph:
    """x / max(|x|, eps) with an eps no smaller than a quarter of the shortest row that is not zero.

    A row of zeros stays zero whatever it is divided by, and no other row is that short; but a reciprocal of
    1e-12 needs forty bits in front of the point. |x|: Euclidean length of a stored x.
    """
    nodes = graph.by_name
    lifted: dict[str, float] = {}
    for node in graph.nodes:
        x = _length_of(node, nodes)
        fmt = formats.get(x) if x is not None else None
        if x is None or fmt is None or fmt.kind != "fixed" or node.attr("max") is not None:
            continue
        least = fmt.resolution / 4
        if 0 < float(node.number("min")) < least and _divides_only(node.name, x, graph):
            lifted[node.name] = least
    if not lifted:
        return graph
    return replace(
        graph,
        nodes=tuple(
            replace(n, attrs=(("max", None), ("min", lifted[n.name]))) if n.name in lifted else n
            for n in graph.nodes
        ),
    )


def _length_of(node: Node, nodes: dict[str, Node]) -> str | None:
    """x where the node is clamp(sqrt(sum(x * x)))."""
    chain = node
    for op, below in (("clamp", "sqrt"), ("sqrt", "sum"), ("sum", "mul")):
        if chain.op != op or nodes[chain.args[0]].op != below:
            return None
        chain = nodes[chain.args[0]]
    return chain.args[0] if chain.args[0] == chain.args[1] else None


def _divides_only(name: str, x: str, graph: Graph) -> bool:
    """Whether nothing but x is divided by the value, and nothing else reads it."""
    for reader in graph.nodes:
        if name not in reader.args or reader.name == name:
            continue
        if reader.op in ("expand", "view", "reciprocal"):
            if not _divides_only(reader.name, x, graph):
                return False
        elif reader.op == "div":
            if reader.args[0] != x:
                return False
        elif reader.op != "mul" or x not in reader.args:
            return False
    return name not in graph.outputs


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
