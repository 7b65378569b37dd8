"""Lowerings of norms: known statistics become one factor and one offset for each channel (computed in
float64), others are composed: the mean first, then the mean of the squared differences, which cannot
cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from torchcalyx.ir.typerules import TensorType
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def _optional(a: Args, name: str) -> Value | None:
    return None if a[name] is None else a.tensor(name)


def _per_channel(b: Builder, value: Value, rank: int) -> Value:
    """value[C] as [C, 1, ...] so that it broadcasts over [N, C, ...] of a rank."""
    return b.view(value, (value.shape[0], *[1] * (rank - 2)))


def standardised(b: Builder, x: Value, dims: Sequence[int], eps: float) -> Value:
    """(x - mean) / sqrt(variance + eps) over dims, the variance that of all values (not the estimate for a
    sample).
    """
    return with_statistics(b, x, dims, eps)[0]


def with_statistics(b: Builder, x: Value, dims: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    """As `standardised`, with the mean and 1 / sqrt(variance + eps); both keep the dims reduced."""
    mean = reduced(b, "mean", x, dims, True)
    centred = b.emit("sub", x, mean)
    variance = reduced(b, "mean", b.emit("mul", centred, centred), dims, True)
    scale = b.emit("rsqrt", b.emit("add", variance, b.known(eps, x.dtype)))
    return b.emit("mul", centred, scale), mean, scale


def _statistics(b: Builder, a: Args, y: Value, *statistics: Value) -> Result:
    """The results of an operation that returns its statistics too; parts without elements stay unsaid."""
    if len(a.outs) == 1:
        return y
    more = (_shaped(b, v, out) for v, out in zip(statistics, a.outs[1:], strict=False))
    return (y, *more, *(None for _ in a.outs[1 + len(statistics) :]))


def _shaped(b: Builder, value: Value, out: TensorType | None) -> Value | None:
    return None if out is None or 0 in out.shape else b.view(value, out.shape)


def _scaled_and_shifted(b: Builder, x: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        x = b.emit("mul", x, weight)
    return x if bias is None else b.emit("add", x, bias)


# ---- statistics known at compile time, or those of the batch
# -------------------------------------------------------------


def _channel_norm(
    b: Builder,
    x: Value,
    statistics: tuple[Value, Value],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Value:
    """Norm of each channel by given mean and variance."""
    given = (*statistics, weight, bias)
    known = [v for v in given if isinstance(v, Known)]
    if len(known) < sum(v is not None for v in given):
        return _computed_channel_norm(b, x, statistics, weight, bias, eps)
    origins = tuple(dict.fromkeys(o for v in known for o in v.origins))
    mean, variance, scale, shift = (v.tensor.double() if isinstance(v, Known) else None for v in given)
    assert mean is not None and variance is not None
    factor = (variance + eps).rsqrt() if scale is None else scale * (variance + eps).rsqrt()
    offset = -mean * factor if shift is None else shift - mean * factor
    rank, dtype = len(x.shape), torch_dtype(x.dtype)
    factors, offsets = (_per_channel(b, Known(v.to(dtype), origins), rank) for v in (factor, offset))
    return b.emit("add", b.emit("mul", x, factors), offsets)


def _computed_channel_norm(
    b: Builder,
    x: Value,
    statistics: tuple[Value, Value],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Value:
    """The same where some of them are computed: difference first, then the factor of each channel."""
    mean, variance = statistics
    scale: Value = (
        Known((variance.tensor.double() + eps).rsqrt().to(torch_dtype(x.dtype)), variance.origins)
        if isinstance(variance, Known)
        else b.emit("rsqrt", b.emit("add", variance, b.known(eps, x.dtype)))
    )
    if weight is not None:
        if isinstance(scale, Known) and isinstance(weight, Known):
            scale = scale.to(scale.tensor * weight.tensor)
        else:
            scale = b.emit("mul", scale, weight)
    rank = len(x.shape)
    y = b.emit("mul", b.emit("sub", x, _per_channel(b, mean, rank)), _per_channel(b, scale, rank))
    return y if bias is None else b.emit("add", y, _per_channel(b, bias, rank))


def _batch_norm(b: Builder, a: Args) -> Result:
    a.ignore("momentum", "cudnn_enabled")  # the first is only for updates of the running statistics
    training = a.get("training", False)
    x, weight, bias = a.tensor("input"), _optional(a, "weight"), _optional(a, "bias")
    mean, variance = (_optional(a, n) if n in a else None for n in ("running_mean", "running_var"))
    more: tuple[None, ...] = (None,) * (len(a.outs) - 1)
    if mean is not None and variance is not None:
        if training:
            return Reject("batch norm in training mode updates its statistics; call .eval() on the model")
        result = _channel_norm(b, x, (mean, variance), weight, bias, a["eps"])
        return (result, *more) if more else result
    dims = [d for d in range(len(x.shape)) if d != 1]
    y, *statistics = with_statistics(b, x, dims, a["eps"])
    parameters = (None if v is None else _per_channel(b, v, len(x.shape)) for v in (weight, bias))
    return _statistics(b, a, _scaled_and_shifted(b, y, *parameters), *statistics)


def _instance_norm(b: Builder, a: Args) -> Result:
    a.ignore("momentum", "cudnn_enabled")
    x, weight, bias = a.tensor("input"), _optional(a, "weight"), _optional(a, "bias")
    if not a["use_input_stats"]:
        mean, variance = a.tensor("running_mean"), a.tensor("running_var")
        return _channel_norm(b, x, (mean, variance), weight, bias, a["eps"])
    a.ignore("running_mean", "running_var")
    y = standardised(b, x, range(2, len(x.shape)), a["eps"])
    parameters = (None if v is None else _per_channel(b, v, len(x.shape)) for v in (weight, bias))
    return _scaled_and_shifted(b, y, *parameters)


# ---- statistics of each sample
# -------------------------------------------------------------------------------------------


def _grouped(b: Builder, x: Value, groups: int, eps: float) -> tuple[Value, Value, Value]:
    batch, channels, *spatial = x.shape
    if groups in (1, channels):
        dims = range(1 if groups == 1 else 2, len(x.shape))
        if dims:
            return with_statistics(b, x, dims, eps)
    apart = b.view(x, (batch, groups, channels // groups, *spatial))
    y, mean, scale = with_statistics(b, apart, range(2, len(apart.shape)), eps)
    return b.view(y, x.shape), mean, scale


def _group_norm(b: Builder, a: Args) -> Result:
    a.ignore("cudnn_enabled")
    x, weight, bias = a.tensor("input"), _optional(a, "weight"), _optional(a, "bias")
    y, *_ = _grouped(b, x, a["num_groups"], a["eps"])
    parameters = (None if v is None else _per_channel(b, v, len(x.shape)) for v in (weight, bias))
    return _scaled_and_shifted(b, y, *parameters)


def _native_group_norm(b: Builder, a: Args) -> Result:
    a.ignore("N", "C", "HxW")  # the shape of the input holds them
    x, weight, bias = a.tensor("input"), _optional(a, "weight"), _optional(a, "bias")
    y, *statistics = _grouped(b, x, a["group"], a["eps"])
    parameters = (None if v is None else _per_channel(b, v, len(x.shape)) for v in (weight, bias))
    return _statistics(b, a, _scaled_and_shifted(b, y, *parameters), *statistics)


def _trailing(a: Args) -> range:
    rank = len(a.tensor("input").shape)
    return range(rank - len(a["normalized_shape"]), rank)


def _layer_norm(b: Builder, a: Args) -> Result:
    a.ignore("cudnn_enable")
    y, *statistics = with_statistics(b, a.tensor("input"), _trailing(a), a["eps"])
    y = _scaled_and_shifted(b, y, _optional(a, "weight"), _optional(a, "bias"))
    return _statistics(b, a, y, *statistics)


def _rms_norm(b: Builder, a: Args) -> Result:
    x, eps = a.tensor("input"), a["eps"]
    eps = torch.finfo(torch_dtype(x.dtype)).eps if eps is None else eps
    power = reduced(b, "mean", b.emit("mul", x, x), _trailing(a), True)
    scale = b.emit("rsqrt", b.emit("add", power, b.known(eps, x.dtype)))
    y = _scaled_and_shifted(b, b.emit("mul", x, scale), _optional(a, "weight"), None)
    return _statistics(b, a, y, scale)


def _cosine_similarity(b: Builder, a: Args) -> Result:
    """sum(x1 / max(|x1|, eps) * x2 / max(|x2|, eps)): rows of length 1 first, with small products."""
    dim, eps = a["dim"], float(a["eps"])
    shape = np.broadcast_shapes(*(a.tensor(name).shape for name in ("x1", "x2")))
    units = []
    for name in ("x1", "x2"):
        x = b.expand(b.cast(a.tensor(name), a.out.dtype), shape)
        length = b.emit("sqrt", reduced(b, "sum", b.emit("mul", x, x), dim, True))
        units.append(b.emit("div", x, b.emit("clamp", length, min=eps, max=None)))
    return reduced(b, "sum", b.emit("mul", *units), dim, False)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.cosine_similarity.default: _cosine_similarity,
    **{
        target: _batch_norm
        for target in (
            aten.batch_norm.default,
            aten.native_batch_norm.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_no_training.default,
            aten._batch_norm_no_update.default,
        )
    },
    aten.instance_norm.default: _instance_norm,
    aten.group_norm.default: _group_norm,
    aten.native_group_norm.default: _native_group_norm,
    aten.layer_norm.default: _layer_norm,
    aten.native_layer_norm.default: _layer_norm,
    aten.rms_norm.default: _rms_norm,
    aten._fused_rms_norm.default: _rms_norm,
}
