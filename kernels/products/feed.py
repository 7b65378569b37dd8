"""How an operand of the systolic kernel is read: the feed that fits its memory, and its addresses."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.numerics import product
from ..engine.spec import Feed
from ..ports.access import Operand
from ..ports.stage import positions, reading_mode
from ..rtl.hw import Component, Memory, Signal
from ..rtl.loops import Nest
from .drain import exists


@dataclass(frozen=True, slots=True)
class Walk:
    """The issue loops, outermost first: batch dimensions, m tile, n tile, word along k, step within the word.

    Without a contracted feed there is one "word" and the last loop runs over k.
    """

    batch: tuple[int, ...]
    m_tiles: int
    n_tiles: int
    words: int
    steps: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trips of all loops."""
        return (*self.batch, self.m_tiles, self.n_tiles, self.words, self.steps)

    @property
    def trips(self) -> int:
        """Steps of one call."""
        return product(self.sizes)


def feed_of(operand: Operand, free_dim: int, k_dim: int, count: int) -> Feed:
    """The feed that serves the operand, "free" where both do; AssertionError when `feed_refusal` names a
    problem.

    count: rows (left) or columns (right) that the feed supplies.
    """
    if reading_mode(operand, free_dim) == "vector" and operand.layout.lanes % count == 0:
        return "free"
    assert reading_mode(operand, k_dim) == "vector"
    return "contracted"


def feed_refusal(side: str, operand: Operand, free_dim: int, k_dim: int, count: int) -> str | None:
    """Why neither feed can supply `count` rows or columns from this memory (None: one can)."""
    if operand.access.limits:
        return f"{side} operand: it is padded, which the array's feeds cannot mask"
    if reading_mode(operand, k_dim) == "vector":
        return None
    free = reading_mode(operand, free_dim)
    if free == "vector":
        if operand.layout.lanes % count == 0:
            return None
        return (
            f"{side} operand: a word holds {operand.layout.lanes} values along dimension {free_dim}, and "
            f"tiles of {count} rows would cut across word borders (the rows must divide the lanes)"
        )
    reasons = [
        f"dimension {dim}: {'its words are not aligned' if mode == 'splat' else mode.removeprefix('no: ')}"
        for dim, mode in ((free_dim, free), (k_dim, reading_mode(operand, k_dim)))
    ]
    return f"{side} operand: words run neither along its free axis nor along k ({'; '.join(reasons)})"


@dataclass(frozen=True, slots=True)
class Reader:
    """One operand's address generator.

    tile_loop: the walk's loop over this operand's tiles. count: rows (or columns) of a tile.
    """

    operand: Operand
    feed: Feed
    free_dim: int
    k_dim: int
    tile_loop: int
    count: int

    @property
    def lanes(self) -> int:
        """Elements of a word."""
        return self.operand.layout.lanes

    def read(self, c: Component, nest: Nest, walk: Walk, memory: Memory, valid: Signal) -> Signal:
        """The word that arrives in the cycle after each step; `valid` is 0 in k steps beyond K.

        The lanes of a free word begin at the tile's first row. Nothing is read where no element is needed.
        """
        if self.feed == "contracted":
            return self._contracted(c, nest, walk, memory)
        return self._free(c, nest, walk, memory, c.and_(nest.step, valid))

    def _strides(self, walk: Walk, word: int, step: int) -> tuple[int, list[int]]:
        """Offset and steps of the walk's loops, in elements."""
        base, steps = positions(self.operand)
        strides = [*steps[: len(walk.batch)], 0, 0, word, step]
        strides[self.tile_loop] = steps[self.free_dim] * self.count
        return base, strides

    def _pointer(self, nest: Nest, base: int, strides: list[int], memory: Memory) -> Signal:
        words = [s // self.lanes if size > 1 else 0 for s, size in zip(strides, nest.sizes, strict=True)]
        return nest.pointer(words, base // self.lanes, memory.address_bits)

    def _contracted(self, c: Component, nest: Nest, walk: Walk, memory: Memory) -> Signal:
        """Step i of a word loads the word of row (or column) i of the tile, where there is one."""
        base, strides = self._strides(walk, self.lanes, positions(self.operand)[1][self.free_dim])
        enable, index = nest.step, nest.counters[-1]
        if index is not None and self.count < walk.steps:
            enable = c.and_(enable, c.below(index, self.count))
        tiles = walk.sizes[self.tile_loop]
        remaining = self.operand.access.sizes[self.free_dim] - (tiles - 1) * self.count
        if remaining < self.count:
            present = exists(c, nest.counters[self.tile_loop], tiles, index, remaining, self.count)
            enable = c.and_(enable, present) if present else enable
        return c.read(memory, self._pointer(nest, base, strides, memory), enable)

    def _free(self, c: Component, nest: Nest, walk: Walk, memory: Memory, enable: Signal) -> Signal:
        """One word a step; tiles of fewer rows than lanes take their part of it."""
        k_step = positions(self.operand)[1][self.k_dim]
        base, strides = self._strides(walk, k_step * self.lanes, k_step)
        if self.count == self.lanes or walk.sizes[self.tile_loop] == 1:
            return c.read(memory, self._pointer(nest, base, strides, memory), enable)
        address, lane = nest.digit_pointer(strides, base, self.lanes, memory.address_bits)
        word, late = c.read(memory, address, enable), c.delay(lane, 1)
        width = self.operand.fmt.width * self.count
        chosen = c.slice(word, 0, width)
        for at in range(1, self.lanes // self.count):
            part = c.slice(word, at * width, width)
            chosen = c.mux(c.equals(late, at * self.count), part, chosen)
        return c.pad(chosen, word.width)
