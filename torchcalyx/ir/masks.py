"""Masks in front of a softmax or an extreme: which values of a graph are scores, and which only say what is
left out.

A head is a value that nothing reads but its own maximum along some axes and the exponential of the
difference to it, or nothing but maxima and their indices. Below it, through sums, choices and views, lie the
scores and the masks that were added to them or chosen instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.reference import evaluate

_VIEWS = ("view", "permute", "expand", "slice")
EXPONENTIALS = ("exp", "exp2")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value at the end of a head's sums and choices. factor: what it is multiplied with on the way up.

    chosen: it stands alone where a condition picks it.
    """

    name: str
    factor: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class Head:
    """value: the masked scores. dims: axes of the softmax. cone: nodes between the leaves and the value, the
    value included (not the leaves). extreme: only maxima and their indices read it.
    """

    value: str
    dims: tuple[int, ...]
    leaves: tuple[Leaf, ...]
    cone: frozenset[str]
    extreme: bool = False


def softmax_heads(graph: Graph) -> tuple[Head, ...]:
    """All heads, in the order of the graph."""
    nodes = graph.by_name
    readers: dict[str, list[Node]] = {n.name: [] for n in graph.nodes}
    for node in graph.nodes:
        for name in node.args:
            readers[name].append(node)
    found = []
    for node in graph.nodes:
        if node.op == "amax" and node.dtype.startswith("float"):
            value = node.args[0]
            if value not in graph.outputs and _only_softmax(value, node, nodes, readers):
                leaves, cone = _walk(graph, nodes, value)
                found.append(Head(value, node.ints("dims"), leaves, cone))
    return (*found, *_extreme_heads(graph, nodes, readers))


def _extreme_heads(
    graph: Graph, nodes: Mapping[str, Node], readers: Mapping[str, Sequence[Node]]
) -> Iterator[Head]:
    """Choices among scores and minus infinity of which only the greatest are asked for."""
    for node in graph.nodes:
        asked = readers[node.name]
        if node.op != "where" or node.name in graph.outputs or not asked:
            continue
        constants = [graph.constants[a] for a in node.args[1:] if a in graph.constants]
        if any(r.op not in ("amax", "argmax") for r in asked) or len({_folded(r) for r in asked}) != 1:
            continue
        if len(constants) == 1 and bool(np.isneginf(constants[0].astype(np.float64)).all()):
            leaves = tuple(Leaf(name, 1.0, True) for name in node.args[1:])
            yield Head(node.name, _folded(asked[0]), leaves, frozenset((node.name,)), extreme=True)


def _folded(node: Node) -> tuple[int, ...]:
    return node.ints("dims") if node.op == "amax" else (node.whole("dim"),)


def _only_softmax(
    value: str, peak: Node, nodes: Mapping[str, Node], readers: Mapping[str, Sequence[Node]]
) -> bool:
    for reader in readers[value]:
        if reader is peak:
            continue
        if reader.op != "sub" or reader.args[0] != value or _origin(reader.args[1], nodes) != peak.name:
            return False
        if not readers[reader.name] or any(r.op not in EXPONENTIALS for r in readers[reader.name]):
            return False
    return len(readers[value]) > 1


def _origin(name: str, nodes: Mapping[str, Node]) -> str:
    while nodes[name].op in ("view", "expand"):
        name = nodes[name].args[0]
    return name


def _walk(graph: Graph, nodes: Mapping[str, Node], value: str) -> tuple[tuple[Leaf, ...], frozenset[str]]:
    leaves: dict[str, Leaf] = {}
    cone: set[str] = set()
    waiting = [Leaf(value, 1.0, False)]
    while waiting:
        at = waiting.pop()
        node = nodes[at.name]
        scale = _scale(node, graph, nodes)
        if node.op in _VIEWS or (node.op == "cast" and nodes[node.args[0]].dtype.startswith("float")):
            below = [Leaf(node.args[0], at.factor, at.chosen)]
        elif node.op == "add":
            below = [Leaf(name, at.factor, at.chosen) for name in node.args]
        elif node.op == "where":
            below = [Leaf(name, at.factor, True) for name in node.args[1:]]
        elif scale is not None:
            below = [Leaf(node.args[0], at.factor * scale, at.chosen)]
        else:
            leaves.setdefault(at.name, at)
            continue
        cone.add(at.name)
        waiting += below
    return tuple(leaves.values()), frozenset(cone)


