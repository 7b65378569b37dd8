"""Datapaths with a range reduction: powers, logarithms, exponentials and waves.

Each `..._plans` yields datapaths in order of preference, as `curve.curve_plans` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..arith.expr import ExprBuilder, Value
from ..arith.numerics import NumberFormat
from .curve import Plan, curve_plans
from .fit import Piecewise, Target, candidates
from .real import Curve, Definition, Exponential, Logarithm, Power, Wave
from .sampled import Sampled
from .segmented import sampled_plans
from .values import Real

TURNS = 0xA2F9836E4E441529FC2757D1F534DDC0 >> 2
"""1 / (2 * pi) in 128 fraction bits."""


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


def power_plans(
    power: Power, x: Value, out: NumberFormat, degree: int, significant: int
) -> Iterator[ScaledPlan]:
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
    most = max(min(max(shifts), full - 1), 3 - out.frac)
    least = none if rising and x.low <= 0 else max(min(shifts), none)
    least = min(least, full)
    amounts = [min(max(k, least), full) - least for k in shifts]
    amounts.append(0 if rising else full + 1 - least)  # x = 0
    parity = (*((e % 2) * span for e in exponents), 0) if parts == 2 else ()
    places = min(most + out.frac, significant + 1)  # of the mantissa's function, which is at least 1/2
    scale = 2.0**places
    target = Target(
        lambda v: root(v) * scale, 0, parts * span - 1,
        direction=1 if rising else -1, low=smallest * scale, high=2 * smallest * scale,
    )  # fmt: skip
    for piecewise in candidates(target, degree, places):
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


def logarithm_plans(
    log: Logarithm, x: Value, out: NumberFormat, degree: int, significant: int
) -> Iterator[LogarithmPlan]:
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
    """2 ** (rate * x) = 2 ** fraction * 2 ** whole; x is limited to lowest..highest first, where the result
    ends. ends: of the whole exponent, for an x whose steps are wider than that range.
    """

    piecewise: Piecewise
    lowest: int
    highest: int
    rate: tuple[int, int]
    places: int
    ends: tuple[int, int]

    def emit(self, b: ExprBuilder, x: int) -> int:
        """One product by a constant, then a table and a shift."""
        frac = b.value(x).frac
        x = b.minimum(b.maximum(x, b.const(self.lowest, frac)), b.const(self.highest, frac))
        y = b.floor_to(b.scale_by(x, *self.rate), self.places)
        whole, fraction = b.floor(y), b.bitwise("and", y, b.const((1 << self.places) - 1))
        whole = b.minimum(b.maximum(whole, b.const(self.ends[0])), b.const(self.ends[1]))
        least = b.value(whole).low
        power = b.shift_left(self.piecewise.emit(b, fraction), b.sub(whole, b.const(least)))
        return b.shift(power, least)


def exponential_plans(
    e: Exponential, x: Value, out: NumberFormat, degree: int, significant: int
) -> Iterator[Plan]:
    """A plain curve for narrow results, which need few segments; for wide ones the fraction's power and a
    shift.
    """
    if out.width <= 18:
        curve = Curve(e.exact, "none", 0.0, None, rising=True)
        yield from curve_plans(curve, x, out, degree, significant)
    unit = 2.0**-x.frac
    top = math.log2(out.max + 1) - out.frac  # the exponent at which results saturate
    lowest, highest = (math.floor(k / e.rate / unit) for k in (-4.0 - out.frac, top + 1))
    lowest, highest = max(lowest, x.low), min(highest, x.high)
    if lowest >= highest:
        lowest, highest = (x.low, x.low + 1) if lowest >= x.high else (x.high - 1, x.high)
    most = math.floor(max(min(top, highest * unit * e.rate), -out.frac - 4.0))
    kept = min(most + out.frac, significant + 1)
    places = kept + 6
    span = 1 << places
    scale = 2.0**kept
    target = Target(lambda v: np.exp2(v / span) * scale, 0, span - 1, direction=1, low=scale, high=2 * scale)
    whole = max(abs(lowest), abs(highest)).bit_length() - x.frac
    bits = max(places + max(whole, 0) + 2, 8)
    rate = (round(math.ldexp(e.rate, bits)), bits)
    ends = (math.floor(-4.0 - out.frac) - 2, math.ceil(top) + 2)
    for piecewise in candidates(target, degree, kept):
        yield ExponentialPlan(piecewise, lowest, highest, rate, places, ends)


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


def wave_plans(wave: Wave, x: Value, out: NumberFormat, degree: int, significant: int) -> Iterator[WavePlan]:
    """sin and cos of any argument; a period is the whole table."""
    places = max(out.frac + 6, 4)
    span = 1 << places
    scale = 2.0**out.frac
    turn = 2.0 * math.pi
    target = Target(lambda v: wave.exact((v + 0.5) / span * turn) * scale, 0, span - 1)
    bits = places + max(max(abs(x.low), abs(x.high)).bit_length() - x.frac, 0) + 3
    rate = (TURNS >> (128 - bits), bits)
    for piecewise in candidates(target, degree, out.frac):
        yield WavePlan(piecewise, rate, places)


def plans(
    definition: Definition, x: Value, out: NumberFormat, degree: int, significant: int | None = None
) -> Iterator[Plan]:
    """Datapaths of a function in order of preference.

    significant: leading bits of the result that matter (None: all of `out`).
    """
    makers: dict[type, Callable[..., Iterator[Plan]]] = {
        Curve: curve_plans,
        Power: power_plans,
        Logarithm: logarithm_plans,
        Exponential: exponential_plans,
        Wave: wave_plans,
        Sampled: sampled_plans,
    }
    return makers[type(definition)](definition, x, out, degree, significant or out.width)


def _normalised(b: ExprBuilder, x: int, bits: int) -> tuple[int, int]:
    """Leading zeros of max(x, 0) in `bits` bits, and the bits behind its first one, moved to the front."""
    value = b.value(x)
    x = b.shift(x, value.frac)
    if value.low < 0:
        x = b.maximum(x, b.const(0))
    zeros, full = b.normalise(x, bits)
    return zeros, b.bitwise("and", full, b.const((1 << (bits - 1)) - 1))
