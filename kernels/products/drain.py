"""The end of the systolic kernel: finished rows leave, one word a cycle, while the next tile runs."""

from __future__ import annotations

from collections.abc import Sequence

from ..arith.numerics import index_bits
from ..ports.access import Operand
from ..ports.stage import Stage
from ..rtl.hw import Component, Memory, Signal
from ..rtl.loops import Loop, Nest


class RaggedStage(Stage):
    """A stage over row tiles of which the last may be short: its missing rows read no operand either.

    Loops: ..., m tile (scale rows), n tile, row. The dimension of the rows tells how many there are.
    """

    __slots__ = ()

    def _read(self, c: Component, nest: Nest, operand: Operand, memory: Memory) -> list[Signal]:
        keep = present(c, nest, self.loops, self.out.access.sizes)
        reading = nest if keep is None else _ReadingNest(nest, c.and_(nest.step, keep))
        return Stage._read(self, c, reading, operand, memory)


class _ReadingNest(Nest):
    """The pointers of another nest, with a step of its own to enable reads."""

    def __init__(self, nest: Nest, step: Signal) -> None:
        self.component, self.sizes, self.counters = nest.component, nest.sizes, nest.counters
        self.step = step
        self._pointers = nest

    def pointer(self, strides: Sequence[int], base: int, bits: int) -> Signal:
        return self._pointers.pointer(strides, base, bits)

    def digit_pointer(self, steps: Sequence[int], base: int, lanes: int, bits: int) -> tuple[Signal, Signal]:
        return self._pointers.digit_pointer(steps, base, lanes, bits)


def present(c: Component, nest: Nest, loops: Sequence[Loop], sizes: Sequence[int]) -> Signal | None:
    """1 while the row of the current step exists (None: always)."""
    tile, row = loops[-3], loops[-1]
    return exists(
        c,
        nest.counters[-3],
        tile.size,
        nest.counters[-1],
        sizes[row.dim] - (tile.size - 1) * tile.scale,
        row.size,
    )


def exists(
    c: Component, tile: Signal | None, tiles: int, index: Signal | None, last: int, count: int
) -> Signal | None:
    """Whether entry `index` (of `count`) exists when the last of `tiles` tiles has only `last`; None: always.

    A loop of one trip has no counter (None).
    """
    if last >= count or index is None:
        return None
    below = c.below(index, last)
    if tile is None:
        return below
    return c.or_(c.not_(c.equals(tile, tiles - 1)), below)


def row_steps(c: Component, start: Signal, rows: int) -> tuple[Signal, Signal]:
    """(step, row): `rows` steps from each `start` on, with the row of each; starts come no faster."""
    if rows == 1:
        return start, c.const(0, 1)
    bits = index_bits(rows)
    busy, row = c.register(1), c.register(bits)
    step = c.or_(start, busy.q)
    last = c.equals(row.q, rows - 1)
    busy.set(c.and_(step, c.not_(last)))
    following = c.slice(c.add(row.q, c.const(1, bits), bits), 0, bits)
    row.set(c.mux(last, c.const(0, bits), following), step)
    return step, row.q
