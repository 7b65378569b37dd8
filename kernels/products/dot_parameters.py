"""The parameters of the dot kernel and all sizes that follow from them, as its controller reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.expr import Expr, Value
from ..arith.numerics import NumberFormat, ceil_div, product
from ..contract import Port
from ..engine.dot import dot_latency
from ..engine.spec import DotShape
from ..ports.access import Layout, Operand, whole
from ..ports.stage import Stage, word_loops
from ..rtl.lane import latency
from .contraction import accumulator, product_ports


@dataclass(frozen=True, slots=True)
class DotParameters:
    """Fields as `Dot` documents them; every property is a function of them."""

    left: Operand
    weight_fmt: NumberFormat
    features: int
    columns: int
    epilogue: Expr
    extras: tuple[Operand, ...]
    out: Operand
    mul_stages: int = 1
    contracted: int = 1

    @property
    def inner(self) -> int:
        """K: products of one sum."""
        return product(self.inner_sizes)

    @property
    def inner_sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions of k."""
        return self.left.access.sizes[-self.contracted :]

    @property
    def depth(self) -> int:
        """Products of a column in one cycle: the lanes."""
        return self.left.layout.lanes

    @property
    def tiles(self) -> int:
        """Column groups of a row."""
        return ceil_div(self.features, self.columns)

    @property
    def words(self) -> int:
        """Activation words of one sum."""
        return product(self.inner_loops)

    @property
    def inner_loops(self) -> tuple[int, ...]:
        """Trips of the loops over k, the last one in words."""
        return (*self.inner_sizes[:-1], ceil_div(self.inner_sizes[-1], self.depth))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trips of the loop nest: leading dimensions, m, n tile, k dimensions, k word."""
        return (*self.left.access.sizes[: -self.contracted], self.tiles, *self.inner_loops)

    @property
    def total(self) -> Value:
        """Range of the sums."""
        return accumulator(self.left.fmt, self.weight_fmt, self.inner)

    @property
    def shape(self) -> DotShape:
        """The dot array this kernel needs."""
        return DotShape(self.depth, self.columns, self.total.width)

    @property
    def sum_delay(self) -> int:
        """Cycles from a step to its sum in the accumulator: read, multiply, add."""
        return 1 + dot_latency(self.shape, self.mul_stages)

    @property
    def stage(self) -> Stage:
        """The writing end: one step per output word."""
        sizes = self.out.access.sizes
        dim = len(sizes) - 1
        return Stage(self.epilogue, (None, *self.extras), self.out, dim, word_loops(sizes, dim, self.depth))

    @property
    def right(self) -> Operand:
        """The weight memory: one word per (n tile, k word)."""
        lanes = self.columns * self.depth
        layout = Layout(self.tiles * self.words, lanes, lanes)
        return Operand(self.weight_fmt, layout, whole((layout.rows, layout.cols), layout))

    def ports(self) -> tuple[Port, ...]:
        """left, right, x0, x1, ..., y."""
        return product_ports(self.left, self.right, self.extras, self.out)

    @property
    def flush(self) -> int:
        """Cycles after the last step: its word runs through the pipeline."""
        return self.sum_delay + latency(self.epilogue)
