"""Sums of the dot array, a tile at a time, become output words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..arith.expr import Value
from ..arith.numerics import index_bits
from ..ports.stage import Stage
from ..rtl.hw import Component, Signal


class TiledSums(Protocol):
    """A kernel whose sums leave the dot array `columns` at a time."""

    @property
    def depth(self) -> int:
        """Lanes of an output word."""
        ...

    @property
    def columns(self) -> int:
        """Sums of a tile."""
        ...

    @property
    def tiles(self) -> int:
        """Tiles of an output row."""
        ...

    @property
    def total(self) -> Value:
        """Range of the sums."""
        ...

    @property
    def sum_delay(self) -> int:
        """Cycles from a step to its sums."""
        ...

    @property
    def stage(self) -> Stage:
        """The writing end."""
        ...


def collect(
    c: Component, spec: TiledSums, tile_done: Signal, row_done: Signal, sums: Sequence[Signal]
) -> tuple[list[Signal], Signal]:
    """Lanes of the output word in the cycle of its last tile's sums, and the step of the writing end.

    tile_done, row_done: 1 in the step that ends a tile, or all tiles of a row. A word takes lanes / columns
    tiles, fewer at the end of a row; earlier tiles wait in registers.
    """
    chunks = min(spec.depth // spec.columns, spec.tiles)
    lanes: list[Signal] = []
    word_done = tile_done
    if chunks > 1:
        bits = index_bits(chunks)
        place = c.register(bits)
        full = c.and_(tile_done, c.equals(place.q, chunks - 1))
        word_done = full if spec.tiles % chunks == 0 else c.or_(row_done, full)
        following = c.slice(c.add(place.q, c.const(1, bits), bits), 0, bits)
        place.set(c.mux(word_done, c.const(0, bits), following), tile_done)
        for chunk in range(chunks - 1):
            here = c.delay(c.and_(tile_done, c.equals(place.q, chunk)), spec.sum_delay)
            kept = [c.hold(s, here) for s in sums]
            if chunk == (spec.tiles - 1) % chunks:  # may also end a row: then it does not wait
                kept = [c.mux(here, s, k) for s, k in zip(sums, kept, strict=True)]
            lanes += kept
    lanes += sums
    padding = [c.const(0, spec.total.width)] * (spec.depth - len(lanes))
    return [*lanes, *padding], c.delay(word_done, spec.sum_delay - spec.stage.lead)
