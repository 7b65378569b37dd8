"""Folds what follows a linear layer or a convolution into its constants when nothing else reads the layer's
own result.

Nothing is folded into a layer that follows: zeros of its padding would have to pass the norm as well. An
eval-mode batch norm goes into weight and bias (computed in float64), a known addend into a missing bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from torchcalyx.ir.graph import Array, Graph, Node

_NORMS = ("aten._native_batch_norm_legit_no_training", "aten.instance_norm")


@dataclass(frozen=True, slots=True)
class _Folded:
    """A new linear layer: the old one, its operands (names or new constants), the parents of the new ones."""

    linear: Node
    weight: str | Array
    bias: str | Array
    parents: tuple[str, ...]


def fold_into_linear(graph: Graph) -> Graph:
    """A layer + batch norm over its results' channels, and a layer without bias + constant, each become one
    layer.
    """
    readers = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))
    nodes = graph.by_name
    order: list[Node] = []
    constants, names = dict(graph.constants), dict(graph.parameter_names)
    for node in graph.nodes:
        found = _batch_norm(node, nodes, readers, graph.constants) or _addend(
            node, nodes, readers, graph.constants
        )
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
    return node if node.op in ("linear", "conv") and known and readers[name] == 1 else None


def _along_channels(constant: Node, layer: Node) -> bool:
    """Whether a node is a constant with one value for each channel of the layer's result, broadcast over
    the rest.
    """
    channels = layer.shape[1] if layer.op == "conv" else layer.shape[-1]
    place = 1 if layer.op == "conv" else len(layer.shape) - 1
    full = (1,) * (len(layer.shape) - len(constant.shape)) + constant.shape
    expected = tuple(channels if axis == place else 1 for axis in range(len(layer.shape)))
    return constant.op == "constant" and full == expected


def _batch_norm(
    add: Node, nodes: Mapping[str, Node], readers: Counter[str], constants: Mapping[str, Array]
) -> _Folded | None:
    mul = nodes[add.args[0]] if add.op == "add" and add.source.op in _NORMS else None
    if mul is None or mul.op != "mul" or mul.source != add.source or readers[mul.name] != 1:
        return None
    linear = _sole_linear(mul.args[0], nodes, readers)
    if linear is None or not all(_along_channels(nodes[n.args[1]], linear) for n in (mul, add)):
        return None  # behind a linear layer of more than two axes the channels are not the last one
    factor, offset = (constants[n.args[1]].astype(np.float64).reshape(-1) for n in (mul, add))
    if len(linear.args) == 3:
        offset = offset + constants[linear.args[2]].astype(np.float64) * factor
    weight = constants[linear.args[1]].astype(np.float64)
    weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    dtype = np.dtype(linear.dtype)
    parents = (*linear.args[1:], mul.args[1], add.args[1])
    return _Folded(linear, weight.astype(dtype), offset.astype(dtype), parents)


def _addend(
    add: Node, nodes: Mapping[str, Node], readers: Counter[str], constants: Mapping[str, Array]
) -> _Folded | None:
    if add.op != "add":
        return None
    for product, addend in (add.args, add.args[::-1]):
        linear = _sole_linear(product, nodes, readers)
        if linear is None or len(linear.args) == 3 or linear.shape != add.shape:
            continue
        if _along_channels(nodes[addend], linear):
            flat = len(nodes[addend].shape) == 1
            bias = addend if flat else constants[addend].reshape(-1)
            return _Folded(linear, linear.args[1], bias, () if flat else (addend,))
    return None
