"""Datapaths of the functions: range reduction around a piecewise polynomial, one class for each kind.

Each `..._plans` yields datapaths in order of preference; `functions.py` takes the first that proves accurate. A
plan's `emit` adds the operations for the stored integer `x` and returns the unrounded result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .expr import ExprBuilder, Value
from .functions_fit import Piecewise, Target, candidates
from .functions_real import Curve, Definition, Exponential, Logarithm, Power, Real, Wave
from .numerics import NumberFormat

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


def curve_plans(curve: Curve, x: Value, out: NumberFormat, degree: int) -> Iterator[Plan]:
    """Tables over the part of the input range where the rest is not constant."""
    unit, scale = 2.0**-x.frac, 2.0**out.frac

    def rest(u: Real) -> Real:
        return curve.rest(u * unit) * scale

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
    if curve.rising and curve.symmetry == "even":  # x + rest fell back where x is finer than the steps of the rest
        whole = Target(
            lambda u: rest(np.abs(u)) + np.maximum(u, 0.0) * (unit * scale),
            max(-last, x.low), min(last, x.high),
            0.0 if -last > x.low else None,
            math.inf if last < x.high else None,
            1, 0.0,
        )  # fmt: skip
        for piecewise in candidates(whole, degree, out.frac):
            yield AbovePlan(piecewise, jump)


@dataclass(frozen=True, slots=True)
class ScaledPlan:
    """mantissa function * 2**shift for x = mantissa * 2**e: powers.

    bits: of x. parity: by leading zeros of x, what is joined to the mantissa (empty: nothing). amounts: by
    leading zeros, the shift less `least`. signs: negative x as an odd function.
    """

    piecewise: Piecewise
    bits: int
    parity: tuple[int, ...]
    amounts: tuple[int, ...]
    least: int
    signs: bool

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Normalise, look up, shift back."""
        zeros, mantissa = _normalised(b, b.abs(x) if self.signs else x, self.bits)
        if self.parity:
            mantissa = b.bitwise("or", mantissa, b.rom(zeros, self.parity))
        y = self.piecewise.emit(b, mantissa)
        y = b.shift(b.shift_left(y, b.rom(zeros, self.amounts)), self.least)
        return b.select(b.less(x, b.const(0)), b.neg(y), y) if self.signs else y


def power_plans(power: Power, x: Value, out: NumberFormat, degree: int) -> Iterator[ScaledPlan]:
    """x = m * 2**e with 1 <= m < 2; a root takes the parity of e into its table."""
    top = max(abs(x.low), abs(x.high)) if power.signs else max(x.high, 1)
    bits = top.bit_length()
    parts = 1 if abs(power.exponent) == 1 else 2
    span = 1 << (bits - 1)
    exponents = [bits - 1 - zeros - x.frac for zeros in range(bits)]
    shifts = [round(power.exponent * (e - e % parts)) for e in exponents]

    def root(v: Real) -> Real:
        parity = np.floor(v / span)
        return np.asarray(((1.0 + v / span - parity) * 2.0**parity) ** power.exponent)

    # Beyond `full` every result saturates, at `none` every result rounds to 0.
    rising = power.exponent > 0
    smallest = 1.0 if rising else 0.5
    full = math.ceil(math.log2((out.max + 1) / smallest)) - out.frac
    none = -4 - out.frac
    most = min(max(shifts), full - 1)
    least = none if rising and x.low <= 0 else max(min(shifts), none)
    least = min(least, full)
    amounts = [min(max(k, least), full) - least for k in shifts]
    amounts.append(0 if rising else full - least)  # x = 0
    parity = (*((e % 2) * span for e in exponents), 0) if parts == 2 else ()
    scale = 2.0 ** (most + out.frac)
    target = Target(
        lambda v: root(v) * scale, 0, parts * span - 1,
        direction=1 if rising else -1, low=smallest * scale, high=2 * smallest * scale,
    )  # fmt: skip
    for piecewise in candidates(target, degree, most + out.frac):
        yield ScaledPlan(piecewise, bits, parity, tuple(amounts), least, power.signs)


