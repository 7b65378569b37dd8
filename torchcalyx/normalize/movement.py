"""Lowerings that move data: joining, padding, repeating, filling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.elementwise import as_value
from torchcalyx.normalize.indexing import gathered

aten = torch.ops.aten


def _cat(b: Builder, a: Args) -> Result:
    dim = a["dim"]
    legacy = [t for t in a["tensors"] if t.shape != (0,)]  # torch lets cat skip 1-d empty tensors of any rank
    return b.cat([b.cast(t, a.out.dtype) for t in legacy], dim)


def _stack(b: Builder, a: Args) -> Result:
    dim = a["dim"] % len(a.out.shape)
    shape = [1 if i == dim else n for i, n in enumerate(a.out.shape)]
    return b.cat([b.view(b.cast(t, a.out.dtype), shape) for t in a["tensors"]], dim)


def _pad(b: Builder, a: Args) -> Result:
    mode = a.get("mode", "constant")
    x, pad = a.tensor("self"), list(a["pad"])
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if mode == "constant":
        return _filled_border(b, x, before, after, a.get("value", None) or 0)
    a.ignore("value")
    for axis in range(rank):
        if before[axis] or after[axis]:
            places = range(-before[axis], x.shape[axis] + after[axis])
            padded = gathered(b, [x], axis, [_source_index(mode, i, x.shape[axis]) for i in places])
            if isinstance(padded, Reject):
                return padded
            x = padded
    return x


def _source_index(mode: str, index: int, size: int) -> int:
    if mode == "circular":
        return index % size
    if mode == "reflect":
        return size - 1 - abs(size - 1 - abs(index))
    if mode == "replicate":
        return min(max(index, 0), size - 1)
    raise ValueError(f"padding mode {mode!r}")


def _filled_border(b: Builder, x: Value, before: list[int], after: list[int], value: float) -> Result:
    for axis, size in enumerate(x.shape):
        low, high = max(0, -before[axis]), max(0, -after[axis])
        x = b.slice(x, axis, low, 1, size - low - high)
    before, after = [max(0, n) for n in before], [max(0, n) for n in after]
    if not any((*before, *after)):
        return x
    if not math.isfinite(value):
        return Reject(f"padding with {value}")
    number = b.known(value, x.dtype).tensor.item()
    return b.emit("pad", x, before=tuple(before), after=tuple(after), value=number)


def _repeat(b: Builder, a: Args) -> Result:
    x, repeats = a.tensor("self"), list(a["repeats"])
    shape = [1] * (len(repeats) - len(x.shape)) + list(x.shape)
    apart = b.view(x, [n for size in shape for n in (1, size)])
    wide = b.expand(apart, [n for times, size in zip(repeats, shape, strict=True) for n in (times, size)])
    return b.view(wide, a.out.shape)


def _repeat_interleave(b: Builder, a: Args) -> Result:
    a.ignore("output_size")
    x, times, dim = a.tensor("self"), a["repeats"], a["dim"]
    if dim is None:
        x, dim = b.view(x, (math.prod(x.shape),)), 0
    dim %= len(x.shape)
    apart = b.view(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]))
    wide = b.expand(apart, (*x.shape[: dim + 1], times, *x.shape[dim + 1 :]))
    return b.view(wide, a.out.shape)


def _roll(b: Builder, a: Args) -> Result:
    x, shifts, dims = a.tensor("self"), a["shifts"], a["dims"]
    shape = x.shape
    if not shape:
        return x
    if not dims:
        x, dims = b.view(x, (math.prod(shape),)), (0,)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        cut = (size - shift) % size
        if cut:
            x = b.cat([b.slice(x, dim, cut, 1, size - cut), b.slice(x, dim, 0, 1, cut)], dim)
    return b.view(x, shape)


def _triangle(lower_part: bool) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, ones = a.tensor("self"), torch.ones(a.out.shape[-2:], dtype=torch.bool)
        mask = ones.tril(a["diagonal"]) if lower_part else ones.triu(a["diagonal"])
        return b.emit("where", Known(mask), x, b.known(0, x.dtype))

    return lower


def _filled(value: str | int) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        a.ignore(*a.named)  # the result's type holds the rest
        number = as_value(b, a[value] if isinstance(value, str) else value, a.out.dtype)
        if not isinstance(number, Known):
            return b.expand(number, a.out.shape)
        return number.to(number.tensor.to(torch_dtype(a.out.dtype)).expand(a.out.shape))

    return lower


LOWERINGS: Mapping[Any, Lowering] = {
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.constant_pad_nd.default: _pad,
    aten.pad.default: _pad,
    aten.repeat.default: _repeat,
    aten.repeat_interleave.self_int: _repeat_interleave,
    aten.roll.default: _roll,
    aten.tril.default: _triangle(True),
    aten.triu.default: _triangle(False),
    **{t: _filled("fill_value") for t in (aten.full_like.default, aten.new_full.default)},
    **{t: _filled("value") for t in (aten.fill.Scalar, aten.fill.Tensor)},
    **{t: _filled(1) for t in (aten.ones_like.default, aten.new_ones.default)},
    # memory without values counts as zero: whatever reads it before writing is undefined in torch as well
    **{
        t: _filled(0)
        for t in (
            aten.zeros_like.default,
            aten.new_zeros.default,
            aten.empty_like.default,
            aten.new_empty.default,
        )
    },
}
