"""Lowerings of nonlinear functions: one operation of the normal form each, or an exact composition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize import division, elementwise
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value
from torchcalyx.normalize.elementwise import as_value, scaled
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _x(b: Builder, a: Args, name: str = "self") -> Value:
    """The operand in the dtype of the result (integers become floating point)."""
    return b.cast(a.tensor(name), a.out.dtype)


def _function(op: str, name: str = "self") -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return b.emit(op, _x(b, a, name))

    return lower


def _gelu(b: Builder, a: Args) -> Result:
    return b.emit("gelu", _x(b, a), approximate=a["approximate"])


def _exponential_unit(b: Builder, x: Value, alpha: float, scale: float, input_scale: float) -> Result:
    if not input_scale > 0:
        return Reject(f"elu with the input scale {input_scale} grows without bound for negative inputs")
    return b.emit("elu", x, alpha=float(alpha), scale=float(scale), input_scale=float(input_scale))


def _elu(b: Builder, a: Args) -> Result:
    return _exponential_unit(b, _x(b, a), a["alpha"], a["scale"], a["input_scale"])


def _selu(b: Builder, a: Args) -> Result:
    return _exponential_unit(b, _x(b, a), SELU_ALPHA, SELU_SCALE, 1.0)


def _celu(b: Builder, a: Args) -> Result:
    alpha = a["alpha"]
    return _exponential_unit(b, _x(b, a), alpha, 1.0, 1.0 / alpha if alpha else 0.0)


def _softplus(b: Builder, a: Args) -> Result:
    beta, threshold = float(a["beta"]), float(a["threshold"])
    if not beta > 0:
        return Reject(f"softplus with beta = {beta}: beta must be positive")
    return b.emit("softplus", _x(b, a), beta=beta, threshold=threshold)


def _log_sigmoid(b: Builder, a: Args) -> Result:
    result = b.emit("neg", b.emit("softplus", b.emit("neg", _x(b, a)), beta=1.0, threshold=math.inf))
    return (result, None) if len(a.outs) == 2 else result


def _soft_margin_loss(b: Builder, a: Args) -> Result:
    """ln(1 + exp(m)) for m = -x * target, averaged or summed as asked; as max(m, 0) + ln(1 + exp(-|m|)) it is
    exact far from 0 on either side.
    """
    x, target = (b.cast(a.tensor(name), a.out.dtype) for name in ("self", "target"))
    margin = b.emit("neg", b.emit("mul", x, target))
    rest = b.emit("log1p", b.emit("exp", b.emit("neg", b.emit("abs", margin))))
    loss = b.emit("add", b.emit("relu", margin), rest)
    how = ("none", "mean", "sum")[a["reduction"]]
    return loss if how == "none" else reduced(b, how, loss, None, False)


def _pow(b: Builder, a: Args) -> Result:
    """Whole and half exponents by products, roots and reciprocals; the rest as in `elementwise`."""
    exponent = a.operand("exponent")
    if isinstance(exponent, Known) and exponent.shape == ():
        exponent = exponent.tensor.item()
    if isinstance(exponent, (Ref, Known)) or a.out.dtype not in FLOATS:
        return elementwise.LOWERINGS[aten.pow.Tensor_Scalar](b, a)
    if exponent >= 0 and float(exponent).is_integer():
        return elementwise.LOWERINGS[aten.pow.Tensor_Scalar](b, a)
    if not (2.0 * abs(exponent)).is_integer() or abs(exponent) > 8:
        return Reject(
            f"no kernel yet for the exponent {exponent}; whole and half numbers from -8 to 8 have one"
        )
    x = _x(b, a)
    whole, half = divmod(abs(exponent), 1)
    parts = [x] * int(whole)
    if half:
        parts.append(b.emit("rsqrt" if exponent == -0.5 else "sqrt", x))
    result = parts[0]
    for part in parts[1:]:
        result = b.emit("mul", result, part)
    return result if exponent > 0 or exponent == -0.5 else b.emit("reciprocal", result)


def _exponential_of_base(b: Builder, a: Args) -> Result:
    base = float(a["self"])
    if not base > 0:
        return Reject(f"a power of the base {base} is not a real function; the base must be positive")
    x = b.cast(a.tensor("exponent"), a.out.dtype)
    return b.emit("exp2", scaled(b, x, math.log2(base)))


def _quotient(target: Any) -> Lowering:
    """True division by a computed tensor; anything else as in `division`."""

    def lower(b: Builder, a: Args) -> Result:
        other = a.operand("other")
        mode = a.get("rounding_mode", None)
        if not isinstance(other, Ref) or mode is not None:
            return division.LOWERINGS[target](b, a)
        x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
        return b.emit("div", x, y)

    return lower


def _table(lowering: Lowering, *targets: Any) -> dict[Any, Lowering]:
    return {target: lowering for target in targets}


LOWERINGS: Mapping[Any, Lowering] = {
    **{
        getattr(aten, name).default: _function(name)
        for name in ("sigmoid", "tanh", "erf", "exp", "exp2", "expm1", "silu", "mish", "log", "log2", "log10",
                     "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos")
    },
    **_table(_function("sigmoid"), aten.special_expit.default),
    **_table(_function("erf"), aten.special_erf.default),
    **_table(_function("exp2"), aten.special_exp2.default),
    **_table(_function("expm1"), aten.special_expm1.default),
    **_table(_function("log1p"), aten.special_log1p.default),
    **_table(_gelu, aten.gelu.default),
    **_table(_elu, aten.elu.default),
    **_table(_selu, aten.selu.default),
    **_table(_celu, aten.celu.default),
    **_table(_softplus, aten.softplus.default),
    **_table(_log_sigmoid, aten.log_sigmoid.default, aten.log_sigmoid_forward.default),
    **_table(_soft_margin_loss, aten.soft_margin_loss.default),
    **_table(_pow, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor),
    **{t: _quotient(t) for t in (aten.div.Tensor, aten.div.Tensor_mode, aten.true_divide.Tensor)},
    **_table(_exponential_of_base, aten.pow.Scalar),
}  # fmt: skip
