"""The parameters of the window kernel and all sizes that follow from them, as its controller reads them."""

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
from .window_access import window_of
from .window_plan import Window

MOVE = 2
"""Cycles from a step of the schedule to the window of that step: read, wait in the shift register."""
LAG = MOVE + 1
"""Cycles from a step to its operands in front of the multipliers: one more for the multiplexer of words."""


@dataclass(frozen=True, slots=True)
class WindowParameters:
    """Fields as `WindowDot` documents them; every property is a function of them."""

    left: Operand
    weight_fmt: NumberFormat
    features: int
    columns: int
    epilogue: Expr
    extras: tuple[Operand, ...]
    out: Operand
    mul_stages: int = 1
    contracted: int = 2

    @property
    def window(self) -> Window:
        """The registers and the words that fill them."""
        found = window_of(self.left, self.contracted)
        assert isinstance(found, Window)
        return found

    @property
    def inner_sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions of k: taps, channels."""
        return self.left.access.sizes[-self.contracted :]

    @property
    def inner(self) -> int:
        """K: products of one sum."""
        return product(self.inner_sizes)

    @property
    def depth(self) -> int:
        """Products of a column in one cycle: the lanes."""
        return self.left.layout.lanes

    @property
    def tiles(self) -> int:
        """Column groups of an output."""
        return ceil_div(self.features, self.columns)

    @property
    def words(self) -> int:
        """Words of the window, as the dot array takes it."""
        return ceil_div(self.inner, self.depth)

    @property
    def beats(self) -> int:
        """Cycles of the dot array for one output."""
        return self.tiles * self.words

    @property
    def period(self) -> int:
        """Cycles from one output to the next."""
        return self.window.period(self.beats)

    @property
    def stall(self) -> int:
        """Cycles between two rows in which nothing is computed."""
        return self.window.stall(self.beats)

    @property
    def trips(self) -> int:
        """Cycles until the last step of the dot array."""
        return self.window.trips(self.beats)

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
        """Cycles from a step to its sum in the accumulator."""
        return LAG + dot_latency(self.shape, self.mul_stages)

    @property
    def flush(self) -> int:
        """Cycles after the last step: its word runs through the pipeline."""
        return self.sum_delay + latency(self.epilogue)

    @property
    def stage(self) -> Stage:
        """The writing end: one step per output word."""
        sizes = self.out.access.sizes
        dim = len(sizes) - 1
        return Stage(self.epilogue, (None, *self.extras), self.out, dim, word_loops(sizes, dim, self.depth))

    @property
    def right(self) -> Operand:
        """The weight memory: one word per (n tile, word of the window)."""
        lanes = self.columns * self.depth
        layout = Layout(self.beats, lanes, lanes)
        return Operand(self.weight_fmt, layout, whole((layout.rows, layout.cols), layout))

    def ports(self) -> tuple[Port, ...]:
        """left, right, x0, x1, ..., y."""
        return product_ports(self.left, self.right, self.extras, self.out)
