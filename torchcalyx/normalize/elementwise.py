"""Lowerings of elementwise ATen operations; implicit type promotion becomes explicit casts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Operand, Ref, Scalar, Value, dtype_name, torch_dtype

aten = torch.ops.aten

_ON_BOOL = {
    "add": "logical_or", "mul": "logical_and", "maximum": "logical_or", "minimum": "logical_and",
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
    "bitwise_not": "logical_not", "ne": "logical_xor",
}  # fmt: skip


def as_value(b: Builder, operand: Operand, dtype: str) -> Value:
    """An operand in `dtype`; a Python number becomes a 0-d known tensor."""
    return b.cast(operand, dtype) if isinstance(operand, (Ref, Known)) else b.known(operand, dtype)


def scaled(b: Builder, value: Value, factor: Scalar) -> Value:
    """value * factor, the value itself for factor 1."""
    if factor == 1:
        return value
    number = b.known(factor, value.dtype)
    if isinstance(value, Known):
        return value.to(value.tensor * number.tensor)
    return b.emit("mul", value, number)


def common_dtype(x: Operand, y: Operand) -> str:
    """Dtype in which torch computes an operation of two operands."""
    samples: list[Any] = [
        torch.empty(v.shape, dtype=torch_dtype(v.dtype), device="meta") if isinstance(v, (Ref, Known)) else v
        for v in (x, y)
    ]
    return dtype_name(torch.result_type(samples[0], samples[1]))


def _apply(b: Builder, op: str, *values: Value) -> Value:
    if all(v.dtype == "bool" for v in values):
        op = _ON_BOOL.get(op, op)
    return b.emit(op, *values)


def _binary(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
        alpha = a.get("alpha", 1)
        return _apply(b, op, x, scaled(b, y, alpha))

    return lower


def _rsub(b: Builder, a: Args) -> Result:
    x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
    return b.emit("sub", y, scaled(b, x, a["alpha"]))


def _compare(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, y = a.operand("self"), a.operand("other")
        if isinstance(x, Ref) and x is y and x.dtype in FLOATS and op in ("eq", "ne"):
            return _everywhere(a, op == "eq")  # how NaN is asked for, and no hardware number is NaN
        dtype = common_dtype(x, y)
        return _apply(b, op, as_value(b, x, dtype), as_value(b, y, dtype))

    return lower


def _logical(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return b.emit(op, *(as_value(b, a.operand(n), "bool") for n in ("self", "other") if n in a))

    return lower


def _unary(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return _apply(b, op, b.cast(a.tensor("self"), a.out.dtype))

    return lower


def clamped(b: Builder, x: Value, low: Scalar | None, high: Scalar | None) -> Value:
    """x limited to [low, high] in its own dtype; infinite bounds vanish. ValueError for one that nothing
    reaches.
    """
    if low == math.inf or high == -math.inf:
        raise ValueError(f"clamp to {low} .. {high} has an infinite result")

    def bound(value: Scalar | None) -> Scalar | None:
        if value is None or math.isinf(value):
            return None
        if not x.dtype.startswith("float"):  # torch keeps a bound inside the dtype's range
            limits = np.iinfo(x.dtype)
            value = max(min(value, int(limits.max)), int(limits.min))
        number: Scalar = b.known(value, x.dtype).tensor.item()
        return number

    low, high = bound(low), bound(high)
    return x if low is None and high is None else b.emit("clamp", x, min=low, max=high)


def _clamp(low: str | None, high: str | None) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        bounds = (None if low is None else a[low], None if high is None else a[high])
        if any(isinstance(v, float) and math.isnan(v) for v in bounds):
            return Reject("a bound of clamp is NaN")
        return clamped(b, b.cast(a.tensor("self"), a.out.dtype), *bounds)

    return lower


def _clamp_tensor(b: Builder, a: Args) -> Result:
    x = b.cast(a.tensor("self"), a.out.dtype)
    for name, op in (("min", "maximum"), ("max", "minimum")):
        if name in a and a[name] is not None:
            x = _apply(b, op, x, b.cast(a.tensor(name), a.out.dtype))
    return x


def _leaky_relu(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    return b.emit("where", b.emit("gt", x, b.known(0, x.dtype)), x, scaled(b, x, a["negative_slope"]))


def _everywhere(a: Args, value: bool) -> Known:
    return Known(torch.full(a.out.shape, value))


def _finite(answer: bool) -> Lowering:
    """isnan, isinf, isfinite: the same for every number of hardware."""

    def lower(b: Builder, a: Args) -> Result:
        a.ignore("self")
        return _everywhere(a, answer)

    return lower


def _nan_to_num(b: Builder, a: Args) -> Result:
    a.ignore("nan", "posinf", "neginf")  # no hardware number is any of them
    return a.tensor("self")


def _where(b: Builder, a: Args) -> Result:
    x, y = (as_value(b, a.operand(name), a.out.dtype) for name in ("self", "other"))
    condition = b.cast(a.tensor("condition"), "bool")
    if isinstance(condition, Known) and condition.tensor.numel():
        if bool(condition.tensor.all()):
            return b.expand(x, a.out.shape)
        if not bool(condition.tensor.any()):
            return b.expand(y, a.out.shape)
    return b.emit("where", condition, x, y)


def _masked_fill(b: Builder, a: Args) -> Result:
    value = as_value(b, a.operand("value"), a.out.dtype)
    return b.emit("where", b.cast(a.tensor("mask"), "bool"), value, a.tensor("self"))


def _addcmul(b: Builder, a: Args) -> Result:
    x, y, z = (b.cast(a.tensor(name), a.out.dtype) for name in ("self", "tensor1", "tensor2"))
    return b.emit("add", x, scaled(b, b.emit("mul", y, z), a["value"]))


def whole_power(b: Builder, a: Args) -> Result:
    """A whole power from 0 to 8, by squaring and multiplying."""
    exponent = a.operand("exponent")
    if isinstance(exponent, Known) and exponent.tensor.numel() == 1 and exponent.shape == ():
        exponent = exponent.tensor.item()
    if isinstance(exponent, (Ref, Known)):
        return Reject("no kernel yet for a power with a tensor exponent")
    if exponent != int(exponent) or not 0 <= exponent <= 8:
        return Reject(
            f"no kernel yet for the exponent {exponent}; whole exponents from 0 to 8 become products"
        )
    x = b.cast(a.tensor("self"), a.out.dtype)
    if exponent == 0:
        return Known(torch.ones(a.out.shape, dtype=torch_dtype(a.out.dtype)))
    result: Value | None = None
    for bit in bin(int(exponent))[2:]:  # square and multiply, most significant bit first
        result = x if result is None else b.emit("mul", result, result)
        if result is not x and bit == "1":
            result = b.emit("mul", result, x)
    assert result is not None
    return result


def _to_copy(b: Builder, a: Args) -> Result:
    a.ignore("dtype", "layout", "pin_memory", "non_blocking", "memory_format")
    if a["device"] is not None and torch.device(a["device"]).type not in ("cpu", "cuda"):
        return Reject(f"device {a['device']} holds no values")
    return b.cast(a.tensor("self"), a.out.dtype)


def _copy(b: Builder, a: Args) -> Result:
    a.ignore("self", "non_blocking")
    return b.expand(b.cast(a.tensor("src"), a.out.dtype), a.out.shape)


def _same(b: Builder, a: Args) -> Result:
    a.ignore("memory_format")
    return a.tensor("input" if "input" in a else "self")


def _inactive_dropout(b: Builder, a: Args) -> Result:
    active = (a.get("p", 1)) != 0 and (a.get("train", True)) is not False
    if active:
        return Reject("dropout in training mode gives another result in each call; call module.eval()")
    x = a.tensor("input")
    return (x, None) if len(a.outs) == 2 else x


def _overloads(*packets: Any) -> list[Any]:
    functional = ("Tensor", "Scalar", "default", "int", "self")
    return [getattr(p, name) for p in packets for name in p.overloads() if name in functional]


def _table(lowering: Lowering, *targets: Any) -> dict[Any, Lowering]:
    return {target: lowering for target in targets}


LOWERINGS: Mapping[Any, Lowering] = {
    **_table(_binary("add"), aten.add.Tensor, aten.add.Scalar),
    **_table(_binary("sub"), aten.sub.Tensor, aten.sub.Scalar),
    **_table(_rsub, aten.rsub.Tensor, aten.rsub.Scalar),
    **_table(_binary("mul"), aten.mul.Tensor, aten.mul.Scalar),
    # fmax and fmin differ from these for NaN only, which no compiled model holds
    **_table(_binary("maximum"), aten.maximum.default, aten.max.other, aten.fmax.default),
    **_table(_binary("minimum"), aten.minimum.default, aten.min.other, aten.fmin.default),
    **{o: _compare(p) for p in ("eq", "ne", "lt", "le", "gt", "ge") for o in _overloads(getattr(aten, p))},
    **{o: _logical(f"logical_{k}") for k in ("and", "or", "xor", "not")
       for o in _overloads(getattr(aten, f"logical_{k}"))},
    **{o: _binary(f"bitwise_{k}") for k in ("and", "or", "xor")
       for o in _overloads(getattr(aten, f"bitwise_{k}"), getattr(aten, f"__{k}__"))},
    **_table(_unary("bitwise_not"), aten.bitwise_not.default),
    **{getattr(aten, k).default: _unary(k) for k in ("neg", "abs", "sign", "relu")},
    **_table(_unary("sign"), aten.sgn.default),
    **_table(_clamp("min", "max"), aten.clamp.default),
    **_table(_clamp("min", None), aten.clamp_min.default),
    **_table(_clamp(None, "max"), aten.clamp_max.default),
    **_table(_clamp("min_val", "max_val"), aten.hardtanh.default),
    **_table(_clamp_tensor, aten.clamp.Tensor, aten.clamp_min.Tensor, aten.clamp_max.Tensor),
    **_table(_leaky_relu, aten.leaky_relu.default),
    **_table(_finite(False), aten.isnan.default, aten.isinf.default, aten.isposinf.default,
             aten.isneginf.default),
    **_table(_finite(True), aten.isfinite.default),
    **_table(_nan_to_num, aten.nan_to_num.default),
    **_table(_where, aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar),
    **_table(_masked_fill, aten.masked_fill.Scalar, aten.masked_fill.Tensor),
    **_table(_addcmul, aten.addcmul.default),
    **_table(_to_copy, aten._to_copy.default),
    **_table(_copy, aten.copy.default),
    **_table(_same, aten.clone.default, aten.alias.default, aten.detach.default, aten.contiguous.default,
             aten.lift_fresh.default, aten.lift_fresh_copy.default, aten.positive.default),
    **_table(_inactive_dropout, aten.dropout.default, aten.native_dropout.default,
             aten.feature_dropout.default,
             aten.alpha_dropout.default, aten.feature_alpha_dropout.default),
}  # fmt: skip
