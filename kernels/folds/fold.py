"""Folding by sum, maximum or minimum: ranges, neutral elements and the hardware to fold the lanes of a word.

All of it is exact: a sum is as wide as the number of its terms needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from ..arith.expr import Value
from ..arith.numerics import IntArray, NumberFormat, as_exact, bits_for_range
from ..rtl.hw import Component, Signal
from ..rtl.lane import STAGE

FoldOp: TypeAlias = Literal["add", "max", "min"]
FOLD_OPS: tuple[FoldOp, ...] = ("add", "max", "min")

_UNITS = 2  # delay units of one fold (a carry chain) and of a mask
_MASK = 1


def accumulator(op: FoldOp, value: Value, count: int) -> Value:
    """Range of `count` values folded, partial results included."""
    if op != "add":
        return value
    return Value(value.frac, min(value.low, count * value.low), max(value.high, count * value.high))


def signal_width(op: FoldOp, value: Value, count: int) -> int:
    """Bits that hold any fold of up to `count` values, and the neutral element."""
    total = accumulator(op, value, count)
    return bits_for_range(min(total.low, 0), max(total.high, 0)) if op == "add" else total.width


def neutral(op: FoldOp, value: Value) -> int:
    """The element that changes no fold of values in range."""
    return {"add": 0, "max": value.low, "min": value.high}[op]


def combine(c: Component, op: FoldOp, left: Signal, right: Signal, width: int) -> Signal:
    """left folded with right, in `width` bits."""
    if op == "add":
        return c.add(left, right, width)
    return c.maximum(left, right, width) if op == "max" else c.minimum(left, right, width)


def fold_axes(op: FoldOp, values: IntArray, axes: tuple[int, ...], total: Value) -> IntArray:
    """The software model: `values` folded over `axes`, exact."""
    exact = as_exact(values, max(total.width, 8))
    if op == "add":
        return np.asarray(exact.sum(axis=axes))
    return np.asarray(exact.max(axis=axes) if op == "max" else exact.min(axis=axes))


def fold_running(op: FoldOp, values: IntArray, axis: int, total: Value) -> IntArray:
    """The software model of a scan: `values` folded from the start of `axis` to each place, exact."""
    exact = as_exact(values, max(total.width, 8))
    function = {"add": np.add, "max": np.maximum, "min": np.minimum}[op]
    return np.asarray(function.accumulate(exact, axis=axis))


def levels(lanes: int) -> int:
    """Depth of a binary tree over the lanes."""
    return (lanes - 1).bit_length()


def cuts(folds: int, masked: bool) -> tuple[bool, ...]:
    """For each of `folds` folds in a row: whether a register stands before it to keep stages short."""
    used, result = _MASK if masked else 0, []
    for _ in range(folds):
        cut = used + _UNITS > STAGE
        used = _UNITS if cut else used + _UNITS
        result.append(cut)
    return tuple(result)


def tree_latency(lanes: int, masked: bool) -> int:
    """Registers of `fold_lanes`, with the one that may stand before the accumulator behind it."""
    return sum(cuts(levels(lanes) + 1, masked))


def mask_lanes(
    c: Component, op: FoldOp, value: Value, lanes: Sequence[Signal], valid: int, last: Signal
) -> list[Signal]:
    """Lanes from number `valid` on replaced by the neutral element while `last` is 1."""
    filler = c.const(neutral(op, value), lanes[0].width)
    return [c.mux(last, filler, lane) if i >= valid else lane for i, lane in enumerate(lanes)]


def fold_lanes(c: Component, op: FoldOp, value: Value, lanes: Sequence[Signal], masked: bool) -> Signal:
    """All lanes folded into one signal, `tree_latency` cycles later."""
    row, plan = list(lanes), cuts(levels(len(lanes)) + 1, masked)
    for level, cut in enumerate(plan):
        if cut:
            row = [c.delay(s, 1) for s in row]
        if level == len(plan) - 1:
            break
        width = signal_width(op, value, min(2 ** (level + 1), len(lanes)))
        pairs = [row[i : i + 2] for i in range(0, len(row), 2)]
        row = [combine(c, op, p[0], p[1], width) if len(p) == 2 else c.resize(p[0], width) for p in pairs]
    return row[0]


def mean_constant(count: int, total: Value, out: NumberFormat) -> tuple[int, int]:
    """(integer, frac) of a constant close to 1 / count, for `ExprBuilder.scale_by` of a sum.

    For every sum in the range of `total` the product differs from the mean by at most 1/16 unit in the last
    place of `out`, so it rounds to the correctly rounded mean or, rarely, to its neighbour. Exact where
    count is a power of two.
    """
    largest = Fraction(max(abs(total.low), abs(total.high))) / Fraction(2) ** total.frac
    allowed = Fraction(1, 16) / Fraction(2) ** out.frac
    frac = count.bit_length() - 1
    while True:
        constant = round(Fraction(2**frac, count))
        if largest * abs(Fraction(constant, 2**frac) - Fraction(1, count)) <= allowed:
            return constant, frac
        frac += 1
