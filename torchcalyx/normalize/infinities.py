"""Infinite constants as bounds and in comparisons: the answer is known without them, for every finite number.

`minimum(x, inf)` is x, `x < inf` is true. Where only some elements are infinite, they are chosen by a
constant mask.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from torchcalyx.ir.graph import Array, Graph, Node

_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NEUTRAL = {"minimum": np.inf, "maximum": -np.inf}
_COMPARE = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
            "ne": np.not_equal}  # fmt: skip


def fold_infinities(graph: Graph) -> Graph:
    """The graph without infinities in bounds and comparisons; others stay, and are refused later."""
    made = _Made(graph)
    for node in graph.nodes:
        made.add(node)
    if len(made.nodes) == len(graph.nodes):
        return graph
    return replace(graph, nodes=tuple(made.nodes), constants=made.constants)


class _Made:
    """The nodes of the new graph so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.constants = dict(graph.constants)
        self.names = set(graph.by_name)

    def add(self, node: Node) -> None:
        """The node, or what is left of it."""
        for index in (0, 1):
            if (node.op in _NEUTRAL or node.op in _COMPARISONS) and self._fold(node, index):
                return
        self.nodes.append(node)

    def _fold(self, node: Node, index: int) -> bool:
        """Whether operand `index` is a constant whose infinities could be folded away."""
        bound, other = node.args[index], self.graph.node(node.args[1 - index])
        value = self.constants.get(bound)
        if value is None or other.op == "constant" or not np.issubdtype(value.dtype, np.floating):
            return False
        infinite = np.isinf(value)
        neutral = _NEUTRAL.get(node.op)
        if not infinite.any() or np.isnan(value).any():
            return False
        if neutral is not None and (value[infinite] != neutral).any():
            return False
        finite = self._constant(node, "finite", np.where(infinite, 0, value).astype(value.dtype))
        rest = replace(node, name=self._name(f"{node.name}_rest"), args=_put(node.args, index, finite))
        mask = self._constant(node, "infinite", infinite)
        known = other.name if neutral is not None else self._answer(node, index, value)
        self.nodes += [rest, replace(node, op="where", args=(mask, known, rest.name), attrs=())]
        return True

    def _answer(self, node: Node, index: int, value: Array) -> str:
        """What a comparison of any finite number with the infinities of `value` gives."""
        op = node.op if index == 1 else _MIRRORED.get(node.op, node.op)
        return self._constant(node, "known", np.asarray(_COMPARE[op](0.0, value)))

    def _constant(self, node: Node, suffix: str, value: Array) -> str:
        name = self._name(f"{node.name}_{suffix}")
        value = np.asarray(value)
        self.nodes.append(Node(name, "constant", (), (), value.shape, str(value.dtype), node.source))
        self.constants[name] = value
        return name

    def _name(self, hint: str) -> str:
        while hint in self.names:
            hint += "_"
        self.names.add(hint)
        return hint


def _put(args: tuple[str, ...], index: int, name: str) -> tuple[str, ...]:
    return (*args[:index], name, *args[index + 1 :])
