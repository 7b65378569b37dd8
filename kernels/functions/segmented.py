"""Datapath of a sampled function: region by comparison, octave by leading zeros, a polynomial a segment.

The rounding is that of `fit`: coefficients are integers, each step rounds down to their fraction, and c0 is
chosen last with those steps simulated. Where results span many powers of two, each segment has an exponent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import KernelParameterError
from ..arith.expr import ExprBuilder, Value
from ..arith.numerics import NumberFormat
from .octaves import Kink, Octave, fitted, nodes, octaves
from .regions import Goal, Group, Ints, Region, regions
from .sampled import MARGIN, Sampled
from .values import Real

MULTIPLIER_IN_BITS = 2048
GUARDS = (4, 6)
MOST_CUTS = 48
BEYOND = 4.0
"""The curve is followed to so many times the output's range."""


@dataclass(frozen=True, slots=True)
class Segmented:
    """A table over whole numbers.

    starts: first number of every region but the first; anchors: by region. bits: of distances. splits, bases:
    log2 of the segments and number of the first one, by region * (bits + 1) + leading zeros of the distance.
    exponents: by segment. tables: c0, c1, ... by segment, with `frac` fraction bits.
    """

    starts: tuple[int, ...]
    anchors: tuple[int, ...]
    bits: int
    splits: tuple[int, ...]
    bases: tuple[int, ...]
    offset_bits: int
    frac: int
    exponents: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]

    def emit(self, b: ExprBuilder, u: int) -> int:
        """The value for the whole number of operation `u`."""
        region = b.const(0)
        for start in self.starts:
            region = b.add(region, b.less(b.const(start - 1), u))
        distance = b.abs(b.sub(u, b.rom(region, self.anchors)))
        most = b.const((1 << self.bits) - 1)
        zeros, full = b.normalise(b.minimum(distance, most), self.bits)
        mask = (1 << (self.bits - 1)) - 1
        key = b.add(b.scale_by(region, self.bits + 1, 0), zeros)
        moved = b.shift_left(b.bitwise("and", full, b.const(mask)), b.rom(key, self.splits))
        inner = b.floor(b.shift(moved, 1 - self.bits))
        index = b.add(b.rom(key, self.bases), inner)
        *tables, top = self.tables
        total = b.rom(index, top, 0, self.frac)
        if tables:
            low = b.bitwise("and", moved, b.const(mask))
            t = b.shift(b.floor(b.shift(low, self.offset_bits + 1 - self.bits)), -self.offset_bits)
            for table in reversed(tables):
                product = b.floor_to(b.mul(t, total), self.frac)
                total = b.add(b.rom(index, table, 0, self.frac), product)
        return b.shift_left(total, b.rom(index, self.exponents))


@dataclass(frozen=True, slots=True)
class SampledPlan:
    """The table behind a symmetry or a period; inside: whole numbers of the domain, margin: those around it
    that have the value of its ends. beyond: the result outside (integer, frac).
    """

    table: Segmented
    symmetry: str
    inside: tuple[int, int]
    margin: tuple[int, int]
    beyond: tuple[int, int]
    rate: tuple[int, int] | None
    never_below_zero: bool

    def emit(self, b: ExprBuilder, x: int) -> int:
        """Limit, mirror, look up, mirror back."""
        value = b.value(x)
        whole = b.shift(x, value.frac)
        u = whole if self.symmetry == "none" else b.abs(whole)
        if self.rate is not None:
            places = self.inside[1].bit_length()
            u = b.floor_to(b.scale_by(b.shift(u, -value.frac), *self.rate), places)
            u = b.bitwise("and", b.shift(u, places), b.const(self.inside[1]))
        else:
            u = b.minimum(b.maximum(u, b.const(self.inside[0])), b.const(self.inside[1]))
        y = self.table.emit(b, u)
        if self.never_below_zero:
            y = b.maximum(y, b.const(0))
        if self.symmetry == "odd":
            y = b.select(b.less(whole, b.const(0)), b.neg(y), y)
        outside = b.const(*self.beyond)
        y = b.select(b.less(whole, b.const(self.margin[0])), outside, y)
        return b.select(b.less(b.const(self.margin[1]), whole), outside, y)


