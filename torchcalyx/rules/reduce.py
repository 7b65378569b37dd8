"""Reductions: sum, mean, extremes, any and all, with elementwise operations before and after them in the
same kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import distinct, lane_fit, place_operands
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Value
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.kernels.folds.fold import FoldOp, accumulator, mean_constant
from torchcalyx.kernels.folds.reduce import reduce
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.kernels.ports.reader import result_value
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.datapath import ELEMENTWISE, supported
from torchcalyx.rules.drain import fusable_heads
from torchcalyx.rules.tree import Adapt, Tree, expression, grow, products, tree_of

FOLDS: Mapping[str, FoldOp] = {
    "sum": "add",
    "mean": "add",
    "amax": "max",
    "amin": "min",
    "any": "max",
    "all": "min",
}


def _fused(view: GraphView, node: Node) -> Match | Reject:
    found = fusable_heads(view, node, FOLDS, "reduction")
    if isinstance(found, Reject):
        return found
    heads, tree = found
    return _match(view, view.nodes[heads[-1]], tree, node)


def _alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in FOLDS:
        return Reject(f"{node.op} is not a reduction", related=False)
    return _match(view, node, tree_of(view, set()), node)


def _match(view: GraphView, head: Node, after: Tree, root: Node) -> Match | Reject:
    source = view.args(head)[0]
    before = tree_of(view, set())
    if source.op in ELEMENTWISE and supported(view, source) is None and view.inside(source.name, {head.name}):
        before = grow(view, source)
    pairs = sum(products(view, n) for n in (*before.nodes, *after.nodes)) * view.lanes
    if pairs > view.options.multipliers:
        before = tree_of(view, set())
    leaves = before.leaves if before.nodes else (source.name,)
    others = tuple(name for name in after.leaves if name != head.name)
    covers = (head.name, *(n.name for n in (*before.nodes, *after.nodes)))
    return Match(
        covers, (*leaves, *others), lambda b: _Reduction(head, root, before, after, leaves, others).build(b)
    )


@dataclass(frozen=True)
class _Reduction:
    """before: elementwise tree whose root is reduced. after: tree behind the reduction, ending in `root`."""

    head: Node
    root: Node
    before: Tree
    after: Tree
    leaves: tuple[str, ...]
    others: tuple[str, ...]

    def build(self, builder: SelectionBuilder) -> Located:
        """One reduce kernel."""
        view = builder.view
        source = view.args(self.head)[0]
        reduced = self.head.ints("dims")
        fmt = view.formats[self.root.name]
        shape = tuple(s for d, s in enumerate(source.shape) if d not in reduced) or (1,)
        layout = row_major(shape, builder.lanes)
        out = Operand(fmt, layout, whole(shape, layout))

        named, same = distinct([(name, builder.value(name)) for name in self.leaves])
        values = [value for _, value in named]
        domain = source.shape or (1,)
        why = f"{self.head.op} reads {list(domain)}"
        placed = place_operands(builder, values, domain, tuple(range(len(domain))), lambda operand: None, why)
        inputs = [(name, value.fmt) for name, value in named]
        prologue = expression(view, self.before, inputs, self._prologue_format(view, source), same=same)

        count = product(domain[d] for d in reduced) if source.shape else 1
        total = accumulator(FOLDS[self.head.op], result_value(prologue), count)
        further, alike = distinct([(name, self._over(builder, name, shape)) for name in self.others])
        extras = [value for _, value in further]
        extra_order = tuple(range(len(shape)))
        why = f"{self.head.op} writes {list(shape)}"
        behind = place_operands(builder, extras, shape, extra_order, lane_fit, why, placed.buffers)
        epilogue = expression(
            view,
            self.after,
            [(self.head.name, total), *((name, value.fmt) for name, value in further)],
            fmt,
            self._mean(count, total, finest(view.formats[self.head.name], fmt)),
            alike,
        )
        spec = reduce(
            FOLDS[self.head.op],
            prologue,
            placed.operands,
            reduced if source.shape else (0,),
            epilogue,
            out,
            behind.operands,
            view.options.multiplier_stages,
        )
        buffer = builder.buffer(self.root.name, fmt, layout)
        builder.call(spec, [*placed.buffers, *behind.buffers], [buffer])
        access = out.access.reshape(self.root.shape)
        assert access is not None
        return Located(buffer, access, fmt)

    def _prologue_format(self, view: GraphView, source: Node) -> NumberFormat | None:
        """Terms of a real sum stay exact; an extreme picks among narrowed ones."""
        fmt = view.formats[source.name]
        return None if FOLDS[self.head.op] == "add" and fmt.kind == "fixed" and self.before.nodes else fmt

    def _mean(self, count: int, total: Value, fmt: NumberFormat) -> dict[str, Adapt] | None:
        """The division of a mean, exact enough for the mean's own format, not only for what follows."""
        if self.head.op != "mean":
            return None
        integer, frac = mean_constant(count, total, fmt)
        return {self.head.name: lambda b, place: b.scale_by(place[self.head.name], integer, frac)}

    def _over(self, builder: SelectionBuilder, name: str, shape: tuple[int, ...]) -> Located:
        """Another operand of the trailing tree, over the kept dimensions."""
        value = builder.value(name)
        access = value.access.expand(self.root.shape).reshape(shape)
        assert access is not None, "only dimensions of size 1 are dropped"
        return Located(value.buffer, access, value.fmt)


def finest(first: NumberFormat, second: NumberFormat) -> NumberFormat:
    """The one with the smaller unit in the last place."""
    return max(first, second, key=lambda fmt: fmt.frac)


RULES = (Rule("reduction with epilogue", _fused), Rule("reduction", _alone))
