"""How a sliding window reaches its registers: which memory words it needs, and when they are loaded.

The window slides along one line of memory for each combination of the outer taps (a "line"). Along a line, a
unit is the least distance between elements that windows need: `elements` neighbouring elements (the channels
of a pixel) lie at each unit, and a memory word holds `units` of them: 1 when every pixel starts a word, more
when pixels are packed. Successive outputs lie `shift` units apart and taps `spacing` units. `group` outputs
consume `group_words` whole words of each line, so words enter between groups, and in a group the registers
shift by whole units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from ..arith.numerics import IntArray, ceil_div, product


@dataclass(frozen=True, slots=True)
class Guard:
    """A coordinate that must lie in 0 .. limit - 1: offset + sum(index * step) + unit * (place in the
    word)."""

    offset: int
    steps: tuple[int, ...]
    unit: int
    limit: int

    def reach(self, sizes: Sequence[int], units: int) -> tuple[int, int]:
        """Least and largest value of the coordinate."""
        ends = [s * (n - 1) for s, n in zip((*self.steps, self.unit), (*sizes, units), strict=True)]
        return self.offset + sum(min(e, 0) for e in ends), self.offset + sum(max(e, 0) for e in ends)


@dataclass(frozen=True, slots=True)
class Stream:
    """Words read in the order of a loop nest: address (in words) and the guards that some element
    violates."""

    sizes: tuple[int, ...]
    base: int
    steps: tuple[int, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window of `taps` x `lines` x `elements`; see the module's text.

    rows, outputs: trips of the leading dimensions and of the dimension that slides. units, elements: of a
    word. hold: units of a line that stay when a group's words enter. next_words: the words that a group needs
    beyond those held. first_words: the words that fill the held part at the start of a row (None: nothing is
    held).
    """

    rows: tuple[int, ...]
    outputs: int
    taps: int
    lines: tuple[int, ...]
    units: int
    elements: int
    shift: int
    spacing: int
    hold: int
    next_words: Stream
    first_words: Stream | None

    @property
    def group(self) -> int:
        """Outputs that share the words of one group."""
        return self.units // gcd(self.units, self.shift)

    @property
    def group_words(self) -> int:
        """Words of each line that a group takes."""
        return self.shift // gcd(self.units, self.shift)

    @property
    def held_words(self) -> int:
        """Words of each line that the held units touch."""
        return ceil_div(self.hold, self.units)

    @property
    def line_count(self) -> int:
        """Lines of the window."""
        return product(self.lines)

    @property
    def length(self) -> int:
        """Units of each line in registers: those of one group of outputs."""
        return self.hold + self.group * self.shift

    @property
    def loads(self) -> int:
        """Words loaded for a group."""
        return self.group_words * self.line_count

    @property
    def first_loads(self) -> int:
        """Words loaded for the held part at the start of a row."""
        return self.held_words * self.line_count

    @property
    def register_elements(self) -> int:
        """Elements in registers: the window and the words that wait beside it."""
        waiting = (self.loads + self.first_loads) * self.units * self.elements
        return self.length * self.line_count * self.elements + waiting

    @property
    def fill(self) -> int:
        """Cycles before the first output, whose group is read."""
        return self.loads + self.first_loads

    def period(self, beats: int) -> int:
        """Cycles from one output to the next when each takes `beats` cycles of the dot array."""
        return max(beats, ceil_div(self.loads, self.group))

    def stall(self, beats: int) -> int:
        """Cycles between two rows in which the dot array waits for words.

        The words of the next row's start enter beside the current row wherever the array leaves memory cycles
        free.
        """
        period, groups = self.period(beats), ceil_div(self.outputs, self.group)
        late = max(0, self.first_loads - (groups - 1) * (self.group * period - self.loads))
        last = self.outputs - (groups - 1) * self.group
        return max(0, self.loads + late - last * period)

    def trips(self, beats: int) -> int:
        """Cycles from the first read to the last operands of the dot array."""
        rows = product(self.rows)
        return self.fill + rows * self.outputs * self.period(beats) + (rows - 1) * self.stall(beats)


def packed_weights(weight: IntArray, sizes: tuple[int, ...], columns: int, lanes: int) -> IntArray:
    """Weights [N, taps..., C] in the order of the registers, one row per (n tile, word).

    sizes: of the taps and the channel. Order along k: last tap dimension, other taps, channel. Ragged edges
    are 0.
    """
    inner = product(sizes)
    natural = np.asarray(weight).reshape(-1, *sizes)
    features = len(natural)
    tiles, words = ceil_div(features, columns), ceil_div(inner, lanes)
    padded = np.zeros((tiles * columns, words * lanes), dtype=np.int64)
    padded[:features, :inner] = np.moveaxis(natural, -2, 1).reshape(features, inner)
    blocks = padded.reshape(tiles, columns, words, lanes).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(tiles * words, columns * lanes)


def unpacked_weights(
    packed: IntArray, features: int, sizes: tuple[int, ...], columns: int, lanes: int
) -> IntArray:
    """Weights [N, K] in the order (taps..., C): the inverse of `packed_weights`."""
    inner = product(sizes)
    blocks = np.asarray(packed).reshape(-1, ceil_div(inner, lanes), columns, lanes).transpose(0, 2, 1, 3)
    padded = blocks.reshape(blocks.shape[0] * columns, -1)
    *outer, taps, channels = sizes
    ordered = padded[:features, :inner].reshape(features, taps, *outer, channels)
    return np.moveaxis(ordered, 1, -2).reshape(features, inner)
