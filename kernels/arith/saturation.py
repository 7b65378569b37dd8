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
    Sums add counts and keep the greatest need.
    """

    bits: Bits
    at_least: bool
    of: int
    fmt: NumberFormat | None

    def __new__(
        cls,
        count: int = 0,
        bits: Bits = 0,
        *,
        at_least: bool = False,
        of: int = 0,
        fmt: NumberFormat | None = None,
    ) -> Saturation:
        """A count with its need; nothing cut needs nothing."""
        made = super().__new__(cls, count)
        made.bits, made.at_least, made.fmt = (bits, at_least, fmt) if count else (0, False, None)
        made.of = max(of, count)
        return made

    @classmethod
    def measured(cls, found: int, of: int, fmt: NumberFormat) -> Saturation:
        """`found` itself when it is measured, else a count of unknown need among `of` values of `fmt`."""
        return found if isinstance(found, cls) else cls(int(found), None, of=of, fmt=fmt)

    def __add__(self, other: int) -> Saturation:
        more = other if isinstance(other, Saturation) else Saturation(other, None)
        worst = max(self, more, key=_need)
        return Saturation(
            int(self) + int(more),
            worst.bits,
            at_least=self.at_least or more.at_least,
            of=self.of + more.of,
            fmt=worst.fmt,
        )

    __radd__ = __add__


def saturate_measured(values: IntArray, fmt: NumberFormat) -> tuple[npt.NDArray[np.int64], Saturation]:
    """`saturate`, with the need of what it cut."""
    clipped, count = saturate(values, fmt)
    array = np.asarray(values)
    bits = _missing(int(array.min()), int(array.max()), fmt) if count else 0
    return clipped, Saturation(count, bits, of=array.size, fmt=fmt)


def store_measured(values: npt.ArrayLike, fmt: NumberFormat) -> tuple[npt.NDArray[np.int64], Saturation]:
    """`NumberFormat.quantize_counting`, with the need of what it cut. No number of bits holds infinity."""
    real = np.asarray(values)
    stored, count = fmt.quantize_counting(real)
    bits: Bits = 0
    if count:
        low, high = float(real.min()), float(real.max())
        scale = Fraction(2) ** fmt.frac
        finite = math.isfinite(low) and math.isfinite(high)
        bits = _missing(round(Fraction(low) * scale), round(Fraction(high) * scale), fmt) if finite else None
    return stored, Saturation(count, bits, of=real.size, fmt=fmt)


def _missing(low: int, high: int, fmt: NumberFormat) -> int:
    """Integer bits that a format lacks to hold low..high (a sign bit at least, where it has none)."""
    return max(1, bits_for_range(low, high) - fmt.signed_width)


def _need(found: Saturation) -> float:
    return float("inf") if found.bits is None else found.bits