@dataclass(frozen=True, slots=True)
class LogarithmPlan:
    """scale * (ln(mantissa) + e * ln(2)); exponents: the second term by leading zeros of x + addend."""

    piecewise: Piecewise
    bits: int
    addend: int
    exponents: tuple[int, ...]

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Normalise and add both tables."""
        x = b.add(x, b.const(self.addend)) if self.addend else x
        zeros, mantissa = _normalised(b, x, self.bits)
        y = self.piecewise.emit(b, mantissa)
        return b.add(y, b.rom(zeros, self.exponents, 0, self.piecewise.frac))


def logarithm_plans(log: Logarithm, x: Value, out: NumberFormat, degree: int) -> Iterator[LogarithmPlan]:
    """x + addend = m * 2**e with 1 <= m < 2."""
    frac = max(x.frac, 0) if log.addend else x.frac
    top = max((x.high << (frac - x.frac)) + (log.addend << frac if log.addend else 0), 1)
    bits = top.bit_length()
    span = 1 << (bits - 1)
    scale = log.scale * 2.0**out.frac
    target = Target(
        lambda v: scale * np.log1p(v / span), 0, span - 1, direction=1, low=0.0, high=scale * math.log(2.0)
    )
    for piecewise in candidates(target, degree, out.frac):
        unit = scale * math.log(2.0) * 2.0 ** (piecewise.frac - out.frac)
        floor = -math.ceil((2 * out.max + 2) * 2.0 ** (piecewise.frac - out.frac) + unit)  # out of range
        exponents = [max(round((bits - 1 - z - frac) * unit), floor) for z in range(bits)]
        yield LogarithmPlan(piecewise, bits, log.addend, (*exponents, floor))


@dataclass(frozen=True, slots=True)
class ExponentialPlan:
    """2 ** (rate * x) = 2 ** fraction * 2 ** whole; x is limited to lowest..highest first, where the result ends."""

    piecewise: Piecewise
    lowest: int
    highest: int
    rate: tuple[int, int]
    places: int

    def emit(self, b: ExprBuilder, x: int) -> int:
        """One product by a constant, then a table and a shift."""
        frac = b.value(x).frac
        x = b.minimum(b.maximum(x, b.const(self.lowest, frac)), b.const(self.highest, frac))
        y = b.floor_to(b.scale_by(x, *self.rate), self.places)
        whole, fraction = b.floor(y), b.bitwise("and", y, b.const((1 << self.places) - 1))
        least = b.value(whole).low
        power = b.shift_left(self.piecewise.emit(b, fraction), b.sub(whole, b.const(least)))
        return b.shift(power, least)


def exponential_plans(e: Exponential, x: Value, out: NumberFormat, degree: int) -> Iterator[Plan]:
    """A plain curve for narrow results, which need few segments; for wide ones the fraction's power and a shift."""
    if out.width <= 18:
        yield from curve_plans(Curve(e.exact, "none", 0.0, None, rising=True), x, out, degree)
    unit = 2.0**-x.frac
    top = math.log2(out.max + 1) - out.frac  # the exponent at which results saturate
    lowest, highest = (math.floor(k / e.rate / unit) for k in (-4.0 - out.frac, top + 1))
    lowest, highest = max(lowest, x.low), min(highest, x.high)
    if lowest >= highest:
        lowest, highest = (x.low, x.low + 1) if lowest >= x.high else (x.high - 1, x.high)
    most = math.floor(max(min(top, highest * unit * e.rate), -out.frac - 4.0))
    places = most + out.frac + 6
    span = 1 << places
    scale = 2.0 ** (most + out.frac)
    target = Target(lambda v: np.exp2(v / span) * scale, 0, span - 1, direction=1, low=scale, high=2 * scale)
    whole = max(abs(lowest), abs(highest)).bit_length() - x.frac
    bits = max(places + max(whole, 0) + 2, 8)
    rate = (round(math.ldexp(e.rate, bits)), bits)
    for piecewise in candidates(target, degree, most + out.frac):
        yield ExponentialPlan(piecewise, lowest, highest, rate, places)


@dataclass(frozen=True, slots=True)
class WavePlan:
    """A function of the fraction of x * rate, which counts periods."""

    piecewise: Piecewise
    rate: tuple[int, int]
    places: int

    def emit(self, b: ExprBuilder, x: int) -> int:
        """One product by a constant, then a table."""
        y = b.floor_to(b.scale_by(x, *self.rate), self.places)
        return self.piecewise.emit(b, b.bitwise("and", y, b.const((1 << self.places) - 1)))


def wave_plans(wave: Wave, x: Value, out: NumberFormat, degree: int) -> Iterator[WavePlan]:
    """sin and cos of any argument; a period is the whole table."""
    places = max(out.frac + 6, 4)
    span = 1 << places
    scale = 2.0**out.frac
    turn = 2.0 * math.pi
    target = Target(lambda v: wave.exact((v + 0.5) / span * turn) * scale, 0, span - 1)
    bits = places + max(max(abs(x.low), abs(x.high)).bit_length() - x.frac, 0) + 3
    rate = (round(math.ldexp(1.0 / turn, bits)), bits)
    for piecewise in candidates(target, degree, out.frac):
        yield WavePlan(piecewise, rate, places)


def plans(definition: Definition, x: Value, out: NumberFormat, degree: int) -> Iterator[Plan]:
    """Datapaths of a function in order of preference."""
    makers: dict[type, Callable[..., Iterator[Plan]]] = {
        Curve: curve_plans,
        Power: power_plans,
        Logarithm: logarithm_plans,
        Exponential: exponential_plans,
        Wave: wave_plans,
    }
    return makers[type(definition)](definition, x, out, degree)


def _normalised(b: ExprBuilder, x: int, bits: int) -> tuple[int, int]:
    """Leading zeros of max(x, 0) in `bits` bits, and the bits behind its first one, moved to the front."""
    value = b.value(x)
    x = b.shift(x, value.frac)
    if value.low < 0:
        x = b.maximum(x, b.const(0))
    zeros, full = b.normalise(x, bits)
    return zeros, b.bitwise("and", full, b.const((1 << (bits - 1)) - 1))


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
    """First (left) or last u in low..high where `inside` holds, by a grid that is dense around 0, then bisection."""
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
