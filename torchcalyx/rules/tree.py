"""Trees of elementwise operations around a root: the unit that becomes one pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.rules.datapath import ELEMENTWISE, Datapath, multiplications, supported
from torchcalyx.rules.functions import lane_multipliers

Adapt: TypeAlias = "Callable[[ExprBuilder, Mapping[str, int]], int]"
"""Computes a leaf's value from the expression inputs, by name."""


EXACT_BITS = 48
"""Widest term that a sum takes in without rounding."""


@dataclass(frozen=True)
class Tree:
    """nodes: elementwise nodes computed together, in topological order, the root last (none: the root is
    the head itself).

    leaves: values read, scalars left out, in first-use order.
    """

    nodes: tuple[Node, ...]
    leaves: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """Names of the nodes."""
        return {n.name for n in self.nodes}


def products(view: GraphView, node: Node) -> int:
    """Multipliers that one lane of a node needs."""
    return multiplications(view, node)


def grow(view: GraphView, root: Node) -> Tree:
    """The largest tree below `root` of the same shape whose inner values are used nowhere else.

    It stops where the multipliers of all lanes would pass the budget.
    """
    limit = lane_multipliers(view)
    names = {root.name}
    used = products(view, root)
    frontier = [a for a in view.args(root)]
    while frontier:
        node = frontier.pop()
        if node.name in names or node.op not in ELEMENTWISE or node.shape != root.shape:
            continue
        if supported(view, node) is not None or not view.inside(node.name, names):
            continue
        if used + products(view, node) > limit:
            continue
        used += products(view, node)
        names.add(node.name)
        frontier = [a for name in names for a in view.args(view.nodes[name]) if a.name not in names]
    return tree_of(view, names)


def tree_of(view: GraphView, names: set[str]) -> Tree:
    """The tree made of the given nodes."""
    nodes = tuple(n for n in view.graph.nodes if n.name in names)
    leaves: list[str] = []
    for node in nodes:
        for arg in node.args:
            if arg not in names and arg not in leaves and view.scalar(arg) is None:
                leaves.append(arg)
    return Tree(nodes, tuple(leaves))


def expression(
    view: GraphView,
    tree: Tree,
    inputs: Sequence[tuple[str, Value | NumberFormat]],
    out: NumberFormat | None,
    adapt: Mapping[str, Adapt] | None = None,
    same: Mapping[str, str] | None = None,
) -> Expr:
    """The tree as an expression. inputs: leaf name and format of each expression input, in order.

    adapt: what happens to a leaf before anything else (the bias of a matrix product, the division of a mean).
    same: leaves that are another input, by name. out: None leaves the result exact (up to `EXACT_BITS`).
    Without nodes the result is the first input.
    """
    path = Datapath(view)
    place: dict[str, int] = {name: path.b.input(value) for name, value in inputs}
    place.update({name: place[first] for name, first in (same or {}).items()})
    for leaf, change in (adapt or {}).items():
        place[leaf] = change(path.b, place)
    for name, value in inputs:  # sums of integers wrap before anything reads them
        if isinstance(value, Value) and name in view.nodes:
            place[name] = path.wrapped(view.nodes[name], place[name])
    result = place[inputs[0][0]]
    for node in tree.nodes:
        path.at(node)
        args = []
        for arg in node.args:
            if arg in place:
                args.append(place[arg])
                continue
            scalar = view.scalar(arg)
            assert scalar is not None, f"{arg} is neither an input of the tree nor a scalar"
            args.append(path.scalar(scalar))  # as fine as this node asks
        result = place[node.name] = path.emit(node, args)
    if out is None:
        exact = path.b.value(result)
        wide = exact.width > EXACT_BITS
        out = view.formats[tree.nodes[-1].name] if wide else fixed(max(2, exact.width), exact.frac)
    return path.b.build(result, out)
