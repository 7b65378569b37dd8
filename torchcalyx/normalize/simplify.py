"""Rewrites of a finished graph: chains of views become one, views that change nothing and dead nodes
vanish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from torchcalyx.ir.graph import Attr, Graph, Node


@dataclass(frozen=True, slots=True)
class _Alias:
    """A node that equals another value."""

    name: str


def simplify_views(graph: Graph) -> Graph:
    """Merge consecutive views of one kind, drop views that change nothing, and expansions that the reader
    implies.
    """
    made: dict[str, Node] = {}
    alias: dict[str, str] = {}
    for node in graph.nodes:
        args = tuple(alias.get(a, a) for a in node.args)
        new = _simplified(replace(node, args=args), made)
        if isinstance(new, _Alias):
            alias[node.name] = new.name
        else:
            made[node.name] = new
    outputs = tuple(alias.get(o, o) for o in graph.outputs)
    return replace(graph, nodes=tuple(made.values()), outputs=outputs)


def _simplified(node: Node, made: dict[str, Node]) -> Node | _Alias:
    while True:
        producer = made.get(node.args[0]) if node.args else None
        if producer is None:
            return node
        if node.op in ("view", "permute", "expand", "slice", "cast") and _is_identity(node, producer):
            return _Alias(producer.name)
        merged = _merged(node, producer)
        if merged is None:
            return _without_expansion(node, made)
        node = merged


def _is_identity(node: Node, producer: Node) -> bool:
    if (node.shape, node.dtype) != (producer.shape, producer.dtype):
        return False
    if node.op == "permute":
        dims = node.attr("dims")
        assert isinstance(dims, tuple)
        return [d for d in dims if node.shape[dims.index(d)] != 1] == [
            d for d in range(len(dims)) if producer.shape[d] != 1
        ]
    if node.op == "slice":
        return all(s == 1 or n == 1 for s, n in zip(_ints(node, "steps"), node.shape, strict=True))
    return True


def _ints(node: Node, key: str) -> tuple[int, ...]:
    value = node.attr(key)
    assert isinstance(value, tuple)
    return tuple(v for v in value if isinstance(v, int))


def _merged(node: Node, producer: Node) -> Node | None:
    """The node as one that reads the producer's operand, or None."""
    if node.op == "permute" and _only_moves_ones(node, producer):
        return replace(node, op="view", attrs=(("shape", node.shape),))
    if node.op != producer.op or node.op not in ("view", "permute", "expand", "slice"):
        return None
    attrs: tuple[tuple[str, Attr], ...] = node.attrs
    if node.op == "permute":
        inner = _ints(producer, "dims")
        attrs = (("dims", tuple(inner[d] for d in _ints(node, "dims"))),)
    elif node.op == "slice":
        starts, steps = [], []
        zipped = zip(*(_ints(n, k) for n in (producer, node) for k in ("starts", "steps")), strict=True)
        for inner_start, inner_step, start, step in zipped:
            starts.append(inner_start + inner_step * start)
            steps.append(inner_step * step)
        attrs = (("sizes", node.shape), ("starts", tuple(starts)), ("steps", tuple(steps)))
    return replace(node, args=producer.args, attrs=attrs)


def _only_moves_ones(node: Node, producer: Node) -> bool:
    moved = [d for d in _ints(node, "dims") if producer.shape[d] != 1]
    return moved == sorted(moved)


_BROADCASTING = (
    "add", "sub", "mul", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "where",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
)  # fmt: skip


def _without_expansion(node: Node, made: dict[str, Node]) -> Node:
    """Elementwise operations read the unexpanded operand where broadcasting gives the same result."""
    if node.op not in _BROADCASTING:
        return node
    args = list(node.args)
    for i, name in enumerate(args):
        if made[name].op == "expand":
            shorter = [*args[:i], made[name].args[0], *args[i + 1 :]]
            if _broadcast(shorter, made) == node.shape:
                args = shorter
    return replace(node, args=tuple(args))


def _broadcast(names: list[str], made: dict[str, Node]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(made[n].shape for n in names))


def drop_dead(graph: Graph) -> Graph:
    """Keep inputs and what the outputs need."""
    live = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in live:
            live.update(node.args)
    nodes = tuple(n for n in graph.nodes if n.name in live or n.op == "input")
    constants = {k: v for k, v in graph.constants.items() if k in live}
    names = {k: v for k, v in graph.parameter_names.items() if k in live}
    return replace(graph, nodes=nodes, constants=constants, parameter_names=names)
