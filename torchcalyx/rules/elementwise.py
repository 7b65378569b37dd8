"""Elementwise trees: any chain of elementwise operations is one pipeline."""

from __future__ import annotations

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import (
    copies_needed,
    distinct,
    elementwise_fit,
    loop_orders,
    place_operands,
    result_layouts,
    unpermuted,
)
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.datapath import ELEMENTWISE, supported
from torchcalyx.rules.tree import Tree, expression, grow


def _apply(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in ELEMENTWISE:
        return Reject(f"{node.op} is not an elementwise operation", related=False)
    problem = supported(view, node)
    if problem is not None:
        return problem
    tree = grow(view, node)
    return Match(
        tuple(n.name for n in tree.nodes), tree.leaves, lambda builder: build_tree(builder, tree, node)
    )


def build_tree(builder: SelectionBuilder, tree: Tree, node: Node) -> Located:
    """One elementwise kernel for the tree, in the loop order that needs the fewest copies."""
    view = builder.view
    fmt = view.formats[node.name]
    named, same = distinct([(name, builder.value(name)) for name in tree.leaves])
    values = [value for _, value in named]
    expr = expression(view, tree, [(name, value.fmt) for name, value in named], fmt, same=same)
    domain = node.shape
    if not domain:
        values = [Located(v.buffer, v.access.expand((1,)), v.fmt) for v in values]
        domain = (1,)
    best: tuple[int, tuple[int, ...], Operand] | None = None
    wish = view.wanted.get(node.name)
    for order in ([wish] if wish else []) + loop_orders(builder, values, domain):
        shape = tuple(domain[d] for d in order)
        for layout in result_layouts(shape, builder.lanes):
            out = Operand(fmt, layout, whole(shape, layout))
            copied = copies_needed(builder, values, domain, order, elementwise_fit(out))
            if best is None or copied < best[0]:
                best = (copied, order, out)
    assert best is not None
    _, order, out = best
    placed = place_operands(
        builder, values, domain, order, elementwise_fit(out), f"{node.op} loops over {list(out.access.sizes)}"
    )
    spec = elementwise(expr, placed.operands, out, view.options.multiplier_stages)
    buffer = builder.buffer(node.name, fmt, out.layout)
    builder.call(spec, placed.buffers, [buffer])
    access = unpermuted(out.access, order)
    if not node.shape:
        access = whole((), out.layout)
    return Located(buffer, access, fmt)


RULES = (Rule("elementwise", _apply),)
