"""Lowerings of fake quantisation: x on the grid (q - zero_point) * scale of whole numbers q in a range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype

aten = torch.ops.aten


def nearest(b: Builder, x: Value) -> Value:
    """The nearest whole number as int64, ties to even."""
    whole = b.cast(x, "int64")  # towards zero
    rest = b.emit("sub", x, b.cast(whole, x.dtype))
    size, half = b.emit("abs", rest), b.known(0.5, x.dtype)
    odd = b.cast(b.emit("bitwise_and", whole, b.known(1, "int64")), "bool")
    tie = b.emit("logical_and", b.emit("eq", size, half), odd)
    away = b.emit("logical_or", b.emit("gt", size, half), tie)
    step = b.emit("sign", b.emit("where", away, rest, b.known(0, x.dtype)))
    return b.emit("add", whole, b.cast(step, "int64"))


def _fake_quantize(b: Builder, a: Args) -> Result:
    x, least, most = a.tensor("self"), a["quant_min"], a["quant_max"]
    scale, zero = (_parameter(a, name) for name in ("scale", "zero_point"))
    if isinstance(scale, Reject):
        return scale
    if isinstance(zero, Reject):
        return zero
    if "fake_quant_enabled" in a:
        enabled = a["fake_quant_enabled"]
        if not isinstance(enabled, Known) or not bool(enabled.tensor):
            return Reject("fake quantisation that is switched at run time")
    if "axis" in a:
        shape = [-1 if d == a["axis"] % len(x.shape) else 1 for d in range(len(x.shape))]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    dtype = torch_dtype(x.dtype)
    steps = b.emit("mul", x, Known(scale.reciprocal().to(dtype)))
    # A place far outside stays outside: one step beyond the ends is enough to be clamped.
    low, high = float(least - int(zero.max()) - 1), float(most - int(zero.min()) + 1)
    whole = b.emit("add", nearest(b, b.emit("clamp", steps, min=low, max=high)), Known(zero.long()))
    inside = b.emit(
        "logical_and",
        b.emit("ge", whole, b.known(least, "int64")),
        b.emit("le", whole, b.known(most, "int64")),
    )
    number = b.emit("sub", b.emit("clamp", whole, min=least, max=most), Known(zero.long()))
    result = b.emit("mul", b.cast(number, x.dtype), Known(scale.to(dtype)))
    return (result, inside) if len(a.outs) == 2 else result


def _parameter(a: Args, name: str) -> torch.Tensor | Reject:
    value = a[name]
    if isinstance(value, (int, float)):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, Known):
        return value.tensor.double()
    return Reject(f"fake quantisation whose {name} is computed; it must be known at compile time")


LOWERINGS: Mapping[Any, Lowering] = {
    **{
        target: _fake_quantize
        for target in (
            aten.fake_quantize_per_tensor_affine.default,
            aten.fake_quantize_per_tensor_affine.tensor_qparams,
            aten.fake_quantize_per_tensor_affine_cachemask.default,
            aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
            aten.fake_quantize_per_channel_affine.default,
            aten.fake_quantize_per_channel_affine_cachemask.default,
        )
    },
}
