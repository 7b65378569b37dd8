"""Datapaths of curves: a piecewise polynomial where the function is neither constant nor a line.

`curve_plans` yields datapaths in order of preference; `function.py` takes the first that proves accurate. A
plan's `emit` adds the operations for operand `x` and returns the unrounded result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..arith.expr import ExprBuilder, Value
from ..arith.numerics import NumberFormat
from .fit import Piecewise, Target, candidates
from .real import Curve
from .values import Real

FLAT = 0.1
"""A curve nearer than this (in units in the last place) to its limit is the limit."""


class Plan(Protocol):
    """A datapath of one function for one pair of formats."""

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Operations for operand x; the result is not yet narrowed to the output format."""
        ...


@dataclass(frozen=True, slots=True)
class Direct:
    """One table entry for each input."""

    first: int
    table: tuple[int, ...]
    frac: int

    def emit(self, b: ExprBuilder, x: int) -> int:
        """A lookup of the rounded value."""
        index = b.shift(x, b.value(x).frac)
        return b.rom(index, self.table, self.first, self.frac)


@dataclass(frozen=True, slots=True)
class CurvePlan:
    """offset + slope * max(x, 0) + rest, the rest of x or of |x| from a table; see `Curve`."""

    piecewise: Piecewise
    symmetry: str
    slope: tuple[int, int]
    offset: tuple[int, int]
    jump: int | None

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Symmetry, table, and the parts that are exact."""
        rest = self.piecewise.emit(b, x if self.symmetry == "none" else b.abs(x))
        if self.symmetry == "odd":
            rest = b.select(b.less(x, b.const(0)), b.neg(rest), rest)
        if self.jump is not None:
            frac = b.value(x).frac
            rest = b.select(b.less(b.const(self.jump, frac), x), b.const(0), rest)
        if self.slope[0]:
            rest = b.add(b.scale_by(b.maximum(x, b.const(0)), *self.slope), rest)
        return b.add(rest, b.const(*self.offset)) if self.offset[0] else rest


@dataclass(frozen=True, slots=True)
class AbovePlan:
    """max(x, table), for a rising curve above the identity that ends in it; jump as in `Curve`."""

    piecewise: Piecewise
    jump: int | None

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Monotone whatever the steps of the table, where a sum of both parts would not be."""
        y = b.maximum(x, self.piecewise.emit(b, x))
        if self.jump is None:
            return y
        return b.select(b.less(b.const(self.jump, b.value(x).frac), x), x, y)


def curve_plans(curve: Curve, x: Value, out: NumberFormat, degree: int, significant: int) -> Iterator[Plan]:
    """Tables over the part of the input range where the rest is not constant."""
    unit, scale = 2.0**-x.frac, 2.0**out.frac
    beyond = math.inf if curve.right is not None else 16.0 * (out.max + 1)  # far beyond the output's range

    def rest(u: Real) -> Real:
        with np.errstate(over="ignore"):  # infinite is beyond too
            return np.minimum(curve.rest(u * unit) * scale, beyond)

    mirrored = curve.symmetry != "none"
    low, high = (0, max(abs(x.low), abs(x.high))) if mirrored else (x.low, x.high)
    below = above = None
    first, last = low, high
    if curve.left is not None and not mirrored:
        first, below = _trim(rest, curve.left * scale, low, high, left=True), curve.left * scale
    if curve.right is not None:
        last, above = _trim(rest, curve.right * scale, low, high, left=False), curve.right * scale
    else:
        last, above = _boundary(lambda u: rest(u) < out.max + 1, low, high, left=False), math.inf
    first, last = min(first, last), max(first, last)
    direction = 0 if not curve.rising else (-1 if curve.symmetry == "even" else 1)
    ends = [float(rest(np.array([0.0]))[0]) if mirrored else below, above]
    least, most = sorted(-math.inf if e is None else e for e in ends)
    target = Target(
        rest, first, last,
        below if first > low else None,
        above if last < high else None,
        direction, least, most,
    )  # fmt: skip
    jump = None
    if curve.jump is not None and abs(float(rest(np.array([curve.jump / unit]))[0])) > FLAT / 2:
        jump = math.floor(curve.jump / unit)
    bits = out.width + 6
    slope, offset = _significant(curve.slope, bits), _significant(curve.offset, bits)
    for piecewise in candidates(target, degree, out.frac):
        yield CurvePlan(piecewise, curve.symmetry, slope, offset, jump)
    if (
        curve.rising and curve.symmetry == "even"
    ):  # x + rest fell back where x is finer than the steps of the rest
        whole = Target(
            lambda u: rest(np.abs(u)) + np.maximum(u, 0.0) * (unit * scale),
            max(-last, x.low), min(last, x.high),
            0.0 if -last > x.low else None,
            math.inf if last < x.high else None,
            1, 0.0,
        )  # fmt: skip
        for piecewise in candidates(whole, degree, out.frac):
            yield AbovePlan(piecewise, jump)


def _significant(value: float, bits: int) -> tuple[int, int]:
    """(integer, frac) nearest to value with at most `bits` significant bits."""
    if value == 0:
        return 0, 0
    mantissa, exponent = math.frexp(value)
    integer, frac = round(math.ldexp(mantissa, bits)), bits - exponent
    while integer % 2 == 0:
        integer, frac = integer // 2, frac - 1
    return integer, frac


def _trim(curve: Callable[[Real], Real], limit: float, low: int, high: int, *, left: bool) -> int:
    """The end of the part of low..high outside of which the curve is its limit."""
    return _boundary(lambda u: np.abs(curve(u) - limit) > FLAT, low, high, left=left)


def _boundary(inside: Callable[[Real], npt.NDArray[np.bool_]], low: int, high: int, *, left: bool) -> int:
    """First (left) or last u in low..high where `inside` holds, by a grid that is dense around 0, then
    bisection.
    """
    grid = {low, high, 0, *(int(v) for v in np.linspace(low, high, 4097))}
    steps = [(16 + j) << k for k in range(60) for j in range(16)]
    grid |= {sign * (s >> 4) for s in steps for sign in (-1, 1)}
    points = np.array(sorted(g for g in grid if low <= g <= high), dtype=np.float64)
    holds = np.flatnonzero(inside(points))
    if not len(holds):
        return low
    place = int(holds[0] if left else holds[-1])
    sure = int(points[place])
    other = place - 1 if left else place + 1
    if not 0 <= other < len(points):
        return sure
    away = int(points[other])
    while abs(sure - away) > 1:
        middle = (sure + away) // 2
        if inside(np.array([float(middle)]))[0]:
            sure = middle
        else:
            away = middle
    return sure
