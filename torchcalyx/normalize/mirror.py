"""Smallest elements of what +infinity stands in for, as greatest ones of the opposite numbers.

amin(where(c, x, inf)) becomes -amax(where(c, -x, -inf)), argmin likewise: masks then have one form.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from torchcalyx.ir.graph import Array, Graph, Node

_MIRRORED = {"amin": "amax", "argmin": "argmax"}


def mirror_minima(graph: Graph) -> Graph:
    """The graph without minima of choices that hold +infinity."""
    readers: dict[str, list[Node]] = {n.name: [] for n in graph.nodes}
    for node in graph.nodes:
        for name in node.args:
            readers[name].append(node)
    turned = {n.name for n in graph.nodes if _turns(n, graph, readers[n.name])}
    if not turned:
        return graph
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node.name in turned:
            args = tuple(_opposite(name, node, graph, nodes, constants) for name in node.args[1:])
            nodes.append(replace(node, args=(node.args[0], *args)))
        elif node.op in _MIRRORED and node.args[0] in turned:
            found = replace(node, op=_MIRRORED[node.op])
            if node.op == "amin":
                nodes.append(replace(found, name=f"{node.name}_mirrored"))
                found = replace(node, op="neg", args=(nodes[-1].name,), attrs=())
            nodes.append(found)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


def _turns(node: Node, graph: Graph, readers: list[Node]) -> bool:
    if node.op != "where" or node.name in graph.outputs or not readers:
        return False
    values = [graph.constants[a] for a in node.args[1:] if a in graph.constants]
    infinite = any(np.isposinf(v.astype(np.float64)).any() for v in values)
    return infinite and all(r.op in _MIRRORED for r in readers)


def _opposite(name: str, node: Node, graph: Graph, nodes: list[Node], constants: dict[str, Array]) -> str:
    made = f"{node.name}_opposite_{name}"
    source = graph.node(name)
    if name in graph.constants:
        constants[made] = np.negative(graph.constants[name])
        nodes.append(replace(source, name=made))
    else:
        nodes.append(replace(source, name=made, op="neg", args=(name,), attrs=()))
    return made
