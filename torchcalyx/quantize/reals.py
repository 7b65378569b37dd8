"""Float64 arithmetic that ends at a largest number instead of an error."""

from __future__ import annotations

import math

HUGE = 2.0**1000
"""Stands for infinity, so that zero times a bound stays a number."""


def power_of(x: float, exponent: float) -> float:
    """x ** exponent for x >= 0, `HUGE` where that is beyond float64 or a pole."""
    try:
        return min(float(x**exponent), HUGE)
    except (OverflowError, ZeroDivisionError):
        return HUGE


def times_power_of_two(x: float, places: int) -> float:
    """x * 2**places, `HUGE` beyond float64."""
    try:
        return max(-HUGE, min(math.ldexp(x, places), HUGE))
    except OverflowError:
        return math.copysign(HUGE, x)


def dyadic(number: float) -> int | None:
    """Fraction bits of a number with at most 24 significant bits, None for others."""
    mantissa, exponent = math.frexp(number)
    integer = math.ldexp(mantissa, 24)
    if not integer.is_integer():
        return None
    whole = int(integer)
    zeros = (whole & -whole).bit_length() - 1 if whole else 24
    return 24 - exponent - zeros if whole else 0
