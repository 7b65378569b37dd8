"""Functions of two variables, by operations and functions of one: angles, lengths, logarithms of sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize import division, quotients
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import as_value, scaled
from torchcalyx.normalize.fold import emit
from torchcalyx.normalize.sampled import function, overloads

aten = torch.ops.aten


def pair(b: Builder, a: Args, first: str = "self", second: str = "other") -> tuple[Value, Value]:
    """Both operands in the dtype of the result."""
    x, y = (as_value(b, a.operand(name), a.out.dtype) for name in (first, second))
    return x, y


def less_than_zero(b: Builder, x: Value) -> Value:
    """x < 0; of a known tensor also for -0."""
    if isinstance(x, Known):
        return x.to(torch.signbit(x.tensor))
    return emit(b, "lt", x, b.known(0, x.dtype))


def _atan2(b: Builder, a: Args) -> Result:
    """The angle of the smaller to the larger side, then moved to its octant."""
    y, x = pair(b, a)
    zero = b.known(0, x.dtype)
    high, wide = emit(b, "abs", y), emit(b, "abs", x)
    large = emit(b, "maximum", high, wide)
    safe = emit(b, "where", emit(b, "eq", large, zero), b.known(1, x.dtype), large)
    angle: Value = function(b, "atan", emit(b, "div", emit(b, "minimum", high, wide), safe))
    steep = emit(b, "sub", b.known(0.5 * math.pi, x.dtype), angle)
    angle = emit(b, "where", emit(b, "gt", high, wide), steep, angle)
    back = emit(b, "sub", b.known(math.pi, x.dtype), angle)
    angle = emit(b, "where", less_than_zero(b, x), back, angle)
    return emit(b, "where", less_than_zero(b, y), emit(b, "neg", angle), angle)


def _hypot(b: Builder, a: Args) -> Result:
    x, y = pair(b, a)
    return emit(b, "sqrt", emit(b, "add", emit(b, "mul", x, x), emit(b, "mul", y, y)))


def _log_add(base: float) -> Lowering:
    """max + log(1 + base ** -|difference|): neither power is ever made."""
    rate = math.log(base)

    def lower(b: Builder, a: Args) -> Result:
        x, y = pair(b, a)
        apart = emit(b, "neg", emit(b, "abs", emit(b, "sub", x, y)))
        more = emit(b, "softplus", apart, beta=rate, threshold=math.inf)
        return emit(b, "add", emit(b, "maximum", x, y), more)

    return lower


def _times_log(log: str) -> Lowering:
    """x * log(y), 0 where x is 0."""

    def lower(b: Builder, a: Args) -> Result:
        x, y = pair(b, a)
        zero = b.known(0, x.dtype)
        nothing = emit(b, "eq", x, zero)
        safe = emit(b, "where", nothing, b.known(1, x.dtype), y)
        return emit(b, "where", nothing, zero, emit(b, "mul", x, emit(b, log, safe)))

    return lower


def _copysign(b: Builder, a: Args) -> Result:
    x, y = pair(b, a)
    size = emit(b, "abs", x)
    return b.expand(emit(b, "where", less_than_zero(b, y), emit(b, "neg", size), size), a.out.shape)


def _addcdiv(b: Builder, a: Args) -> Result:
    x, top, bottom = (b.cast(a.tensor(name), a.out.dtype) for name in ("self", "tensor1", "tensor2"))
    return emit(b, "add", x, scaled(b, quotients.quotient(b, top, bottom), a["value"]))


def _lerp(b: Builder, a: Args) -> Result:
    start, end = (b.cast(a.tensor(name), a.out.dtype) for name in ("self", "end"))
    weight = as_value(b, a.operand("weight"), a.out.dtype)
    return emit(b, "add", start, emit(b, "mul", weight, emit(b, "sub", end, start)))


def _angle(b: Builder, a: Args) -> Result:
    """Of a real number: 0 or pi."""
    x = a.tensor("self")
    if x.dtype not in FLOATS:
        x = b.cast(x, a.out.dtype)
    return emit(b, "where", less_than_zero(b, x), b.known(math.pi, x.dtype), b.known(0, x.dtype))


def _nextafter(b: Builder, a: Args) -> Result:
    return Reject("the neighbour of a floating-point number is not a neighbour in fixed point")


def _softplus_backward(b: Builder, a: Args) -> Result:
    """grad * sigmoid(beta * x), grad itself above the threshold: no exponential that overflows."""
    grad, x = pair(b, a, "grad_output", "self")
    beta, threshold = float(a["beta"]), float(a["threshold"])
    scaled_x = scaled(b, x, beta)
    slope = emit(b, "mul", grad, emit(b, "sigmoid", scaled_x))
    if math.isinf(threshold):
        return slope
    return emit(b, "where", emit(b, "gt", scaled_x, b.known(threshold, x.dtype)), grad, slope)


def _logit_backward(b: Builder, a: Args) -> Result:
    """grad / (x * (1 - x)); 0 outside of eps .. 1 - eps."""
    grad, x = pair(b, a, "grad_output", "self")
    one, eps = b.known(1, x.dtype), a["eps"]
    if eps is None:
        return emit(b, "div", grad, emit(b, "mul", x, emit(b, "sub", one, x)))
    low, high = float(eps), 1.0 - float(eps)
    near = emit(b, "clamp", x, min=low, max=high)
    slope = emit(b, "div", grad, emit(b, "mul", near, emit(b, "sub", one, near)))
    outside = emit(
        b,
        "logical_or",
        emit(b, "lt", x, b.known(low, x.dtype)),
        emit(b, "gt", x, b.known(high, x.dtype)),
    )
    return emit(b, "where", outside, b.known(0, x.dtype), slope)


def _divisions(name: str) -> Lowering:
    """Of real numbers as in `quotients`, of integers as in `division`."""

    def lower(b: Builder, a: Args) -> Result:
        table = quotients.REAL if a.out.dtype in FLOATS else division.WHOLE
        return table[name](b, a)

    return lower


LOWERINGS: Mapping[Any, Lowering] = {
    aten.atan2.default: _atan2,
    aten.hypot.default: _hypot,
    aten.logaddexp.default: _log_add(math.e),
    aten.logaddexp2.default: _log_add(2.0),
    **dict.fromkeys(overloads("xlogy", "special_xlogy"), _times_log("log")),
    **dict.fromkeys(overloads("special_xlog1py"), _times_log("log1p")),
    **dict.fromkeys(overloads("copysign"), _copysign),
    aten.addcdiv.default: _addcdiv,
    **dict.fromkeys((aten.lerp.Scalar, aten.lerp.Tensor), _lerp),
    aten.angle.default: _angle,
    aten.nextafter.default: _nextafter,
    aten.softplus_backward.default: _softplus_backward,
    aten.logit_backward.default: _logit_backward,
    **{o: _divisions(name) for name in quotients.REAL for o in overloads(name)},
}
