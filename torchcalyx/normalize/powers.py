"""Powers: small whole and half exponents by products and roots, other constants by a table, computed
exponents by a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import as_value, scaled, whole_power
from torchcalyx.normalize.fold import emit
from torchcalyx.normalize.quotients import truncated
from torchcalyx.normalize.sampled import constant, function

aten = torch.ops.aten

PRODUCTS = 8
"""Whole and half exponents up to this become products and roots."""


def _power(b: Builder, a: Args) -> Result:
    if a.out.dtype not in FLOATS:
        return whole_power(b, a)
    exponent = constant(a, "exponent")
    if exponent is None:
        base = constant(a, "self")
        if base is not None and 0 < base < math.inf:
            return _of_number(b, a, base)
        return _computed(b, as_value(b, a.operand("self"), a.out.dtype), a)
    if not math.isfinite(exponent):
        return Reject(f"the exponent {exponent} has no finite power")
    given = a.operand("exponent")
    scalar = not isinstance(given, Known) or given.shape == ()
    if scalar and (2.0 * exponent).is_integer() and abs(exponent) <= PRODUCTS:
        return whole_power(b, a) if exponent >= 0 and exponent.is_integer() else _of_roots(b, a, exponent)
    x = as_value(b, a.operand("self"), a.out.dtype)
    return b.expand(function(b, "power", x, exponent), a.out.shape)


def _of_roots(b: Builder, a: Args, exponent: float) -> Value:
    """Half and negative whole exponents by products, a root and a reciprocal."""
    x = b.cast(a.tensor("self"), a.out.dtype)
    whole, half = divmod(abs(exponent), 1)
    parts = [x] * int(whole)
    if half:
        parts.append(b.emit("rsqrt" if exponent == -0.5 else "sqrt", x))
    result = parts[0]
    for part in parts[1:]:
        result = b.emit("mul", result, part)
    return result if exponent > 0 or exponent == -0.5 else b.emit("reciprocal", result)


def _of_base(b: Builder, a: Args) -> Result:
    base = float(a["self"])
    return _of_number(b, a, base) if base > 0 else _computed(b, b.known(base, a.out.dtype), a)


def _of_number(b: Builder, a: Args, base: float) -> Value:
    """A positive number to the powers of a tensor."""
    exponent = as_value(b, a.operand("exponent"), a.out.dtype)
    return b.expand(emit(b, "exp2", scaled(b, exponent, math.log2(base))), a.out.shape)


def _computed(b: Builder, x: Value, a: Args) -> Result:
    """2 ** (y * log2 |x|), with the sign of odd powers; 0 ** y is 0 or 1.

    A negative number to a power that is not whole, and 0 to a negative one, stay in front of the logarithm,
    where calibration meets them as NaN or infinity.
    """
    y = as_value(b, a.operand("exponent"), a.out.dtype)
    zero, one = b.known(0, x.dtype), b.known(1, x.dtype)
    whole, odd = _wholeness(b, y)
    negative, nothing = emit(b, "lt", x, zero), emit(b, "eq", x, zero)
    size = emit(b, "where", emit(b, "logical_and", negative, whole), emit(b, "abs", x), x)
    base = emit(b, "where", emit(b, "logical_and", nothing, emit(b, "ge", y, zero)), one, size)
    power = emit(b, "exp2", emit(b, "mul", y, emit(b, "log2", base)))
    vanishes = emit(b, "logical_and", nothing, emit(b, "gt", y, zero))
    power = emit(b, "where", vanishes, zero, power)
    return emit(b, "where", emit(b, "logical_and", negative, odd), emit(b, "neg", power), power)


def _wholeness(b: Builder, y: Value) -> tuple[Value, Value]:
    """Whether the exponents are whole, and whether they are odd numbers."""
    if isinstance(y, Known):
        return y.to(y.tensor == y.tensor.trunc()), y.to(y.tensor.abs() % 2 == 1)
    whole = emit(b, "eq", truncated(b, y), y)
    last = emit(b, "bitwise_and", b.cast(y, "int64"), b.known(1, "int64"))
    return whole, emit(b, "logical_and", whole, b.cast(last, "bool"))


LOWERINGS: Mapping[Any, Lowering] = {
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: _of_base,
}
