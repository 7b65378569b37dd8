"""What stands behind the sums of a kernel: bias and the elementwise tree of the model, evaluated as the
results leave.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import Placed, distinct, lane_fit, place_operands
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Expr, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, bits_for_range, fixed
from torchcalyx.kernels.ports.access import Access, Operand, row_major, whole
from torchcalyx.match import Reject
from torchcalyx.rules.datapath import ELEMENTWISE, supported
from torchcalyx.rules.tree import Adapt, Tree, expression, grow, products

_BIAS = "(bias)"


def fusable_heads(
    view: GraphView, node: Node, heads: Collection[str], what: str
) -> tuple[list[str], Tree] | Reject:
    """The nodes of kinds in `heads` whose results the tree below `node` takes in alone, at least one, and the
    tree. what: their name in the refusal.
    """
    if node.op not in ELEMENTWISE:
        return Reject(f"{node.op} is not elementwise", related=False)
    problem = supported(view, node)
    if problem is not None:
        return problem
    tree = grow(view, node)
    found = [
        name
        for name in tree.leaves
        if view.nodes[name].op in heads
        and view.nodes[name].shape == node.shape
        and view.inside(name, tree.names)
    ]
    return (found, tree) if found else Reject(f"no {what} of the same shape feeds it alone")


def fused_head(view: GraphView, node: Node, heads: Collection[str]) -> tuple[Node, Tree] | Reject:
    """The last of the fusable heads, and the tree, which the drain can evaluate."""
    fusable = fusable_heads(view, node, heads, " or ".join(heads))
    if isinstance(fusable, Reject):
        return fusable
    found, tree = fusable
    if any(products(view, n) for n in tree.nodes):
        return Reject("the drain cannot multiply two tensors")
    order = [n.name for n in view.graph.nodes]
    return view.nodes[max(found, key=order.index)], tree


class Drain:
    """Bias and tree behind `head`, written over `domain`.

    order: axes of the head's result in the order of the domain (leading domain dimensions of size 1 beyond
    them are allowed).
    """

    def __init__(
        self,
        builder: SelectionBuilder,
        head: Node,
        tree: Tree,
        domain: tuple[int, ...],
        order: tuple[int, ...],
    ) -> None:
        self.builder, self.head, self.tree, self.domain, self.order = builder, head, tree, domain, order

    def epilogue(
        self,
        total: Value,
        right: NumberFormat,
        fmt: NumberFormat,
        taken: Sequence[str],
        out: Operand,
        features: tuple[int, int],
    ) -> tuple[Expr, Placed]:
        """Expression and memories for the results that `out` writes.

        total: range of the sums. right: format of the weights. taken: memories that the kernel reads
        through other ports. features: first and count of the last domain dimension that this call computes.
        """
        head = self.head.name
        inputs: list[tuple[str, Value | NumberFormat]] = [(head, total)]
        named: list[tuple[str, Located]] = []
        adapt: dict[str, Adapt] = {}
        if len(self.head.args) == 3:
            bias = self._bias(self.head.args[2], total, right)
            named.append((_BIAS, self._part(bias, bias.access, features)))
            adapt[head] = lambda b, place: b.add(place[head], place[_BIAS])
        for name in self.tree.leaves:
            if name != head:
                value = self.builder.value(name)
                access = value.access.expand(self.head.shape).permute(self.order)
                named.append((name, self._part(value, access, features)))
        named, same = distinct(named)
        values = [value for _, value in named]
        inputs += [(name, value.fmt) for name, value in named]
        expr = expression(self.builder.view, self.tree, inputs, fmt, adapt, same)
        sizes = out.access.sizes
        why = f"the drain of {self.head.op} writes {list(sizes)}"
        placed = place_operands(self.builder, values, sizes, tuple(range(len(sizes))), lane_fit, why, taken)
        return expr, placed

    def _part(self, value: Located, access: Access, features: tuple[int, int]) -> Located:
        """The value over the domain, restricted to some features."""
        access = access.expand(self.domain)
        rank = len(self.domain)
        starts, sizes = [0] * rank, list(self.domain)
        starts[-1], sizes[-1] = features
        return Located(value.buffer, access.slice(tuple(starts), (1,) * rank, tuple(sizes)), value.fmt)

    def _bias(self, name: str, total: Value, right: NumberFormat) -> Located:
        """A constant bias at the fraction of the sums, as wide as it needs; any other value as it lies."""
        view = self.builder.view
        node, fmt = view.nodes[name], view.formats[name]
        if node.op != "constant" or fmt.kind != "fixed":
            return self.builder.value(name)
        exact = bias_format(view, name, total, right)
        layout = row_major(node.shape, self.builder.lanes)
        buffer = self.builder.weight(name, exact, layout, lambda stored: stored)
        return Located(buffer, whole(node.shape, layout), exact)


def bias_format(view: GraphView, name: str, total: Value, right: NumberFormat) -> NumberFormat:
    """Format of a constant bias: the fraction of the sums, as wide as its values need, at most twice the
    weights' width.
    """
    values = np.abs(np.asarray(view.graph.constants[name], dtype=np.float64))
    largest = int(np.ceil(np.ldexp(values.max() if values.size else 0.0, total.frac)))
    widest = min(64, 2 * right.width)
    bits = max(2, bits_for_range(-largest, largest))
    return fixed(min(bits, widest), total.frac - max(0, bits - widest))
