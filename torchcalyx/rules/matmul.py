"""Matrix products: linear and matmul, with the elementwise operations behind them in the drain of the
engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from torchcalyx.graph import Node
from torchcalyx.kernels.access import Operand, whole
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.contraction import accumulator
from torchcalyx.kernels.dot import dot
from torchcalyx.kernels.expr import Expr
from torchcalyx.kernels.feed import feed_refusal
from torchcalyx.kernels.numerics import IntArray, product
from torchcalyx.kernels.stage import reading_mode
from torchcalyx.kernels.systolic import systolic
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.drain import Drain, fused_head
from torchcalyx.select.builder import Located, SelectionBuilder
from torchcalyx.select.placing import Placed, lane_fit, memory_order, ordered, rows_of_last_axis
from torchcalyx.select.tree import Tree, tree_of
from torchcalyx.select.view import GraphView

HEADS = ("linear", "matmul")


def _fused(view: GraphView, node: Node) -> Match | Reject:
    """A product and the elementwise tree behind it, of the same shape."""
    found = fused_head(view, node, HEADS)
    if isinstance(found, Reject):
        return found
    return _match(view, found[0], found[1], node)


def _alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in HEADS:
        return Reject(f"{node.op} is not a matrix product", related=False)
    return _match(view, node, tree_of(view, set()), node)


def _match(view: GraphView, head: Node, tree: Tree, root: Node) -> Match | Reject:
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = [head.name, *(n.name for n in tree.nodes)]
    operands = list(head.args)
    flat = _flattened(view, head)
    if flat is not None:  # the product reads the tensor before it was flattened
        operands[0] = flat.name
        if view.inside(head.args[0], {head.name}):
            covers.append(head.args[0])
    return Match(
        tuple(covers), (*operands, *others), lambda builder: _Product(builder, head, tree, root, flat).build()
    )


def _flattened(view: GraphView, head: Node) -> Node | None:
    """The tensor [..., d1, d2, ...] whose trailing axes a view has merged to the K of a linear layer."""
    x, weight = view.args(head)[:2]
    if head.op != "linear" or weight.op != "constant" or x.op != "view":
        return None
    source = view.args(x)[0]
    lead = len(x.shape) - 1
    if len(source.shape) <= lead + 1 or source.shape[:lead] != x.shape[:lead]:
        return None
    return source


@dataclass(frozen=True)
class _Candidate:
    """A kernel for the product. copies: elements copied before it can run. emit: makes the copies and the
    call's spec.
    """

    cycles: int
    make: Callable[[], tuple[KernelSpec, list[str]]]


class _Product:
    """Builds one product: left (..., m, k) times right (..., k, n), the tree in the drain."""

    def __init__(
        self, builder: SelectionBuilder, head: Node, tree: Tree, root: Node, flat: Node | None
    ) -> None:
        self.builder, self.head, self.tree, self.root, self.flat = builder, head, tree, root, flat
        self.view = builder.view
        rank = max(2, len(root.shape))
        self.domain = (1,) * (rank - len(root.shape)) + root.shape
        left, right = self.view.args(head)[:2]
        self.inner = left.shape[-1]
        self.constant_right = right.op == "constant" and len(right.shape) == 2
        self.right_name = right.name
        self.fmt = self.view.formats[root.name]
        self.left = self._left(left, (*self.domain[:-1], self.inner))
        self.right_fmt = self.view.formats[right.name]
        self.total = accumulator(self.left.fmt, self.right_fmt, self.inner)
        layout = rows_of_last_axis(self.domain, builder.lanes)
        self.out = Operand(self.fmt, layout, whole(self.domain, layout))

    def build(self) -> Located:
        """The cheaper of the dot array (constant right operand) and the systolic array."""
        spec, reads = min(self._candidates(), key=lambda c: c.cycles).make()
        buffer = self.builder.buffer(self.root.name, self.fmt, self.out.layout)
        self.builder.call(spec, reads, [buffer])
        access = self.out.access.reshape(self.root.shape)
        assert access is not None
        return Located(buffer, access, self.fmt)

    def _left(self, node: Node, shape: tuple[int, ...]) -> Located:
        """The left operand (..., m, k); a flattened tensor is seen through an affine access or copied."""
        if self.flat is None:
            return self._value(node.name, shape)
        value = self.builder.value(self.flat.name)
        access = value.access.reshape(node.shape)
        if access is None:
            return Located(
                value.buffer, value.access, value.fmt
            )  # read dimension by dimension, see `_dot_flattened`
        return Located(value.buffer, access.expand(shape), value.fmt)

    def _candidates(self) -> list[_Candidate]:
        if self.flat is not None and self.left.shape == self.flat.shape:
            return [self._dot_flattened()]
        found = [self._systolic()]
        if self.constant_right and self.head.op == "linear":
            found.append(self._dot())
        return found

    def _epilogue(self, taken: list[str]) -> tuple[Expr, Placed]:
        """The drain's expression and its memories."""
        order = tuple(range(len(self.root.shape)))
        drain = Drain(self.builder, self.head, self.tree, self.domain, order)
        return drain.epilogue(self.total, self.right_fmt, self.fmt, taken, self.out, (0, self.domain[-1]))

    # ---- the dot array
    # -------------------------------------------------------------------------------------------------
    def _dot(self) -> _Candidate:
        features = self.domain[-1]
        columns = dot_columns(self.view)
        why = f"the dot array reads {self.builder.lanes} neighbours along k a cycle"
        fits = lane_fit(self._ordered(self.left)) is None and self._dot_left_refusal() is None
        tiles = -(-features // columns) * -(-self.inner // self.builder.lanes)
        steps = product(self.domain[:-1]) * tiles
        copy = 0 if fits else product(self.left.shape)

        def make() -> tuple[KernelSpec, list[str]]:
            left = self.left if fits else self._copied(self.left, why)
            taken = [left.buffer]
            expr, placed = self._epilogue(taken)
            spec = dot(
                self._ordered(left),
                self.right_fmt,
                features,
                columns,
                expr,
                placed.operands,
                self.out,
                self.view.options.multiplier_stages,
            )
            weights = self.builder.weight(
                self.right_name, self.right_fmt, spec.right.layout, spec.pack, f"dot {columns} columns"
            )
            return spec, [left.buffer, weights, *placed.buffers]

        return _Candidate(steps + copy, make)

    def _dot_left_refusal(self) -> str | None:
        mode = reading_mode(self._ordered(self.left), len(self.left.shape) - 1)
        return None if mode == "vector" else mode

    def _dot_flattened(self) -> _Candidate:
        """The dot array over the axes of a flattened tensor in the order of memory; the weights are
        permuted instead.
        """
        assert self.flat is not None
        lead = len(self.root.shape) - 1
        value, stages = self.left, self.view.options.multiplier_stages
        trailing = [d for d in memory_order(self.builder, value) if d >= lead]
        order = (*range(lead), *trailing)
        if lane_fit(ordered(self.builder, value, value.shape, order)) is not None:
            layout = rows_of_last_axis(value.shape, self.builder.lanes)
            why = "the flattened axes do not lie in whole words"
            value, order = (
                self.builder.relayout(value, layout, value.shape, why),
                tuple(range(len(value.shape))),
            )
        access = value.access.permute(order)
        if lead == 0:
            access = access.over((1, *access.sizes), tuple((0, *s) for s in access.steps))
        left = Operand(value.fmt, self.builder.buffers[value.buffer].layout, access)
        sizes, turned = value.shape[lead:], tuple(d - lead for d in order[lead:])

        def make() -> tuple[KernelSpec, list[str]]:
            expr, placed = self._epilogue([value.buffer])
            columns, features = dot_columns(self.view), self.domain[-1]
            spec = dot(
                left, self.right_fmt, features, columns, expr, placed.operands, self.out, stages, len(sizes)
            )

            def pack(stored: IntArray) -> IntArray:
                axes = np.asarray(stored).reshape(features, *sizes)
                return spec.pack(axes.transpose(0, *(1 + d for d in turned)))

            tag = f"flattened {turned} {columns} columns"
            weights = self.builder.weight(self.right_name, self.right_fmt, spec.right.layout, pack, tag)
            return spec, [value.buffer, weights, *placed.buffers]

        return _Candidate(0, make)

    # ---- the systolic array
    # --------------------------------------------------------------------------------------------
    def _systolic(self) -> _Candidate:
        rows = systolic_rows(self.view)
        right = self._right()
        choices = []
        for copy_left in (False, True):
            for copy_right in (False, True):
                left_operand, right_operand = (
                    self._as_if(self.left, copy_left),
                    self._as_if(right, copy_right),
                )
                if _feeds_refusal(left_operand, right_operand, rows) is None:
                    copied = copy_left * product(self.left.shape) + copy_right * product(right.shape)
                    choices.append((copied, copy_left, copy_right))
        copied, copy_left, copy_right = min(choices)
        if right.buffer == self.left.buffer and not copy_left and not copy_right:
            copied, copy_right = product(right.shape), True
        period = max(rows, self.builder.lanes, self.inner)
        tiles = (
            product(self.domain[:-2])
            * -(-self.domain[-2] // rows)
            * -(-self.domain[-1] // self.builder.lanes)
        )

        def make() -> tuple[KernelSpec, list[str]]:
            why = "the systolic array cannot feed from it"
            left = self._copied(self.left, why) if copy_left else self.left
            other = self._copied(right, why) if copy_right else right
            expr, placed = self._epilogue([left.buffer, other.buffer])
            spec = systolic(
                self._ordered(left),
                self._ordered(other),
                rows,
                expr,
                placed.operands,
                self.out,
                self.view.options.multiplier_stages,
            )
            return spec, [left.buffer, other.buffer, *placed.buffers]

        return _Candidate(tiles * period + rows + self.builder.lanes + copied, make)

    def _as_if(self, value: Located, copied: bool) -> Operand:
        """The operand, as it lies or as it would lie after a copy."""
        if not copied:
            return self._ordered(value)
        fresh = rows_of_last_axis(value.shape, self.builder.lanes)
        return Operand(value.fmt, fresh, whole(value.shape, fresh))

    def _right(self) -> Located:
        """The right operand as (..., k, n), batch axes broadcast."""
        shape = (*self.domain[:-2], self.inner, self.domain[-1])
        if self.head.op == "linear":
            if self.constant_right:
                layout = rows_of_last_axis(shape[-2:], self.builder.lanes)
                buffer = self.builder.weight(
                    self.right_name, self.right_fmt, layout, lambda stored: np.asarray(stored).T, "transposed"
                )
                return Located(buffer, whole(shape[-2:], layout).expand(shape), self.right_fmt)
            turned = self.builder.value(self.right_name)
            return Located(turned.buffer, turned.access.permute((1, 0)).expand(shape), turned.fmt)
        return self._value(self.right_name, shape)

    # ---- helpers -----------------------------------------------------------------------------------------
    # --------------
    def _value(self, name: str, shape: tuple[int, ...]) -> Located:
        value = self.builder.value(name)
        return Located(value.buffer, value.access.expand(shape), value.fmt)

    def _ordered(self, value: Located) -> Operand:
        return ordered(self.builder, value, value.shape, tuple(range(len(value.shape))))

    def _copied(self, value: Located, why: str) -> Located:
        layout = rows_of_last_axis(value.shape, self.builder.lanes)
        return self.builder.relayout(value, layout, value.shape, why)


def dot_columns(view: GraphView) -> int:
    """Columns of the program's dot array: the most that divide the lanes within the budget."""
    limit = max(1, view.options.multipliers // view.lanes)
    return max(c for c in range(1, view.lanes + 1) if view.lanes % c == 0 and c <= limit)


def systolic_rows(view: GraphView) -> int:
    """Rows of the program's systolic array within the budget; at most one per lane, so that every feed
    works.
    """
    return max(1, min(view.lanes, view.options.multipliers // view.lanes))


def _feeds_refusal(left: Operand, right: Operand, rows: int) -> str | None:
    """Why the array cannot be fed from these operands (None: it can)."""
    last = len(left.access.sizes) - 1
    problem = feed_refusal("left", left, last - 1, last, rows)
    return problem or feed_refusal("right", right, last, last - 1, right.layout.lanes)


RULES = (Rule("matmul with epilogue", _fused), Rule("matmul", _alone))
