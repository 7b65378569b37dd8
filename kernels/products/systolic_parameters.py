"""The parameters of the systolic kernel and all sizes that follow from them, as its controller reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.expr import Expr, Value
from ..arith.numerics import ceil_div
from ..contract import Port
from ..engine.array import array_latency
from ..engine.spec import ArrayShape, Feed
from ..ports.access import Operand
from ..rtl.lane import latency
from ..rtl.loops import Loop
from .contraction import accumulator, product_ports
from .feed import Walk, feed_of


@dataclass(frozen=True, slots=True)
class SystolicParameters:
    """Fields as `Systolic` documents them; every property is a function of them."""

    left: Operand
    right: Operand
    rows: int
    epilogue: Expr
    extras: tuple[Operand, ...]
    out: Operand
    mul_stages: int = 1

    @property
    def lanes(self) -> int:
        """Columns of the array, elements of a word."""
        return self.out.layout.lanes

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading dimensions."""
        return self.out.access.sizes[:-2]

    @property
    def matrix(self) -> tuple[int, int, int]:
        """M, N, K."""
        m, n = self.out.access.sizes[-2:]
        return m, n, self.left.access.sizes[-1]

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along m and n."""
        m, n, _ = self.matrix
        return ceil_div(m, self.rows), ceil_div(n, self.lanes)

    @property
    def left_feed(self) -> Feed:
        """How left words enter."""
        return feed_of(self.left, len(self.batch), len(self.batch) + 1, self.rows)

    @property
    def right_feed(self) -> Feed:
        """How right words enter."""
        return feed_of(self.right, len(self.batch) + 1, len(self.batch), self.lanes)

    @property
    def contracted(self) -> bool:
        """Whether any side loads words along k."""
        return "contracted" in (self.left_feed, self.right_feed)

    @property
    def period(self) -> int:
        """Cycles from one tile to the next."""
        inner = self.matrix[2]
        if self.contracted:
            return ceil_div(inner, self.lanes) * max(self.lanes, self.rows)
        return max(self.rows, self.lanes, inner)

    @property
    def walk(self) -> Walk:
        """The order in which tiles and k steps are visited."""
        if not self.contracted:
            return Walk(self.batch, *self.tiles, 1, self.period)
        steps = max(self.lanes, self.rows)
        return Walk(self.batch, *self.tiles, self.period // steps, steps)

    @property
    def total(self) -> Value:
        """Range of the sums."""
        return accumulator(self.left.fmt, self.right.fmt, self.matrix[2])

    @property
    def shape(self) -> ArrayShape:
        """The array this kernel needs."""
        return ArrayShape(self.rows, self.lanes, self.total.width, (self.left_feed,), (self.right_feed,))

    @property
    def drained(self) -> int:
        """Rows that leave per tile."""
        return min(self.rows, self.matrix[0])

    @property
    def sum_delay(self) -> int:
        """Cycles from the last k step of a tile to its first row: read, then the array."""
        return 1 + array_latency(self.shape, self.mul_stages)

    @property
    def drain_loops(self) -> tuple[Loop, ...]:
        """Order in which output words leave."""
        dims = len(self.batch)
        m_tiles, n_tiles = self.tiles
        batch = tuple(Loop(size, d) for d, size in enumerate(self.batch))
        return (
            *batch,
            Loop(m_tiles, dims, self.rows),
            Loop(n_tiles, dims + 1, self.lanes),
            Loop(self.drained, dims),
        )

    def ports(self) -> tuple[Port, ...]:
        """left, right, x0, x1, ..., y."""
        return product_ports(self.left, self.right, self.extras, self.out)

    @property
    def flush(self) -> int:
        """Cycles after the last step: what the last tile still needs, more than the padding of P."""
        after_sum = self.sum_delay + self.drained - 1 + latency(self.epilogue)
        ending = self.matrix[2]  # the place of the last k step in its tile
        if self.contracted:
            ending += (self.walk.words - 1) * (self.walk.steps - self.lanes)
        return max(0, after_sum - (self.period - ending))
