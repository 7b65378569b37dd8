"""Piecewise polynomials with integer coefficients: segments of a power of two, fitted and rounded by numpy.

A segment's polynomial is c0 + t * (c1 + t * (c2 ...)) in the offset t in [0, 1) within the segment. Every
step of the hardware rounds down to the fraction of the coefficients, and c0 is chosen last, with all those
steps simulated. Where the function is monotone the pieces join without a step back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arith.expr import ExprBuilder
from .values import Real, RealFunction

Ints = npt.NDArray[np.int64]

MOST_SEGMENTS = 4096
MULTIPLIER_IN_BITS = 2048
"""Table bits that one more multiplication may cost; below that a longer table is preferred."""
FIT_ERROR = 0.1
"""Largest error of the unrounded polynomials, in units in the last place."""
GUARDS = (4, 6)
"""Fraction bits of the coefficients behind the last place, the first that suffices is taken."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is approximated, on whole numbers u from first to last.

    curve: of real u, in units in the last place. below, above: constant values outside (None: u stays inside;
    above = infinity: the value that the curve has there). direction: 1 where the curve never falls, -1 where
    it never rises, 0 otherwise. low, high: bounds that the approximation keeps where the curve is monotone.
    """

    curve: RealFunction
    first: int
    last: int
    below: float | None = None
    above: float | None = None
    direction: int = 0
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Piecewise:
    """A table of polynomials over stored integers u.

    start: first u of segment `first`, a multiple of 2**size. size: log2 of the segment. offset_bits: bits of
    t that are used. mirrored: t counts down. frac: of the coefficients, in the place of the caller's choice.
    tables: c0, c1, ... by segment. lowest, highest: limits of u (None: no limit is needed).
    """

    first: int
    size: int
    offset_bits: int
    mirrored: bool
    frac: int
    tables: tuple[tuple[int, ...], ...]
    lowest: int | None = None
    highest: int | None = None

    def emit(self, b: ExprBuilder, u: int) -> int:
        """The value for the stored integer of operation `u`."""
        frac = b.value(u).frac
        if self.highest is not None:
            u = b.minimum(u, b.const(self.highest, frac))
        if self.lowest is not None:
            u = b.maximum(u, b.const(self.lowest, frac))
        index = b.floor(b.shift(u, frac - self.size))
        *tables, top = self.tables
        total = b.rom(index, top, self.first, self.frac)
        if not tables:
            return total
        t = self._offset(b, u)
        for table in reversed(tables):
            product = b.floor_to(b.mul(t, total), self.frac)
            total = b.add(b.rom(index, table, self.first, self.frac), product)
        return total

    def _offset(self, b: ExprBuilder, u: int) -> int:
        t = b.bitwise("and", u, b.const((1 << self.size) - 1))
        t = b.floor(b.shift(t, self.offset_bits - self.size))
        if self.mirrored:
            t = b.bitwise("xor", t, b.const((1 << self.offset_bits) - 1))
        return b.shift(t, -self.offset_bits)


def candidates(target: Target, most_degree: int, frac: int) -> Iterator[Piecewise]:
    """Approximations in order of preference: cheapest first, then with finer rounding, then shorter segments.

    frac: fraction bits of one unit in the last place of the curve.
    """
    found = []
    for degree in range(most_degree + 1):
        size = _longest_segment(target, degree)
        if size is not None:
            found.append((_cost(target, degree, size), degree, size))
    for _, degree, size in sorted(found):
        for shorter in (size, size - 1):
            if shorter >= min(degree, 1):
                yield from (_rounded(target, degree, shorter, guard, frac) for guard in GUARDS)


def _segments(target: Target, size: int) -> Ints:
    """Indices of the segments that cover the target."""
    return np.arange(target.first >> size, (target.last >> size) + 1, dtype=np.int64)


def _longest_segment(target: Target, degree: int) -> int | None:
    """log2 of the longest segment with which a polynomial of this degree suffices."""
    top = max(target.last - target.first, 1).bit_length()
    for size in range(top, -1, -1):
        if len(_segments(target, size)) > MOST_SEGMENTS:
            return None
        if size == 0 or _fit_error(target, degree, size) <= FIT_ERROR:
            return size if degree == 0 or size > 0 else None
    return None


def _nodes(degree: int) -> Real:
    """Chebyshev nodes of (0, 1): least squares on them comes near the least maximum."""
    count = 2 * degree + 3
    return np.asarray(0.5 - 0.5 * np.cos(math.pi * (np.arange(count) + 0.5) / count))


def _fit_error(target: Target, degree: int, size: int) -> float:
    """Largest error of unrounded polynomials, over all segments and a grid of offsets."""
    index, nodes = _segments(target, size), _nodes(degree)
    span = 1.0 - 2.0**-size
    values = _values(target, index, size, nodes * span)
    coefficients = values @ np.linalg.pinv(np.vander(nodes * span, degree + 1)).T
    grid = np.linspace(0.0, span, 4 * degree + 5)
    fitted = coefficients @ np.vander(grid, degree + 1).T
    return float(np.max(np.abs(fitted - _values(target, index, size, grid))))


def _values(target: Target, index: Ints, size: int, offsets: Real) -> Real:
    """The curve at (segment, offset in segments)."""
    return target.curve((index[:, None] + offsets[None, :]) * 2.0**size)


def _cost(target: Target, degree: int, size: int) -> float:
    """Table bits of about the right size, and the multiplications in the same measure."""
    index, nodes = _segments(target, size), _nodes(degree)
    values = _values(target, index, size, nodes)
    coefficients = values @ np.linalg.pinv(np.vander(nodes, degree + 1)).T
    widths = np.log2(np.abs(coefficients).max(axis=0) + 1.0) + GUARDS[0] + 1
    return float(len(index) * widths.sum() + MULTIPLIER_IN_BITS * degree)


def _rounded(target: Target, degree: int, size: int, guard: int, frac: int) -> Piecewise:
    """Coefficients as integers: the highest first, each lower one fitted to what is left, c0 last."""
    index, nodes = _segments(target, size), _nodes(degree)
    unit = float(1 << guard)
    steps = np.abs(np.diff(_values(target, index, size, np.linspace(0, 1 - 2.0**-size, 9)), axis=1)).max()
    offset_bits = max(1, min(size, math.ceil(math.log2(8 * steps + 1)) + 4)) if size else 0
    mirrored = degree >= 2 and _bends_back(target, index, size)
    least = 2.0**-offset_bits
    t = (1.0 - least - nodes) if mirrored else nodes
    left = _values(target, index, size, nodes) * unit
    rounded: list[Ints] = []
    for power in range(degree, 0, -1):
        fitted = left @ np.linalg.pinv(np.vander(t, power + 1)).T
        best = np.rint(fitted[:, 0]).astype(np.int64)
        if target.direction:
            best = _same_sign(best, -target.direction if mirrored else target.direction)
        left = left - best[:, None] * t[None, :] ** power
        rounded.append(best)
    c0 = _constants(target, index, size, rounded, (offset_bits, mirrored, unit))
    return _tables(target, index, size, [c0, *reversed(rounded)], (offset_bits, mirrored, guard, frac))


def _bends_back(target: Target, index: Ints, size: int) -> bool:
    """Whether slope and curvature have opposite signs: counting t from the other end makes them equal."""
    y = _values(target, index, size, np.array([0.0, 0.5, 1.0 - 2.0**-size]))
    slope, bend = y[:, 2] - y[:, 0], y[:, 2] - 2 * y[:, 1] + y[:, 0]
    return bool(np.sum(slope * bend) < 0)


def _same_sign(values: Ints, sign: int) -> Ints:
    """A coefficient that rounding alone pushed over zero is zero: the steps of the hardware stay monotone."""
    return np.where((values * sign < 0) & (np.abs(values) <= 2), 0, values)


def _constants(
    target: Target, index: Ints, size: int, upper: list[Ints], form: tuple[int, bool, float]
) -> Ints:
    """c0 of every segment: the middle of what the other terms leave, then moved to be monotone."""
    offset_bits, mirrored, unit = form
    count = 1 << size
    most = max(33, (1 << 17) // len(index))
    grid = np.linspace(0, count - 1, min(count, most)).astype(np.int64)
    u = np.unique(np.minimum(grid, count - 1))  # beyond 53 bits the last one is rounded up
    t = u >> (size - offset_bits)
    t = ((1 << offset_bits) - 1) ^ t if mirrored else t
    rest = np.zeros((len(index), len(u)), dtype=np.int64)
    for coefficient in upper:
        rest = ((coefficient[:, None] + rest) * t[None, :]) >> offset_bits
    positions = np.asarray(index[:, None] * 2.0**size + u[None, :], dtype=np.float64)
    left = target.curve(positions) * unit - rest
    c0: Ints = np.rint((left.max(axis=1) + left.min(axis=1)) / 2).astype(np.int64)
    if target.direction:
        _join(target, c0, rest * target.direction, unit)
    return c0


def _join(target: Target, c0: Ints, rest: Ints, unit: float) -> None:
    """Move c0 so that no piece starts before the end of the one before it; `rest` is turned to rise."""
    sign = target.direction
    low, high = sorted((sign * target.low * unit, sign * target.high * unit))
    least, greatest = rest.min(axis=1), rest.max(axis=1)
    end = math.ceil(low) if math.isfinite(low) else None
    for k in range(len(c0)):
        if end is not None:
            c0[k] = sign * max(sign * c0[k], end - least[k])
        end = sign * c0[k] + greatest[k]
    end = math.floor(high) if math.isfinite(high) else None
    for k in range(len(c0) - 1, -1, -1):
        if end is not None:
            c0[k] = sign * min(sign * c0[k], end - greatest[k])
        end = sign * c0[k] + least[k]


def _tables(
    target: Target, index: Ints, size: int, rows: list[Ints], form: tuple[int, bool, int, int]
) -> Piecewise:
    """The tables with a constant segment on each side where u can leave the target."""
    offset_bits, mirrored, guard, frac = form
    first, last = int(index[0]), int(index[-1])
    end = target.above
    if end == math.inf:
        end = float(target.curve(np.array([(last + 1) * 2.0**size]))[0])
    below = [] if target.below is None else [round(target.below * (1 << guard))]
    above = [] if end is None else [round(end * (1 << guard))]
    tables = [(*below, *(int(c) for c in rows[0]), *above)]
    tables += [(*[0] * len(below), *(int(c) for c in row), *[0] * len(above)) for row in rows[1:]]
    return Piecewise(
        first - len(below), size, offset_bits, mirrored, frac + guard, tuple(tables),
        (first << size) - 1 if below else None,
        (last + 1) << size if above else None,
    )  # fmt: skip
