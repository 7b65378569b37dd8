"""The passes of a bitonic sort over words: which places of a row each pass compares, in which order it reads.

A row is 2**bits words. Merging blocks of 2**phase words compares words that differ in bits phase - 1 .. 0 of
their place, in this order; a pass takes up to `stages` of these bits. It reads the words so that the bits it
compares are the lowest of its counter: then the partners of a comparison follow each other closely.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """One sweep over all words.

    base: the lowest `stages` bits of the counter are bits base .. of the place. active: bit s is 1 where
    stage s, of distance 2**s in the order of reading, compares. phase: bit `phase` of the place says which
    blocks become descending. merge: the lanes of each word are merged too, which ends the phase.
    """

    base: int
    active: int
    phase: int
    merge: bool


def passes(bits: int, stages: int) -> tuple[Pass, ...]:
    """All passes behind the one that sorts each word by itself; none for rows of one word."""
    found = []
    for phase in range(1, bits + 1):
        bit = phase - 1
        while bit >= 0:
            low = max(0, bit - stages + 1)
            base = min(low, bits - stages)
            active = sum(1 << (b - base) for b in range(low, bit + 1))
            found.append(Pass(base, active, phase, low == 0))
            bit = low - 1
    return tuple(found)


def place_bits(bits: int, stages: int, base: int) -> tuple[int, ...]:
    """For each bit of a place, the bit of the counter that it is."""
    return tuple(
        b - base if base <= b < base + stages else b + stages if b < base else b for b in range(bits)
    )


def network(lanes: int) -> tuple[tuple[tuple[int, int, bool | None], ...], ...]:
    """Levels of the network that sorts a word: (lane, lane, descending); None: as the whole word."""
    levels = []
    size = 2
    while size <= lanes:
        distance = size // 2
        while distance:
            pairs = []
            for lane in range(lanes):
                if not lane & distance:
                    down = None if size == lanes else bool(lane & size)
                    pairs.append((lane, lane + distance, down))
            levels.append(tuple(pairs))
            distance //= 2
        size *= 2
    return tuple(levels)


def merger(lanes: int) -> tuple[tuple[tuple[int, int, bool | None], ...], ...]:
    """Levels of the network that sorts a bitonic word: the last phase of `network`."""
    levels = network(lanes)
    return levels[len(levels) - (lanes.bit_length() - 1) :]