def sampled_plans(
    f: Sampled, x: Value, out: NumberFormat, degree: int, significant: int
) -> Iterator[SampledPlan]:
    """Tables of every degree, the cheapest first, each with coarser and finer rounding."""
    unit, scale = 2.0**-x.frac, 2.0**out.frac
    mirrored = f.symmetry != "none"
    low, high = (0, max(abs(x.low), abs(x.high))) if mirrored else (x.low, x.high)
    whole_low, whole_high = _whole(f.domain, unit, low, high)
    inside, rate, step = (whole_low, whole_high), None, unit
    half = 0.0
    if f.period is not None:
        places = max(out.frac + 2 * max(out.width - out.frac, 0) + 4, 8)
        inside, step, half = (0, (1 << places) - 1), f.period * 2.0**-places, 0.5
        bits = places + max(max(abs(x.low), abs(x.high)).bit_length() - x.frac, 0) + 3
        rate = (round(math.ldexp(1.0 / f.period, bits)), bits)
    limit = BEYOND * (out.max + 1)

    def curve(u: Real) -> Real:
        with np.errstate(all="ignore"):
            return np.clip(f.inside((u + half) * step) * scale, -limit, limit)

    most = float(out.max + 1)
    goal = Goal(curve, -most if f.symmetry == "odd" else float(out.min), most, significant)
    cuts = tuple(c / step for c in f.splits(inside[0] * step, inside[1] * step))
    margin = (
        math.ceil(max((f.domain[0] - MARGIN) / unit, x.low)),
        math.floor(min((f.domain[1] + MARGIN) / unit, x.high)),
    )
    beyond = (out.max + 2, out.frac)
    for parts, found, used in _by_cost(goal, inside, cuts, degree):
        for guard in GUARDS:
            table, positive = _table(goal, parts, found, used, guard, out, significant)
            yield SampledPlan(table, f.symmetry, inside, margin, beyond, rate, positive)


def _whole(ends: tuple[float, float], unit: float, low: int, high: int) -> tuple[int, int]:
    """The ends in whole numbers, rounded outwards, within low..high."""
    first = low if ends[0] / unit <= low else min(math.floor(ends[0] / unit), high)
    last = high if ends[1] / unit >= high else max(math.ceil(ends[1] / unit), low)
    return first, last


def _by_cost(
    goal: Goal, ends: tuple[int, int], cuts: tuple[float, ...], most: int
) -> list[tuple[tuple[Region, ...], list[Octave], int]]:
    """Regions and octaves for every degree that suffices, those with the smallest tables first."""
    if len(cuts) > MOST_CUTS:
        raise KernelParameterError(
            f"{len(cuts)} poles or kinks lie in the operand's range, tables are made for at most {MOST_CUTS}"
        )
    found = []
    for degree in range(most, -1, -1):
        split: list[Octave] | Kink | None = None
        extra: list[float] = []
        while len(cuts) + len(extra) <= MOST_CUTS:
            parts = regions(*ends, (*cuts, *extra))
            split = octaves(goal, parts, degree)
            if not isinstance(split, Kink):
                break
            if split.place in extra:
                split = None
                break
            extra.append(float(split.place))
        if isinstance(split, list):
            count = sum(1 << o.split for o in split)
            cost = count * 24 * (degree + 1) + MULTIPLIER_IN_BITS * degree
            found.append((cost, parts, split, degree))
    return [(p, s, d) for _, p, s, d in sorted(found, key=lambda row: row[0])]


