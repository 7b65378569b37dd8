"""Saturation that is measured: how many values a narrowing cut, and by how many bits.

`Saturation` is an int, so whoever only counts goes on counting: `saturated += count` and `sum` keep the rest.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .numerics import IntArray, NumberFormat, bits_for_range, saturate

Bits: TypeAlias = "int | None"


class Saturation(int):
    """The number of values that were cut.

    bits: integer bits that were missing, so many more would have held every value; None when no number is
    known to be enough (an infinite value, a kernel that only counts). at_least: `bits` is a lower bound.
    of: the number of values narrowed. fmt: the format with the greatest need, None where nothing was cut.
    excess: how far the farthest value lies outside, in widths of the format's range; infinite where `bits` is
    None. Sums add counts and keep the greatest need and excess.
    """

    bits: Bits
    at_least: bool
    of: int
    fmt: NumberFormat | None
    excess: float

    def __new__(
        cls,
        count: int = 0,
        bits: Bits = 0,
        *,
        at_least: bool = False,
        of: int = 0,
        fmt: NumberFormat | None = None,
        excess: float = math.inf,
    ) -> Saturation:
        """A count with its need; nothing cut needs nothing."""
        made = super().__new__(cls, count)
        made.excess = excess if count else 0.0
        made.bits, made.at_least, made.fmt = (bits, at_least, fmt) if count else (0, False, None)
        made.of = max(of, count)
        return made

    @classmethod
    def measured(cls, found: int, of: int, fmt: NumberFormat) -> Saturation:
        """`found` itself when it is measured, else a count of unknown need among `of` values of `fmt`."""
        return found if isinstance(found, cls) else cls(int(found), None, of=of, fmt=fmt)

    def bounded(self) -> Saturation:
        """The same, its need a lower bound."""
        return Saturation(int(self), self.bits, at_least=True, of=self.of, fmt=self.fmt, excess=self.excess)

    def __add__(self, other: int) -> Saturation:
        more = other if isinstance(other, Saturation) else Saturation(other, None)
        worst = max(self, more, key=_need)
        return Saturation(
            int(self) + int(more),
            worst.bits,
            at_least=self.at_least or more.at_least,
            of=self.of + more.of,
            fmt=worst.fmt,
            excess=max(self.excess, more.excess),
        )

    __radd__ = __add__


def saturate_measured(values: IntArray, fmt: NumberFormat) -> tuple[npt.NDArray[np.int64], Saturation]:
    """`saturate`, with the need of what it cut."""
    clipped, count = saturate(values, fmt)
    array = np.asarray(values)
    if not count:
        return clipped, Saturation(of=array.size)
    low, high = int(array.min()), int(array.max())
    excess = _excess(low, high, fmt)
    return clipped, Saturation(count, _missing(low, high, fmt), of=array.size, fmt=fmt, excess=excess)


def store_measured(values: npt.ArrayLike, fmt: NumberFormat) -> tuple[npt.NDArray[np.int64], Saturation]:
    """`NumberFormat.quantize_counting`, with the need of what it cut. No number of bits holds infinity."""
    real = np.asarray(values)
    stored, count = fmt.quantize_counting(real)
    if not count:
        return stored, Saturation(of=real.size)
    low, high = float(real.min()), float(real.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return stored, Saturation(count, None, of=real.size, fmt=fmt)
    least, most = (round(Fraction(end) * Fraction(2) ** fmt.frac) for end in (low, high))
    excess = _excess(least, most, fmt)
    return stored, Saturation(count, _missing(least, most, fmt), of=real.size, fmt=fmt, excess=excess)


def _missing(low: int, high: int, fmt: NumberFormat) -> int:
    """Integer bits that a format lacks to hold low..high (a sign bit at least, where it has none)."""
    return max(1, bits_for_range(low, high) - fmt.signed_width)


def _excess(low: int, high: int, fmt: NumberFormat) -> float:
    """How far low..high reaches out of a format, in widths of its range."""
    beyond = Fraction(max(high - fmt.max, fmt.min - low), fmt.max - fmt.min)
    return math.inf if beyond >= _HUGE else float(beyond)


_HUGE = 2**1000


def _need(found: Saturation) -> float:
    return float("inf") if found.bits is None else found.bits
