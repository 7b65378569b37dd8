"""A function known by nothing but its values: what has to be said of it so that tables can be made of it.

Poles, kinks and jumps that are declared become ends of regions; others are looked for where the fit fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from .values import Real, RealFunction

Splits: TypeAlias = Callable[[float, float], tuple[float, ...]]

MARGIN = 2.0**-6
"""How far an operand may step over an end of the domain by rounding: it has the value of the end there."""


def at(*points: float) -> Splits:
    """The same points whatever the range is."""
    return lambda low, high: points


def at_whole_numbers_up_to(most: int) -> Splits:
    """Every whole number up to `most`: the poles of the gamma function and its derivatives."""

    def splits(low: float, high: float) -> tuple[float, ...]:
        first = max(math.ceil(low), most - 4096)
        return tuple(float(k) for k in range(first, min(most, math.floor(high)) + 1))

    return splits


@dataclass(frozen=True)
class Sampled:
    """f(x) = real(x).

    symmetry: "odd" and "even" need a table of one half only. splits: poles, kinks, jumps and other points
    near which f behaves like a power or a logarithm of the distance, in a range. domain: ends between which f
    is real. period: f repeats after it (None: it does not); splits then are those of the first period.

    Outside the domain f has the value of the nearest end up to `MARGIN`; beyond, and where f is infinite or
    NaN, it is the largest number of the output (with its sign where f has one), which counts as saturated.
    """

    real: RealFunction = field(compare=False)
    symmetry: Literal["none", "odd", "even"] = "none"
    splits: Splits = field(default=at(0.0), compare=False)
    domain: tuple[float, float] = (-math.inf, math.inf)
    period: float | None = None

    def exact(self, x: Real) -> Real:
        """f(x) as hardware means it: never NaN, infinite where the result saturates."""
        low, high = self.domain
        y = self.inside(x)
        return np.where((x < low - MARGIN) | (x > high + MARGIN), np.inf, y)

    def inside(self, x: Real) -> Real:
        """f(x) with x limited to the domain."""
        y = self._limited(x)
        return np.where(np.isnan(y), np.inf, y)

    def meaning(self, x: Real) -> Real:
        """f(x) as mathematics means it: NaN outside the domain."""
        low, high = self.domain
        return np.where((x < low) | (x > high), np.nan, self._limited(x))

    def _limited(self, x: Real) -> Real:
        with np.errstate(all="ignore"):
            return np.asarray(self.real(np.clip(np.asarray(x, np.float64), *self.domain)), np.float64)
