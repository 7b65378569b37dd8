"""What a write does with the element that is there, and the format that holds every result."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..arith.numerics import NumberFormat, bits_for_range

PutMode: TypeAlias = Literal["set", "add", "max", "min"]
_LIMIT = 62


def accumulator(mode: PutMode, base: NumberFormat, source: NumberFormat, count: int) -> NumberFormat:
    """The format that holds every result exactly, `count` writes to one element; where that passes 62 bits it
    has fewer fraction bits.
    """
    times = count if mode == "add" else 1
    frac = max(base.frac, source.frac)

    def ends(frac: int) -> tuple[int, int]:
        (low, high), (least, most) = (_ends(fmt, frac) for fmt in (base, source))
        if mode == "add":
            return low + times * min(least, 0), high + times * max(most, 0)
        return min(low, least), max(high, most)

    while bits_for_range(*ends(frac)) > _LIMIT:
        frac -= 1
    whole = base.kind == "int" and source.kind == "int"
    return NumberFormat("int" if whole else "fixed", max(2, bits_for_range(*ends(frac))), frac)


def _ends(fmt: NumberFormat, frac: int) -> tuple[int, int]:
    """The ends of a format in units of 2**-frac, rounded outwards."""
    if frac >= fmt.frac:
        return fmt.min << (frac - fmt.frac), fmt.max << (frac - fmt.frac)
    return fmt.min >> (fmt.frac - frac), -(-fmt.max >> (fmt.frac - frac))
