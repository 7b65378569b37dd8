"""Folds an eval-mode batch norm into the linear layer before it when nothing else reads that layer's
result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from torchcalyx.graph import Array, Graph, Node

_NORM = "aten._native_batch_norm_legit_no_training"


def fold_batch_norm(graph: Graph) -> Graph:
    """linear, mul, add of a batch norm over the last axis -> one linear with other constants (computed in
    float64).
    """
    readers = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))
    nodes = {n.name: n for n in graph.nodes}
    constants, names = dict(graph.constants), dict(graph.parameter_names)
    for add in graph.nodes:
        chain = _chain(add, nodes, readers)
        if chain is not None:
            linear, mul = chain
            weight, bias = _folded(graph.constants, linear, mul, add)
            for suffix, value in (("weight", weight), ("bias", bias)):
                constants[f"{add.name}_{suffix}"] = value
                names[f"{add.name}_{suffix}"] = ", ".join(
                    dict.fromkeys(names[a] for n in (linear, mul, add) for a in n.args[1:] if a in names)
                )
            args = (linear.args[0], f"{add.name}_weight", f"{add.name}_bias")
            nodes[add.name] = replace(linear, name=add.name, args=args)
    return _ordered(graph, nodes, constants, names)


def _chain(add: Node, nodes: dict[str, Node], readers: Counter[str]) -> tuple[Node, Node] | None:
    mul = nodes[add.args[0]] if add.op == "add" and add.source.op == _NORM else None
    if mul is None or mul.op != "mul" or mul.source != add.source or readers[mul.name] != 1:
        return None
    linear = nodes[mul.args[0]]
    constant = all(nodes[a].op == "constant" for a in (*linear.args[1:], mul.args[1], add.args[1]))
    if linear.op != "linear" or readers[linear.name] != 1 or not constant:
        return None
    return (linear, mul) if len(linear.shape) == 2 and len(nodes[mul.args[1]].shape) == 1 else None


def _folded(constants: object, linear: Node, mul: Node, add: Node) -> tuple[Array, Array]:
    assert isinstance(constants, dict)
    dtype = np.dtype(linear.dtype)
    factor = constants[mul.args[1]].astype(np.float64)
    offset = constants[add.args[1]].astype(np.float64)
    if len(linear.args) == 3:
        offset = offset + constants[linear.args[2]].astype(np.float64) * factor
    weight = constants[linear.args[1]].astype(np.float64) * factor[:, None]
    return weight.astype(dtype), offset.astype(dtype)


def _ordered(
    graph: Graph, nodes: dict[str, Node], constants: dict[str, Array], names: dict[str, str]
) -> Graph:
    order: list[Node] = []
    for old in graph.nodes:
        new = nodes[old.name]
        if new is not old:
            for arg in new.args[1:]:
                value = constants[arg]
                order.append(Node(arg, "constant", (), (), value.shape, str(value.dtype), new.source))
        order.append(new)
    return replace(graph, nodes=tuple(order), constants=constants, parameter_names=names)
