"""Folds zeros around spatial axes into the padding of the convolutions and sums over windows that read them.

A window's own padding costs no memory. The greatest of a window does not take part: there padding counts as
minus infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchcalyx.ir.graph import Graph, Node

_ZERO_PADDED = ("conv", "sum_pool")


def fold_padding(graph: Graph) -> Graph:
    """pad(x, zeros) read by a convolution or a sum over windows becomes that operation's own padding."""
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        while node.op in _ZERO_PADDED:
            folded = _folded(node, nodes)
            if folded is None:
                break
            node = folded
        nodes[node.name] = node
    return replace(graph, nodes=tuple(nodes.values()))


def _folded(node: Node, nodes: Mapping[str, Node]) -> Node | None:
    pad = nodes[node.args[0]]
    if pad.op != "pad" or pad.number("value") != 0:
        return None
    borders = {key: pad.ints(key) for key in ("before", "after")}
    if any(any(border[:2]) for border in borders.values()):
        return None
    attrs = dict(node.attrs)
    for key, border in borders.items():
        attrs[key] = tuple(own + more for own, more in zip(node.ints(key), border[2:], strict=True))
    return replace(node, args=(pad.args[0], *node.args[1:]), attrs=tuple(sorted(attrs.items())))
