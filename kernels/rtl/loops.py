"""Loop nests in hardware: wrap counters and address pointers with constant strides, add only.

A nest steps once in each cycle in which its `step` signal is 1 and returns to its start after the last
step, so a kernel can be called again without a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..arith.numerics import index_bits, product
from .hw import Component, Signal


@dataclass(frozen=True, slots=True)
class Loop:
    """`size` trips over a domain dimension, `scale` indices at a time (a tile, or the lanes of a word)."""

    size: int
    dim: int
    scale: int = 1


class Nest:
    """Counters of a loop nest, outermost first. `carry(d)` is 1 in a step in which loops d and inner all
    wrap.
    """

    def __init__(self, c: Component, sizes: Sequence[int], step: Signal) -> None:
        self.component = c
        self.sizes = tuple(sizes)
        self.step = step
        carries = [step]
        self.counters: list[Signal | None] = []
        for size in reversed(self.sizes):
            if size == 1:
                self.counters.append(None)
                carries.append(carries[-1])
                continue
            bits = index_bits(size)
            count = c.register(bits)
            last = c.equals(count.q, size - 1)
            following = c.slice(c.add(count.q, c.const(1, bits), bits), 0, bits)
            count.set(c.mux(last, c.const(0, bits), following), carries[-1])
            carries.append(c.and_(carries[-1], last))
            self.counters.append(count.q)
        self._carries = carries[::-1]
        self.counters.reverse()

    @property
    def trips(self) -> int:
        """Steps of the whole nest."""
        return product(self.sizes)

    def carry(self, depth: int) -> Signal:
        """1 in a step that ends loop `depth` and all inside it; carry(len(sizes)) is the step itself."""
        return self._carries[depth]

    def first(self, depth: int) -> Signal:
        """1 while the loops from `depth` inwards stand at their first trip."""
        if all(size == 1 for size in self.sizes[depth:]):
            return self.component.const(1, 1)
        begun = self.component.register(1)  # 0 after reset and again after each wrap
        begun.set(self.component.not_(self.carry(depth)), self.step)
        return self.component.not_(begun.q)

    def pointer(self, strides: Sequence[int], base: int, bits: int) -> Signal:
        """base + sum(index * stride), modulo 2**bits, for the current step."""
        c = self.component
        deltas = self._deltas(strides)
        if all(delta == 0 for delta in deltas):
            return c.const(base, bits)
        place = c.register(bits)
        delta = self._choose(deltas, bits)
        place.set(c.slice(c.add(place.q, delta, bits), 0, bits), self.step)
        return c.slice(c.add(place.q, c.const(base, bits), bits), 0, bits) if base else place.q

    def digit_pointer(self, steps: Sequence[int], base: int, lanes: int, bits: int) -> tuple[Signal, Signal]:
        """(word, lane) of element base + sum(index * step) for the current step: two digits, carry by
        comparison.
        """
        c = self.component
        if lanes == 1:
            return self.pointer(steps, base, bits), c.const(0, 1)
        lane_bits = index_bits(lanes)
        deltas = self._deltas(steps)
        word, lane = c.register(bits), c.register(lane_bits)
        lane_delta = self._choose([d % lanes for d in deltas], lane_bits)
        word_delta = self._choose([d // lanes for d in deltas], bits)
        wide = lane_bits + 1
        total = c.add(c.pad(lane.q, wide), c.pad(lane_delta, wide), wide)
        over = c.not_(c.below(total, lanes))
        wrapped = c.sub(total, c.const(lanes, wide), wide)
        lane.set(c.slice(c.mux(over, wrapped, total), 0, lane_bits), self.step)
        advanced = c.add(word.q, word_delta, bits)
        word.set(c.add(advanced, c.pad(over, bits + 1), bits), self.step)
        return self._rebase(word.q, lane.q, base, lanes, bits)

    def _rebase(self, word: Signal, lane: Signal, base: int, lanes: int, bits: int) -> tuple[Signal, Signal]:
        """Add a constant element offset to a (word, lane) pair."""
        if base == 0:
            return word, lane
        c = self.component
        lane_bits = index_bits(lanes)
        wide = lane_bits + 1
        total = c.add(c.pad(lane, wide), c.const(base % lanes, wide), wide)
        over = c.not_(c.below(total, lanes))
        wrapped = c.sub(total, c.const(lanes, wide), wide)
        moved = c.add(word, c.const(base // lanes, bits), bits)
        return c.add(moved, c.pad(over, bits + 1), bits), c.slice(c.mux(over, wrapped, total), 0, lane_bits)

    def _deltas(self, strides: Sequence[int]) -> list[int]:
        """Change of the pointer when loop d advances and all inside it wrap; the last entry ends the nest."""
        inner, deltas = 0, []
        for size, stride in zip(reversed(self.sizes), reversed(strides), strict=True):
            deltas.append(stride - inner if size > 1 else 0)
            inner += (size - 1) * stride
        return [*deltas, -inner]  # innermost first, then the wrap of the whole nest

    def _choose(self, deltas: Sequence[int], bits: int) -> Signal:
        """The delta of the outermost loop that advances in this step."""
        c = self.component
        mask = (1 << bits) - 1
        depth = len(self.sizes)
        chosen: Signal | None = None
        common: int | None = None  # the delta while all levels so far agree
        for level, delta in enumerate(deltas):
            if level < depth and self.sizes[depth - 1 - level] == 1:
                continue  # a loop of one trip never advances
            constant = c.const(delta & mask, bits)
            if chosen is None:
                chosen, common = constant, delta & mask
            elif common != delta & mask:
                chosen, common = c.mux(self.carry(depth - level), constant, chosen), None
        assert chosen is not None
        return chosen
