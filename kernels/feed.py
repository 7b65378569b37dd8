"""How an operand of the systolic kernel is read: which feed fits its memory, and the addresses of its words."""

from __future__ import annotations

from dataclasses import dataclass

from .access import Operand
from .drain import exists
from .engine_spec import Feed
from .hw import Component, Memory, Signal
from .loops import Nest
from .numerics import product
from .stage import positions, reading_mode


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
    """The feed that serves the operand, "free" where both do; AssertionError when `feed_refusal` names a problem.

    count: rows (left) or columns (right) that the feed supplies.
    """
    if reading_mode(operand, free_dim) == "vector" and operand.layout.lanes % count == 0:
        return "free"
    assert reading_mode(operand, k_dim) == "vector"
    return "contracted"


def feed_refusal(side: str, operand: Operand, free_dim: int, k_dim: int, count: int) -> str | None:
    """Why neither feed can supply `count` rows or columns from this memory (None: one can)."""
    if reading_mode(operand, k_dim) == "vector":
        return None
    free = reading_mode(operand, free_dim)
    if free == "vector":
        if operand.layout.lanes % count == 0:
            return None
        return (
            f"{side} operand: a word holds {operand.layout.lanes} values along dimension {free_dim}, which tiles of {count} "
            "rows would cut across word borders (the rows must divide the lanes)"
        )
    reasons = [
        f"along dimension {dim}, {'its words are not aligned' if mode == 'splat' else mode.removeprefix('no: ')}"
        for dim, mode in ((free_dim, free), (k_dim, reading_mode(operand, k_dim)))
    ]
    return f"{side} operand: words run neither along its free axis nor along k ({'; '.join(reasons)})"


@dataclass(frozen=True, slots=True)
class Reader:
    """One operand's address generator.

    tile_loop: the walk's loop that moves this operand's tiles. size: its free axis. count: rows or columns per tile.
    inner: K.
    """

    operand: Operand
    feed: Feed
    free_dim: int
    k_dim: int
    tile_loop: int
    count: int
    inner: int

    def read(self, c: Component, nest: Nest, walk: Walk, memory: Memory, valid: Signal) -> Signal:
        """The word that arrives in the cycle after each step; `valid` is 0 in k steps beyond K.

        A free word holds `count` lanes from the tile's first row on. Nothing is read where no element is needed.
        """
        if self.feed == "contracted":
            return self._contracted(c, nest, walk, memory)
        return self._free(c, nest, walk, memory, valid)

    def _strides(self, walk: Walk) -> tuple[int, list[int], tuple[int, ...]]:
        base, steps = positions(self.operand)
        dims = len(walk.batch)
        strides = [*steps[:dims], 0, 0, 0, 0]
        strides[self.tile_loop] = steps[self.free_dim] * self.count
        return base, strides, steps

    def _contracted(self, c: Component, nest: Nest, walk: Walk, memory: Memory) -> Signal:
        """Step i of a word loads the word of row (or column) i of the tile."""
        lanes = self.operand.layout.lanes
        base, strides, steps = self._strides(walk)
        strides[-2] = lanes
        strides[-1] = steps[self.free_dim]
        address = nest.pointer([s // lanes for s in strides], base // lanes, memory.address_bits)
        enable = nest.step
        index = nest.counters[-1]
        size = self.operand.access.sizes[self.free_dim]
        if index is not None and self.count < walk.steps:
            enable = c.and_(enable, c.below(index, self.count))
        tiles = walk.sizes[self.tile_loop]
        present = exists(c, nest.counters[self.tile_loop], tiles, index, size - (tiles - 1) * self.count, walk.steps)
        if present is not None and size % self.count:
            enable = c.and_(enable, present)
        return c.read(memory, address, enable)

    def _free(self, c: Component, nest: Nest, walk: Walk, memory: Memory, valid: Signal) -> Signal:
        lanes = self.operand.layout.lanes
        base, strides, steps = self._strides(walk)
        strides[-2], strides[-1] = steps[self.k_dim] * walk.steps, steps[self.k_dim]
        enable = c.and_(nest.step, valid)
        if self.count == lanes or walk.sizes[self.tile_loop] == 1:
            words = [s // lanes if size > 1 else 0 for s, size in zip(strides, walk.sizes, strict=True)]
            return c.read(memory, nest.pointer(words, base // lanes, memory.address_bits), enable)
        address, lane = nest.digit_pointer(strides, base, lanes, memory.address_bits)
        word = c.read(memory, address, enable)
        bits = (self.count - 1).bit_length()
        width = self.operand.width // lanes * self.count
        starts = [c.slice(word, at * width, width) for at in range(lanes // self.count)]
        del bits
        return c.pad(self._part(c, starts, c.delay(lane, 1)), word.width)

    def _part(self, c: Component, parts: list[Signal], lane: Signal) -> Signal:
        """The part of a word that begins at lane `lane`, a multiple of `count`."""
        chosen = parts[0]
        for number, part in enumerate(parts[1:], start=1):
            chosen = c.mux(c.equals(lane, number * self.count), part, chosen)
        return chosen
