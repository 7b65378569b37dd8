"""Batch norm in eval mode: one factor and one offset per channel, computed in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, torch_dtype

aten = torch.ops.aten


def _eval_batch_norm(b: Builder, a: Args) -> Result:
    x = a.tensor("input")
    a.ignore("momentum")  # only for updates of the running statistics
    given = [a[name] for name in ("running_mean", "running_var", "weight", "bias")]
    if not all(v is None or isinstance(v, Known) for v in given):
        return Reject("no kernel yet for batch norm whose statistics or parameters are computed")
    mean, variance, weight, bias = (None if v is None else v.tensor.double() for v in given)
    if mean is None or variance is None:
        return Reject("batch norm without running statistics uses the batch's own")
    factor = (variance + a["eps"]).rsqrt() if weight is None else weight * (variance + a["eps"]).rsqrt()
    offset = -mean * factor if bias is None else bias - mean * factor
    origins = tuple(o for v in given if v is not None for o in v.origins)
    shape = (-1, *[1] * (len(x.shape) - 2))
    dtype = torch_dtype(x.dtype)
    scaled = b.emit("mul", x, Known(factor.reshape(shape).to(dtype), origins))
    shifted = b.emit("add", scaled, Known(offset.reshape(shape).to(dtype), origins))
    return shifted, *(None for _ in a.outs[1:])


LOWERINGS: Mapping[Any, Lowering] = {aten._native_batch_norm_legit_no_training.default: _eval_batch_norm}
