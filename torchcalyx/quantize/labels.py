"""Which elements of a graph's tensors may be scaled together without changing what the model computes.

A layer with constant weights may give each channel of its result any positive factor, if every reader undoes
it in constants of its own. Each such channel is a label; operations that keep factors (ReLU, pooling, views,
sums of two tensors) pass labels on and join those that must have one factor. Label 0 has factor 1: inputs,
outputs, and everything that a reader without constants sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.powers import exponents
from torchcalyx.ir.reference import evaluate

Labels: TypeAlias = "npt.NDArray[np.int64]"

FIXED = 0
"""The label of factor 1."""

_SAME = ("relu", "neg", "abs", "div_const")
_MOVED = ("view", "permute", "slice", "expand", "cat", "upsample")
_FOLDED = ("sum", "mean", "amax", "amin")
_JOINED = ("add", "sub", "maximum", "minimum")


class Joined:
    """Labels that have one factor (union-find)."""

    def __init__(self) -> None:
        self.parents = [FIXED]

    def fresh(self, count: int) -> Labels:
        """New labels."""
        first = len(self.parents)
        self.parents.extend(range(first, first + count))
        return np.arange(first, first + count)

    def root(self, label: int) -> int:
        """The label that stands for all joined with this one; FIXED for those joined with it."""
        while self.parents[label] != label:
            self.parents[label] = self.parents[self.parents[label]]
            label = self.parents[label]
        return label

    def join(self, a: Labels, b: Labels | int) -> None:
        """Give elements in the same place one factor."""
        a, other = np.broadcast_arrays(a, np.asarray(b))
        a, other = core(a, other)
        pairs = np.unique(a.astype(np.int64) * len(self.parents) + other)
        for pair in pairs:
            x, y = (self.root(int(v)) for v in divmod(int(pair), len(self.parents)))
            self.parents[max(x, y)] = min(x, y)

    def join_along(self, labels: Labels, axes: tuple[int, ...]) -> Labels:
        """Give all elements along some axes one factor; the labels with these axes of size 1."""
        first = labels[tuple(slice(0, 1) if d in axes else slice(None) for d in range(labels.ndim))]
        self.join(labels, first)
        return first

    def roots(self) -> Labels:
        """The root of every label."""
        return np.array([self.root(label) for label in range(len(self.parents))])


@dataclass(frozen=True)
class Labelled:
    """labels: of each float value's elements, as roots, of the value's shape. scalable: nodes whose own
    constants take factors in and out. count: of labels.
    """

    labels: Mapping[str, Labels]
    scalable: frozenset[str]
    count: int

    def members(self, name: str) -> Labels:
        """The different labels of a value."""
        return np.unique(core(self.labels[name])[0])

    def together(self) -> Labels:
        """For each label the least of those that stand beside it in some value, and so on."""
        joined = Joined()
        joined.fresh(self.count - 1)
        for name in self.labels:
            members = self.members(name)
            joined.join(members, np.broadcast_to(members[:1], members.shape))
        return joined.roots()


def label(graph: Graph, kept: frozenset[str], *, opened: bool = False) -> Labelled:
    """Labels of all float values. kept: values whose format the user has given, which stay as they are.
    opened: outputs have labels too, where these differ along one axis only.
    """
    walk = _Walk(graph, kept)
    for node in graph.nodes:
        if node.dtype.startswith("float") or any(a in walk.labels for a in node.args):
            walk.visit(node)
    for name in (*graph.outputs, *kept):
        if name in walk.labels and not (
            opened and name not in kept and varying_axis(walk.labels[name]) is not None
        ):
            walk.joined.join(walk.labels[name], FIXED)
    roots = walk.joined.roots()
    labels = {n: np.broadcast_to(roots[core(v)[0]], v.shape) for n, v in walk.labels.items()}
    return Labelled(labels, frozenset(walk.scalable), len(roots))


class _Walk:
    """Labels of the nodes so far."""

    def __init__(self, graph: Graph, kept: frozenset[str]) -> None:
        self.graph, self.nodes, self.joined, self.kept = graph, graph.by_name, Joined(), kept
        self.labels: dict[str, Labels] = {}
        self.scalable: set[str] = set()
        self.readers = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))

    def visit(self, node: Node) -> None:
        """The labels of one node, from those of its operands."""
        rule = _RULES.get(node.op)
        found = None if rule is None else rule(self, node)
        if found is None:
            for name in node.args:
                if name in self.labels:
                    self.joined.join(self.labels[name], FIXED)
            found = np.asarray(FIXED)
        if node.dtype.startswith("float"):
            self.labels[node.name] = np.broadcast_to(found, node.shape)

    def own(self, name: str) -> bool:
        """Whether a value is a constant that nothing else reads and that a factor leaves exact enough."""
        node = self.nodes[name]
        free = node.op == "constant" and name not in self.kept and self.readers[name] == 1
        return free and node.dtype in ("float32", "float64")

    def computed(self, node: Node) -> list[Labels] | None:
        """Labels of all operands; None when one is a constant."""
        if any(self.nodes[a].op == "constant" or a not in self.labels for a in node.args):
            return None
        return [self.labels[a] for a in node.args]


def _layer(walk: _Walk, node: Node) -> Labels | None:
    """Linear layers and convolutions: factors along the channels of operand and result are free."""
    x = walk.nodes[node.args[0]]
    if x.op == "constant" or not all(walk.own(a) for a in node.args[1:]):
        return None
    place = 1 if node.op == "conv" else len(x.shape) - 1
    walk.joined.join_along(walk.labels[x.name], tuple(d for d in range(len(x.shape)) if d != place))
    walk.scalable.add(node.name)
    labels = walk.joined.fresh(walk.nodes[node.args[1]].shape[0])
    place = 1 if node.op == "conv" else len(node.shape) - 1
    return labels.reshape([-1 if d == place else 1 for d in range(len(node.shape))])


def _with_constant(walk: _Walk, node: Node) -> tuple[Node, Node] | None:
    """The computed operand and the constant array of one's own that stands beside it."""
    if len(node.args) != 2:
        return None
    for x, constant in (node.args, node.args[::-1]):
        if walk.nodes[x].op != "constant" and walk.own(constant) and x in walk.labels:
            return walk.nodes[x], walk.nodes[constant]
    return None