def _table(
    goal: Goal,
    parts: tuple[Region, ...],
    split: list[Octave],
    degree: int,
    guard: int,
    out: NumberFormat,
    significant: int,
) -> tuple[Segmented, bool]:
    """The table, and whether the function is nowhere negative although a coefficient may be."""
    bits = max(max(r.extent for r in parts).bit_length(), 2)
    starts = tuple(r.first for r in parts[1:])
    anchors = tuple(r.anchor for r in parts)
    splits, bases = [0] * (len(parts) * (bits + 1)), [0] * (len(parts) * (bits + 1))
    all_groups: list[Group] = []
    base = 0
    for octave in split:
        key = parts.index(octave.region) * (bits + 1) + bits - 1 - octave.order
        splits[key], bases[key] = octave.split, base
        used = octave.groups
        base += sum(len(g.starts) for g in used)
        all_groups += used
    exponents = [_exponents(goal, g, significant) for g in all_groups]
    steps = max(_steps(goal, g, e) for g, e in zip(all_groups, exponents, strict=True))
    offset_bits = max(1, min(bits - 1, math.ceil(math.log2(8 * steps + 1)) + 4))
    rows = [
        _coefficients(goal, g, e, degree, guard, offset_bits)
        for g, e in zip(all_groups, exponents, strict=True)
    ]
    tables = tuple(tuple(int(c) for part in rows for c in part[p]) for p in range(degree + 1))
    moves = tuple(int(e) for part in exponents for e in part)
    values = [g.values(goal, g.points(nodes(2))) for g in all_groups]
    positive = all(float(v.min()) >= 0 for v in values)
    table = Segmented(
        starts, anchors, bits, tuple(splits), tuple(bases), offset_bits, out.frac + guard, moves, tables
    )
    return table, positive


def _exponents(goal: Goal, group: Group, significant: int) -> Ints:
    """log2 of the place of each segment that still matters."""
    least = np.abs(group.values(goal, group.points(nodes(2)))).min(axis=1)
    return np.asarray(np.floor(np.log2(np.maximum(least * 2.0**-significant, 1.0))), np.int64)


def _steps(goal: Goal, group: Group, exponents: Ints) -> float:
    """How far the curve moves within an eighth of a segment, in the places that matter."""
    values = group.values(goal, group.points(np.linspace(0, 1, 9)))
    if values.shape[1] < 2:
        return 0.0
    share = group.count / (1 << group.size)
    moved = np.abs(np.diff(values, axis=1)) / 2.0 ** exponents[:, None]
    return float(moved.max()) / share


def _coefficients(
    goal: Goal, group: Group, exponents: Ints, degree: int, guard: int, offset_bits: int
) -> list[Ints]:
    """c0, c1, ... as integers: the highest first, each lower one fitted to what is left, c0 last."""
    scale = 2.0 ** (guard - exponents[:, None].astype(np.float64))
    at = group.points(nodes(degree))
    offsets = group.offsets(at)
    left = group.values(goal, at) * scale
    upper: list[Ints] = []
    for power in range(degree, 0, -1):
        best = np.rint(fitted(left, offsets, power)[:, 0])
        left = left - best[:, None] * offsets[None, :] ** power
        upper.append(np.array([int(v) for v in best], dtype=object))
    every = group.points(np.linspace(0, 1, max(33, min(group.count, (1 << 14) // len(group.starts)))))
    t = np.array([int(d) for d in every[0] - group.starts[0]], dtype=object)
    t = (t << offset_bits) >> group.size
    rest = np.zeros((len(group.starts), len(t)), dtype=object)
    for coefficient in upper:
        rest = ((coefficient[:, None] + rest) * t[None, :]) >> offset_bits
    real = group.values(goal, every)
    matters = (real >= goal.least) & (real <= goal.most)
    matters |= ~matters.any(axis=1, keepdims=True)
    away = real * scale - rest.astype(np.float64)
    high = np.where(matters, away, -np.inf).max(axis=1)
    low = np.where(matters, away, np.inf).min(axis=1)
    return [np.rint((high + low) / 2), *reversed(upper)]
