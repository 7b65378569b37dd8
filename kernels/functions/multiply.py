"""Product of two values of which at least one spans many powers of two, on a multiplier of ordinary width.

A wide operand is written as mantissa * 2**exponent; only the mantissa enters the multiplier. Where both
exponents together are small the product moves back by them. Otherwise the other operand moves before the
multiplication, to the place where the product needs its digits; where that operand is wide itself, the
product of both mantissas moves. Relative error of a mantissa: below 2**(1 - bits).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..arith.expr import ExprBuilder, Value

EXTRA = 6
"""Bits by which the digits of the operand that moves first may be wider than a mantissa."""
MOST_BITS = 62
"""Bits up to which a product may move after its multiplication: more would leave the emulator's words."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """mantissa * 2**shift is the stored integer of a value, rounded down; 0 <= shift <= reach, which is the
    greatest shift. Without reach the mantissa is the integer itself.
    """

    mantissa: int
    shift: int | None
    reach: int


def multiply(b: ExprBuilder, x: int, y: int, places: int, bits: int, within: float) -> int:
    """x * y, at least to `places` fraction bits and `bits` significant bits of each wide operand.

    within: magnitude of the products that matter; a greater one may come out as any value beyond it (of the
    right sign).
    """
    if _bits(b.value(x)) <= bits and _bits(b.value(y)) <= bits:
        return b.mul(x, y)
    if x == y:
        one = scaled(b, x, bits)
        return _moved_back(b, one, one, 2 * b.value(x).frac, places)
    left, right = scaled(b, x, bits), scaled(b, y, bits)
    frac = b.value(x).frac + b.value(y).frac
    if b.value(left.mantissa).width + b.value(right.mantissa).width + left.reach + right.reach <= MOST_BITS:
        return _moved_back(b, left, right, frac, places)
    other, wide, inner = (
        (y, left, b.value(x).frac) if left.reach > right.reach else (x, right, b.value(y).frac)
    )
    digits = _digits(b, other, wide, inner, places, within)
    if b.value(digits).width <= bits + EXTRA:
        return b.floor_to(b.shift(b.mul(digits, wide.mantissa), -inner), places)
    return _moved_last(b, x, y, bits, places, within)


def scaled(b: ExprBuilder, x: int, bits: int) -> Scaled:
    """The `bits` leading bits of a value, and their exponent."""
    value = b.value(x)
    whole = b.shift(x, value.frac)
    reach = _bits(value) - bits
    if reach <= 0:
        return Scaled(whole, None, 0)
    size = b.abs(whole) if value.low < 0 else whole
    zeros, full = b.normalise(size, _bits(value), reach)
    mantissa = b.floor(b.shift(full, -reach))
    if value.low < 0:
        mantissa = b.select(b.less(whole, b.const(0)), b.neg(mantissa), mantissa)
    return Scaled(mantissa, b.sub(b.const(reach), zeros), reach)


def _bits(value: Value) -> int:
    return max(abs(value.low), abs(value.high)).bit_length()


def _moved_back(b: ExprBuilder, left: Scaled, right: Scaled, frac: int, places: int) -> int:
    """The product of the mantissas moved by the sum of the shifts."""
    product = b.mul(left.mantissa, right.mantissa)
    for part in (left, right):
        if part.shift is not None:
            product = b.shift_left(product, part.shift)
    return b.floor_to(b.shift(product, -frac), places)


def _digits(b: ExprBuilder, x: int, y: Scaled, frac: int, places: int, within: float) -> int:
    """x moved by the exponent of y, cut to the digits that matter in x * y; y has `frac` fraction bits."""
    value, mantissa = b.value(x), b.value(y.mantissa)
    assert y.shift is not None
    keep = _bits(mantissa)
    # Behind a shift the mantissa is at least 2**(keep - 1): x beyond `most` makes a product beyond `within`.
    most = int(within * 2.0 ** (frac + value.frac + 2 - keep)) + 1
    amount = b.minimum(y.shift, b.const(most.bit_length() + 1))  # one unit in the last place moves out
    limit = b.const(most, value.frac)
    moved = b.maximum(b.minimum(b.shift_left(x, amount), limit), b.neg(limit))
    moved = b.select(b.equal(y.shift, b.const(0)), x, moved)
    return b.floor_to(moved, places + keep - frac)


def _moved_last(b: ExprBuilder, x: int, y: int, bits: int, places: int, within: float) -> int:
    """Both operands by their leading bits; the product moves between its last place and `within`."""
    (left, up), (right, down) = (_leading(b, v, bits) for v in (x, y))
    full = _bits(b.value(left)) + _bits(b.value(right))
    kept = min(full, bits + 4)
    product = b.floor(b.shift(b.mul(left, right), kept - full))
    # x * y = product * 2**(count - frac) with 2**(kept - 3) < |product| < 2**kept, unless it is 0.
    count, frac = b.add(up, down), b.value(x).frac + b.value(y).frac + kept
    low = frac - places - kept - 1
    high = max(low, frac - kept + 4 + math.ceil(math.log2(within)))
    amount = b.sub(b.minimum(b.maximum(count, b.const(low)), b.const(high)), b.const(low))
    return b.floor_to(b.shift(b.shift_left(product, amount), low - frac), places)


def _leading(b: ExprBuilder, x: int, bits: int) -> tuple[int, int]:
    """(mantissa, length): the leading `bits` bits of the stored integer and its whole length in bits."""
    value = b.value(x)
    whole = b.shift(x, value.frac)
    total = _bits(value)
    zeros, full = b.normalise(b.abs(whole) if value.low < 0 else whole, total)
    mantissa = b.floor(b.shift(full, min(0, bits - total)))
    if value.low < 0:
        mantissa = b.select(b.less(whole, b.const(0)), b.neg(mantissa), mantissa)
    return mantissa, b.sub(b.const(total), zeros)