def repeated(constant: Node, node: Node) -> tuple[int, ...]:
    """Axes of a result along which a constant operand is the same."""
    shape = (1,) * (len(node.shape) - len(constant.shape)) + constant.shape
    return tuple(d for d, (have, full) in enumerate(zip(shape, node.shape, strict=True)) if have != full)


def _mul(walk: _Walk, node: Node) -> Labels | None:
    found = _with_constant(walk, node)
    if found is None:
        return None
    x, constant = found
    value = walk.graph.constants[constant.name]
    if value.size == 1 or exponents(value) is not None:  # stays as it is: the datapath shifts
        return walk.labels[x.name] if x.shape == node.shape else None
    if x.shape != node.shape:
        return None
    walk.joined.join_along(walk.labels[x.name], repeated(constant, node))
    walk.scalable.add(node.name)
    shape = (1,) * (len(node.shape) - len(constant.shape)) + constant.shape
    return walk.joined.fresh(value.size).reshape(shape)


def _add(walk: _Walk, node: Node) -> Labels | None:
    operands = walk.computed(node)
    if operands is not None:
        wide = [np.broadcast_to(labels, node.shape) for labels in operands]
        for other in wide[1:]:
            walk.joined.join(wide[0], other)
        return wide[0]
    found = _with_constant(walk, node)
    if found is None or node.op not in ("add", "sub") or found[0].shape != node.shape:
        return None
    x, constant = found
    walk.joined.join_along(walk.labels[x.name], repeated(constant, node))
    walk.scalable.add(node.name)
    return walk.labels[x.name]


def _same(walk: _Walk, node: Node) -> Labels | None:
    return walk.labels.get(node.args[0])


def _clamp(walk: _Walk, node: Node) -> Labels | None:
    free = node.attr("min") in (None, 0) and node.attr("max") in (None, 0)
    return walk.labels.get(node.args[0]) if free else None


def _where(walk: _Walk, node: Node) -> Labels | None:
    """A choice between two computed values; a leaky ReLU chooses by the sign, which factors keep."""
    x, y = node.args[1:]
    if x not in walk.labels or y not in walk.labels or "constant" in (walk.nodes[x].op, walk.nodes[y].op):
        return None
    one, other = (np.broadcast_to(walk.labels[n], node.shape) for n in (x, y))
    walk.joined.join(one, other)
    return one


def _compare(walk: _Walk, node: Node) -> Labels | None:
    """A comparison with zero is the same for every factor."""
    x, y = (walk.nodes[a] for a in node.args)
    zero = y.op == "constant" and not walk.graph.constants[y.name].any()
    return np.asarray(FIXED) if zero and x.op != "constant" else None


def _moved(walk: _Walk, node: Node) -> Labels | None:
    operands = walk.computed(node)
    return None if operands is None else evaluate(replace(node, dtype="int64"), operands)


def _pad(walk: _Walk, node: Node) -> Labels | None:
    operands = walk.computed(node)
    if operands is None or node.attr("value") != 0:
        return None
    width = list(zip(node.ints("before"), node.ints("after"), strict=True))
    return np.pad(operands[0], width, mode="edge") if all(w >= 0 for p in width for w in p) else None


def _pool(walk: _Walk, node: Node) -> Labels | None:
    operands = walk.computed(node)
    axes = tuple(range(2, len(node.shape)))
    return None if operands is None else walk.joined.join_along(operands[0], axes)


def _folded(walk: _Walk, node: Node) -> Labels | None:
    operands = walk.computed(node)
    if operands is None:
        return None
    dims = node.ints("dims")
    kept = walk.joined.join_along(operands[0], dims)
    return kept if node.attr("keepdim") else np.squeeze(kept, axis=dims)


def varying_axis(labels: Labels) -> int | None:
    """The only axis along which labels differ; None when there is no such axis."""
    few = core(labels)[0]
    if not few.size:
        return None
    found = [d for d in range(few.ndim) if np.any(few != np.take(few, [0], d))]
    return found[0] if len(found) == 1 else None


def core(*arrays: Labels) -> tuple[Labels, ...]:
    """The arrays without the repetitions that all of them share."""
    rank = arrays[0].ndim
    repeated = [all(a.strides[d] == 0 for a in arrays) for d in range(rank)]
    index = tuple(slice(0, 1) if r else slice(None) for r in repeated)
    return tuple(a[index] for a in arrays)


Rule: TypeAlias = Callable[[_Walk, Node], "Labels | None"]

_RULES: Mapping[str, Rule] = {
    "linear": _layer, "conv": _layer, "mul": _mul, "clamp": _clamp, "where": _where, "pad": _pad,
    "max_pool": _pool, "sum_pool": _pool, "gt": _compare, "lt": _compare, "ge": _compare, "le": _compare,
    **dict.fromkeys(_SAME, _same), **dict.fromkeys(_MOVED, _moved), **dict.fromkeys(_FOLDED, _folded),
    **dict.fromkeys(_JOINED, _add),
}  # fmt: skip
