"""One matrix product under selection: its operands, its drain, and what a kernel for it looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import Placed, ordered, rows_of_last_axis
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Expr
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.rules.drain import Drain
from torchcalyx.rules.tree import Tree


@dataclass(frozen=True)
class Candidate:
    """A kernel for the product. cycles: estimate with the copies it needs. make: makes those copies, gives
    the call's spec and the buffers it reads.
    """

    cycles: int
    make: Callable[[], tuple[KernelSpec, list[str]]]


class Product:
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
        self.left = self.left_operand(left, (*self.domain[:-1], self.inner))
        self.right_fmt = self.view.formats[right.name]
        self.total = accumulator(self.left.fmt, self.right_fmt, self.inner)
        layout = rows_of_last_axis(self.domain, builder.lanes)
        self.out = Operand(self.fmt, layout, whole(self.domain, layout))
        self.drain = Drain(builder, head, tree, self.domain, tuple(range(len(root.shape))))
        channels = self.drain.channels(self.total, self.right_fmt, self.fmt)
        self.more = () if channels is None else channels.more

    def left_operand(self, node: Node, shape: tuple[int, ...]) -> Located:
        """The left operand (..., m, k); a flattened tensor is seen through an affine access or copied."""
        if self.flat is None:
            return self.located(node.name, shape)
        value = self.builder.value(self.flat.name)
        access = value.access.reshape(node.shape)
        if access is None:
            return value  # read axis by axis, see `dot_product.flattened_candidate`
        return Located(value.buffer, access.expand(shape), value.fmt)

    def epilogue(self, taken: list[str]) -> tuple[Expr, Placed]:
        """The drain's expression and its memories."""
        features = (0, self.domain[-1])
        return self.drain.epilogue(self.total, self.right_fmt, self.fmt, taken, self.out, features)

    def located(self, name: str, shape: tuple[int, ...]) -> Located:
        """A graph value broadcast to a shape."""
        value = self.builder.value(name)
        return Located(value.buffer, value.access.expand(shape), value.fmt)

    def operand(self, value: Located) -> Operand:
        """The kernel operand over the value's own axes."""
        return ordered(self.builder, value, value.shape, tuple(range(len(value.shape))))

    def copied(self, value: Located, why: str, taken: Sequence[str] = ()) -> Located:
        """A row-major copy."""
        layout = rows_of_last_axis(value.shape, self.builder.lanes)
        return self.builder.relayout(value, layout, value.shape, why, taken)
