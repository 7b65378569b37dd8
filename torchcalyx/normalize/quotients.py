"""Quotients and remainders of real numbers, by constants and by computed tensors.

A rounded quotient may be one too large or too small beside a whole number; the remainder that belongs to it
tells, and both are put right. So multiples leave exactly nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from torchcalyx.normalize import division
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value
from torchcalyx.normalize.elementwise import as_value
from torchcalyx.normalize.fold import emit

_ZERO = "the divisor is zero"


def quotient(b: Builder, x: Value, y: Value) -> Value:
    """x / y by the cheapest operation; ValueError for a known divisor that holds 0."""
    if isinstance(y, Ref):
        return emit(b, "div", x, y)
    if bool((y.tensor == 0).any()):
        raise ValueError(_ZERO)
    return division.divided(b, x, y, np.broadcast_shapes(x.shape, y.shape))


def truncated(b: Builder, x: Value) -> Value:
    """x rounded towards zero."""
    return b.cast(b.cast(x, "int64"), x.dtype)


def _divided(b: Builder, a: Args) -> tuple[Value, Value, Value, Value] | Reject:
    """x, y, and of their magnitudes the whole quotient and the rest."""
    x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
    if isinstance(y, Known) and bool((y.tensor == 0).any()):
        return Reject(_ZERO)
    size = emit(b, "abs", x)
    divisor: Value = y.to(y.tensor.abs()) if isinstance(y, Known) else emit(b, "abs", y)
    whole: Value = truncated(b, quotient(b, size, divisor))
    rest: Value = emit(b, "sub", size, emit(b, "mul", whole, divisor))
    zero, one = b.known(0, x.dtype), b.known(1, x.dtype)
    below, above = emit(b, "lt", rest, zero), emit(b, "ge", rest, divisor)

    def put_right(value: Value, step: Value, down: bool) -> Value:
        less, more = emit(b, "sub", value, step), emit(b, "add", value, step)
        low, high = (less, more) if down else (more, less)
        return emit(b, "where", below, low, emit(b, "where", above, high, value))

    return x, y, put_right(whole, one, True), put_right(rest, divisor, False)


def _signs_differ(b: Builder, x: Value, y: Value) -> Value:
    zero = b.known(0, x.dtype)
    negative = emit(b, "lt", x, zero)
    if isinstance(y, Known):
        other: Value = y.to(y.tensor < 0)
    else:
        other = emit(b, "lt", y, zero)
    return emit(b, "logical_xor", negative, other)


def _negated_where(b: Builder, condition: Value, x: Value) -> Value:
    return emit(b, "where", condition, emit(b, "neg", x), x)


def _fmod(b: Builder, a: Args) -> Result:
    found = _divided(b, a)
    if isinstance(found, Reject):
        return found
    x, _, _, rest = found
    return _negated_where(b, emit(b, "lt", x, b.known(0, x.dtype)), rest)


def _remainder(b: Builder, a: Args) -> Result:
    """With the sign of the divisor."""
    found = _divided(b, a)
    if isinstance(found, Reject):
        return found
    x, y, _, rest = found
    signed = _negated_where(b, emit(b, "lt", x, b.known(0, x.dtype)), rest)
    moves = emit(b, "logical_and", _signs_differ(b, x, y), emit(b, "ne", rest, b.known(0, x.dtype)))
    return emit(b, "where", moves, emit(b, "add", signed, y), signed)


def _whole(b: Builder, a: Args, mode: str) -> Result:
    found = _divided(b, a)
    if isinstance(found, Reject):
        return found
    x, y, whole, rest = found
    differ = _signs_differ(b, x, y)
    signed = _negated_where(b, differ, whole)
    if mode == "trunc":
        return signed
    moves = emit(b, "logical_and", differ, emit(b, "ne", rest, b.known(0, x.dtype)))
    return emit(b, "where", moves, emit(b, "sub", signed, b.known(1, x.dtype)), signed)


def _rounded(b: Builder, a: Args) -> Result:
    mode = a.get("rounding_mode", None)
    if mode is None:
        x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
        return b.expand(quotient(b, x, y), a.out.shape)
    return _whole(b, a, str(mode))


REAL: Mapping[str, Lowering] = {
    "fmod": _fmod,
    "remainder": _remainder,
    "div": _rounded,
    "true_divide": _rounded,
    "floor_divide": lambda b, a: _whole(b, a, "floor"),
}
"""By name of the operator, for results of floating point."""
