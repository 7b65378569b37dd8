"""Quotient of two computed values: a table of reciprocals of the normalised divisor, one product, one shift.

Error below 1 unit in the last place of the output. Division by zero saturates with the sign of the dividend
(and counts as a saturation), 0 / 0 is 0.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...errors import KernelParameterError
from ..arith.expr import ExprBuilder, Value
from ..arith.numerics import NumberFormat
from .fit import Piecewise, Target, candidates
from .multiply import scaled

TABLE_ERROR = 0.3
"""Largest error of a tabled reciprocal before it is rounded, in units of its last kept place."""


def divide(
    b: ExprBuilder,
    x: int,
    y: int,
    out: NumberFormat,
    multiplications: int = 3,
    significant: int | None = None,
) -> int:
    """Operation x / y narrowed to `out`; at most `multiplications` (at least 2) multipliers a lane.

    significant: leading bits of the quotient that matter (None: all of `out`).

    Raises KernelParameterError when no table of reciprocals is exact enough.
    """
    value = b.value(y)
    bits = max(abs(value.low), abs(value.high)).bit_length()
    places = (out.width if significant is None else min(out.width, significant + 1)) + 1
    table = reciprocals(max(bits, 2), places, multiplications - 1)
    bits = max(bits, 2)
    zero = b.const(0)
    negative = b.less(y, zero)
    size = b.shift(b.abs(y), value.frac)
    zeros, full = b.normalise(size, bits)
    mantissa = b.bitwise("and", full, b.const((1 << (bits - 1)) - 1))
    inverse = b.floor_to(b.add(table.emit(b, mantissa), b.const(1, places + 1)), places)
    dividend = scaled(b, x, places + 3)
    top, frac = dividend.mantissa, b.value(x).frac
    product = b.shift(b.mul(b.select(negative, b.neg(top), top), inverse), -frac)
    if dividend.shift is not None:
        product = b.shift_left(product, dividend.shift)
    # y = mantissa * 2**(bits - 1 - zeros - frac): more leading zeros make a larger quotient.
    quotient = b.shift(b.shift_left(product, zeros), value.frac - bits + 1)
    most = b.const(out.max + 2, out.frac)  # beyond the range on both sides
    infinite = b.select(b.less(x, zero), b.neg(most), b.select(b.less(zero, x), most, zero))
    return b.quant(b.select(b.equal(y, zero), infinite, quotient), out)


@lru_cache(maxsize=256)
def reciprocals(bits: int, places: int, degree: int) -> Piecewise:
    """1 / m for the mantissa 1 <= m < 2 of a `bits`-bit number, within `TABLE_ERROR` of 2**-places."""
    span = 1 << (bits - 1)
    scale = 2.0**places
    target = Target(lambda v: scale / (1.0 + v / span), 0, span - 1, direction=-1, low=scale / 2, high=scale)
    grid = np.linspace(0, span - 1, min(span, 20001)).astype(np.int64)
    inputs = np.unique(np.minimum(grid, span - 1))  # beyond 53 bits the last one is rounded up
    exact = target.curve(inputs.astype(np.float64))
    for piecewise in candidates(target, min(degree, 2 if places <= 19 else 4), places):
        b = ExprBuilder()
        y = piecewise.emit(b, b.input(Value(0, 0, span - 1)))
        keep = NumberFormat("fixed", places + 10, piecewise.frac)
        got = b.build(y, keep).emulate([inputs])[0] * 2.0 ** (places - piecewise.frac)
        if np.abs(got - exact).max() <= TABLE_ERROR:
            return piecewise
    raise KernelParameterError(
        f"no table of reciprocals with {places} exact places takes {max(degree, 0)} multiplications"
    )
