"""Folds what follows a linear layer into its constants when nothing else reads the layer's own result.

An eval-mode batch norm goes into weight and bias (computed in float64), a known addend into a missing bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from torchcalyx.graph import Array, Graph, Node

_NORM = "aten._native_batch_norm_legit_no_training"


@dataclass(frozen=True, slots=True)
class _Folded:
    """A new linear layer: the old one, its operands (names or new constants), the parents of the new ones."""

    linear: Node
    weight: str | Array
    bias: str | Array
    parents: tuple[str, ...]


def fold_into_linear(graph: Graph) -> Graph:
    """linear + batch norm over the last axis, and linear without bias + constant, each become one linear."""
    readers = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))
    nodes = graph.by_name
    order: list[Node] = []
    constants, names = dict(graph.constants), dict(graph.parameter_names)
    for node in graph.nodes:
        found = _batch_norm(node, nodes, readers, graph.constants) or _addend(node, nodes, readers)
        if found is None:
            order.append(node)
            continue
        args = [found.linear.args[0]]
        for suffix, value in (("weight", found.weight), ("bias", found.bias)):
            if not isinstance(value, str):
                name = _free(f"{node.name}_{suffix}", nodes)
                made = Node(name, "constant", (), (), value.shape, str(value.dtype), node.source)
                order.append(made)
                nodes[name], constants[name] = made, value
                origins = dict.fromkeys(names[p] for p in found.parents if p in names)
                names |= {name: ", ".join(origins)} if origins else {}
                value = name
            args.append(value)
        nodes[node.name] = replace(found.linear, name=node.name, args=tuple(args))
        order.append(nodes[node.name])
    return replace(graph, nodes=tuple(order), constants=constants, parameter_names=names)


def _free(name: str, nodes: Mapping[str, Node]) -> str:
    while name in nodes:
        name += "_"
    return name


def _sole_linear(name: str, nodes: Mapping[str, Node], readers: Counter[str]) -> Node | None:
    node = nodes[name]
    known = all(nodes[a].op == "constant" for a in node.args[1:])
    return node if node.op == "linear" and known and readers[name] == 1 else None


def _batch_norm(
    add: Node, nodes: Mapping[str, Node], readers: Counter[str], constants: Mapping[str, Array]
) -> _Folded | None:
    mul = nodes[add.args[0]] if add.op == "add" and add.source.op == _NORM else None
    if mul is None or mul.op != "mul" or mul.source != add.source or readers[mul.name] != 1:
        return None
    linear = _sole_linear(mul.args[0], nodes, readers)
    if linear is None or len(linear.shape) != 2:  # with more axes the channels are not the last one
        return None
    factor, offset = (constants[n.args[1]].astype(np.float64) for n in (mul, add))
    if len(linear.args) == 3:
        offset = offset + constants[linear.args[2]].astype(np.float64) * factor
    weight = constants[linear.args[1]].astype(np.float64) * factor[:, None]
    dtype = np.dtype(linear.dtype)
    parents = (*linear.args[1:], mul.args[1], add.args[1])
    return _Folded(linear, weight.astype(dtype), offset.astype(dtype), parents)


def _addend(add: Node, nodes: Mapping[str, Node], readers: Counter[str]) -> _Folded | None:
    if add.op != "add":
        return None
    for product, addend in (add.args, add.args[::-1]):
        linear = _sole_linear(product, nodes, readers)
        if linear is None or len(linear.args) == 3 or linear.shape != add.shape:
            continue
        if nodes[addend].op == "constant" and nodes[addend].shape == linear.shape[-1:]:
            return _Folded(linear, linear.args[1], addend, ())
    return None
