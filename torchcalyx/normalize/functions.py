"""Lowerings of nonlinear functions: one operation of the normal form each, or an exact composition."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Value
from torchcalyx.normalize.reduction import averaged

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
    return averaged(b, loss, a["reduction"])


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
}  # fmt: skip