def _scale(node: Node, graph: Graph, nodes: Mapping[str, Node]) -> float | None:
    """The positive constant that a computed value is multiplied with, None for other nodes."""
    if node.op == "div_const" and float(node.number("value")) > 0:
        return 1.0 / float(node.number("value"))
    if node.op != "mul" or nodes[node.args[1]].op != "constant" or nodes[node.args[0]].op == "constant":
        return None
    value = graph.constants[node.args[1]]
    if value.size != 1 or is_switch(node.args[0], graph, nodes):
        return None
    number = float(np.asarray(value, np.float64).reshape(()))
    return number if 0 < number < np.inf else None


def is_switch(name: str, graph: Graph, nodes: Mapping[str, Node]) -> bool:
    """Whether a float value is 0 or 1 everywhere: a cast predicate, or one minus it."""
    node = nodes[name]
    if node.op in _VIEWS:
        return is_switch(node.args[0], graph, nodes)
    if node.op == "cast":
        source = nodes[node.args[0]]
        return source.dtype == "bool" or is_switch(source.name, graph, nodes)
    if node.op == "sub":
        one = graph.constants.get(node.args[0])
        return one is not None and bool((one == 1).all()) and is_switch(node.args[1], graph, nodes)
    return False


def left_out_completely(graph: Graph, head: Head, inputs: Mapping[str, Array]) -> tuple[int, ...] | None:
    """Index of a row in which every position is masked by minus infinity, None when there is none.

    inputs: arrays of the graph's inputs. Scores count as 0: only masks decide.
    """
    values: dict[str, Array] = {}
    nodes = graph.by_name

    def value(name: str) -> Array:
        if name not in values:
            values[name] = compute(nodes[name])
        return values[name]

    def compute(node: Node) -> Array:
        if node.op == "constant":
            return graph.constants[node.name]
        if node.op == "input":
            return inputs[node.name]
        if node.op in _PRODUCTS:
            return np.zeros(node.shape)
        return evaluate(node, [value(a) for a in node.args])

    masked = np.isneginf(np.asarray(value(head.value), np.float64)).all(axis=head.dims)
    return tuple(int(i) for i in np.argwhere(masked)[0]) if masked.any() else None


def infinite_leaves(graph: Graph, head: Head) -> bool:
    """Whether a constant mask of the head holds minus infinity."""
    return any(
        np.isneginf(np.asarray(graph.constants[leaf.name], np.float64)).any()
        for leaf in head.leaves
        if leaf.name in graph.constants
    )


def infinite_masks(graph: Graph) -> frozenset[str]:
    """Constants that only heads read, as masks."""
    heads = softmax_heads(graph)
    cones = frozenset(name for head in heads for name in head.cone)
    leaves = {leaf.name for head in heads for leaf in head.leaves if leaf.name in graph.constants}
    others = {a for n in graph.nodes if n.name not in cones for a in n.args} | set(graph.outputs)
    return frozenset(leaves - others)


def inputs_of_masks(graph: Graph, head: Head) -> frozenset[str]:
    """The graph's inputs that decide what a head leaves out: masks themselves, and what conditions read."""
    nodes = graph.by_name
    waiting = [leaf.name for leaf in head.leaves if not _is_score(nodes[leaf.name])]
    waiting += [nodes[name].args[0] for name in head.cone if nodes[name].op == "where"]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += nodes[name].args
    return frozenset(seen) & frozenset(graph.inputs)


def _is_score(node: Node) -> bool:
    """Whether a leaf is computed by a matrix product, and so decides nothing."""
    return node.op in _PRODUCTS


_PRODUCTS = ("linear", "matmul", "conv")
