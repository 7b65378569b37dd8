"""What stands behind the sums of a kernel: bias and the elementwise tree of the model, evaluated as the
results leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import Placed, distinct, lane_fit, place_operands
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, bits_for_range, fixed
from torchcalyx.kernels.arith.ramp import fuse_ramp
from torchcalyx.kernels.ports.access import Access, Operand, row_major, whole
from torchcalyx.kernels.rtl.lane import latency
from torchcalyx.match import Reject
from torchcalyx.rules.channels import REACHES, SHIFT, Channels, channels_of
from torchcalyx.rules.datapath import ELEMENTWISE, supported
from torchcalyx.rules.tree import Tree, expression, grow, products

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

    def channels(self, total: Value, right: NumberFormat, fmt: NumberFormat) -> Channels | None:
        """Binary points of the channels of the weights (their format: `right`), where the drain can undo
        them in no more cycles than it takes without.
        """
        for reach in REACHES:
            found = channels_of(self.builder, self.head, reach)
            if found is not None and self._undone(found, total, right, fmt):
                return found
        return None

    def _undone(self, found: Channels, total: Value, right: NumberFormat, fmt: NumberFormat) -> bool:
        """Whether the drain aligns the channels in no more cycles than it takes without."""
        leaves = [(n, self.builder.value(n).fmt) for n in self.tree.leaves if n != self.head.name]
        shift, finer = [(SHIFT, found.format)], self._bias_formats(found.total(total), right)
        plain = self._expression(total, [*self._bias_formats(total, right), *leaves], fmt)
        aligned = self._expression(total, [*shift, *finer, *leaves], fmt, channels=found)
        return latency(aligned) <= latency(plain)

    def _expression(
        self,
        total: Value,
        named: Sequence[tuple[str, NumberFormat]],
        fmt: NumberFormat,
        same: Mapping[str, str] | None = None,
        channels: Channels | None = None,
    ) -> Expr:
        """What the drain computes from the sums and the named operands."""
        head = self.head.name

        def adapt(b: ExprBuilder, place: Mapping[str, int]) -> int:
            sums = place[head] if channels is None else channels.align(b, place[head], place[SHIFT])
            return b.add(sums, place[_BIAS]) if _BIAS in place else sums

        inputs: list[tuple[str, Value | NumberFormat]] = [(head, total), *named]
        expr = expression(self.builder.view, self.tree, inputs, fmt, {head: adapt}, same)
        return expr if channels is None else fuse_ramp(expr)

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

        total: range of the sums. right: format of the weights, whose channels are as `channels` tells.
        taken: memories that the kernel reads through other ports. features: first and count of the last
        domain dimension that this call computes.
        """
        head, channels = self.head.name, self.channels(total, right, fmt)
        named: list[tuple[str, Located]] = []
        if channels is not None:
            shifts = channels.memory(self.builder, self.head.args[1])
            named.append((SHIFT, self._part(shifts, shifts.access, features)))
        if len(self.head.args) == 3:
            aligned = total if channels is None else channels.total(total)
            bias = self._bias(self.head.args[2], aligned, right)
            named.append((_BIAS, self._part(bias, bias.access, features)))
        for name in self.tree.leaves:
            if name != head:
                value = self.builder.value(name)
                access = value.access.expand(self.head.shape).permute(self.order)
                named.append((name, self._part(value, access, features)))
        named, same = distinct(named)
        values = [value for _, value in named]
        expr = self._expression(total, [(name, value.fmt) for name, value in named], fmt, same, channels)
        sizes = out.access.sizes
        why = f"the drain of {self.head.op} writes {list(sizes)}"
        placed = place_operands(self.builder, values, sizes, tuple(range(len(sizes))), lane_fit, why, taken)
        return expr, placed

    def repeated(
        self, total: Value, right: NumberFormat, fmt: NumberFormat, times: int
    ) -> tuple[Expr, list[Located]]:
        """Expression and memories where the channels stand several times, one behind the other, and nothing
        but constants is read.
        """
        channels, builder = self.channels(total, right, fmt), self.builder
        named: list[tuple[str, Located]] = []
        if channels is not None:
            named.append((SHIFT, channels.memory(builder, self.head.args[1], times)))
        for name in self.head.args[2:]:
            exact = bias_format(
                builder.view, name, total if channels is None else channels.total(total), right
            )
            shape = (builder.view.nodes[name].shape[0] * times,)
            layout = row_major(shape, builder.lanes)
            buffer = builder.weight(name, exact, layout, lambda stored: np.tile(stored, times), "repeated")
            named.append((_BIAS, Located(buffer, whole(shape, layout), exact)))
        formats = [(name, value.fmt) for name, value in named]
        return self._expression(total, formats, fmt, channels=channels), [value for _, value in named]

    def _part(self, value: Located, access: Access, features: tuple[int, int]) -> Located:
        """The value over the domain, restricted to some features."""
        access = access.expand(self.domain)
        rank = len(self.domain)
        starts, sizes = [0] * rank, list(self.domain)
        starts[-1], sizes[-1] = features
        return Located(value.buffer, access.slice(tuple(starts), (1,) * rank, tuple(sizes)), value.fmt)

    def _bias(self, name: str, total: Value, right: NumberFormat) -> Located:
        """A constant bias at the fraction of the sums, as wide as it needs; any other value as it lies."""
        node = self.builder.view.nodes[name]
        if not self._exact(name):
            return self.builder.value(name)
        exact = bias_format(self.builder.view, name, total, right)
        layout = row_major(node.shape, self.builder.lanes)
        buffer = self.builder.weight(name, exact, layout, lambda stored: stored)
        return Located(buffer, whole(node.shape, layout), exact)

    def _bias_formats(self, total: Value, right: NumberFormat) -> list[tuple[str, NumberFormat]]:
        """Name and format of the bias, if there is one."""
        view = self.builder.view
        return [
            (_BIAS, bias_format(view, name, total, right) if self._exact(name) else view.formats[name])
            for name in self.head.args[2:]
        ]

    def _exact(self, name: str) -> bool:
        view = self.builder.view
        return view.nodes[name].op == "constant" and view.formats[name].kind == "fixed"


def bias_format(view: GraphView, name: str, total: Value, right: NumberFormat) -> NumberFormat:
    """Format of a constant bias: the fraction of the sums, as wide as its values need, at most twice the
    weights' width.
    """
    values = np.abs(np.asarray(view.graph.constants[name], dtype=np.float64))
    largest = int(np.ceil(np.ldexp(values.max() if values.size else 0.0, total.frac)))
    widest = min(64, 2 * right.width)
    bits = max(2, bits_for_range(-largest, largest))
    return fixed(min(bits, widest), total.frac - max(0, bits - widest))
