"""Lowerings of resampling: repeated or picked elements, products with constant interpolation matrices,
shuffles.

Which element or which mixture of elements a result takes is read off torch's own operation, applied to
indices or to unit vectors along one axis at a time: all these operations work axis by axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.indexing import gathered

aten = torch.ops.aten

_BASE, _DIGITS = 100, 4  # an index as digits that every dtype holds exactly


def _probe(target: Any, a: Args, x: torch.Tensor) -> torch.Tensor:
    """torch's result for other values of the same spatial shape."""
    rest = {name: a[name] for name in a.named if name not in ("input", "self")}
    result: torch.Tensor = target(x.contiguous(), **rest)
    return result


def _x(a: Args) -> Value:
    return a.tensor("input" if "input" in a else "self")


def _along(values: torch.Tensor, axis: int, spatial: Sequence[int]) -> torch.Tensor:
    """values[C, n] along one spatial axis, constant along the others: [1, C, *spatial]."""
    shape = [1, values.shape[0], *(n if i == axis else 1 for i, n in enumerate(spatial))]
    return values.reshape(shape).expand(1, -1, *spatial)


def _line(result: torch.Tensor, axis: int) -> torch.Tensor:
    """[C, m]: the result along one spatial axis, at the start of the others."""
    moved = result[0].movedim(1 + axis, 1)
    return moved.reshape(*moved.shape[:2], -1)[:, :, 0]


def _places(target: Any, a: Args, axis: int, spatial: Sequence[int], dtype: torch.dtype) -> list[int]:
    """Index of the element that each result takes, found in the dtype of x: torch rounds differently in
    each.
    """
    digits = torch.stack([torch.arange(spatial[axis]) // _BASE**i % _BASE for i in range(_DIGITS)])
    assert spatial[axis] < _BASE**_DIGITS
    line = _line(_probe(target, a, _along(digits.to(dtype), axis, spatial)), axis).to(torch.int64)
    return [int(i) for i in sum(line[i] * _BASE**i for i in range(_DIGITS))]


def _nearest(target: Any) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x = _x(a)
        spatial = x.shape[2:]
        scales = [1] * len(spatial)
        for axis, size in enumerate(spatial):
            places = _places(target, a, axis, spatial, torch_dtype(x.dtype))
            repeats = len(places) // size
            if repeats and places == [i // repeats for i in range(size * repeats)]:
                scales[axis] = repeats
                continue
            picked = gathered(b, [x], 2 + axis, places)
            if isinstance(picked, Reject):
                matrix = torch.eye(size)[places].to(torch_dtype(x.dtype))
                picked = _mixed(b, x, 2 + axis, matrix) if x.dtype in FLOATS else picked
            if isinstance(picked, Reject):
                return picked
            x = picked
        return x if max(scales) == 1 else b.emit("upsample", x, scales=tuple(scales))

    return lower


def _mixed(b: Builder, x: Value, axis: int, matrix: torch.Tensor) -> Value:
    """Axis of n elements replaced by the m mixtures matrix[m, n]."""
    order = [*(d for d in range(len(x.shape)) if d != axis), axis]
    mixed = b.emit("linear", b.permute(x, order), Known(matrix))
    return b.permute(mixed, [order.index(d) for d in range(len(order))])


def _interpolated(target: Any) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x = _x(a)
        if x.dtype not in FLOATS:
            return Reject(
                f"no kernel yet for interpolation of {x.dtype}, which rounds; cast to floating point first"
            )
        spatial = x.shape[2:]
        for axis in sorted(range(len(spatial)), key=lambda i: a.out.shape[2 + i] / spatial[i]):
            units = torch.eye(spatial[axis], dtype=torch.float64)
            matrix = _line(_probe(target, a, _along(units, axis, spatial)), axis).T
            if not torch.equal(matrix, units):
                x = _mixed(b, x, 2 + axis, matrix.to(torch_dtype(x.dtype)).contiguous())
        return x

    return lower


def _pixel_shuffle(b: Builder, a: Args) -> Result:
    x, r = a.tensor("self"), a["upscale_factor"]
    *batch, channels, height, width = x.shape
    apart = b.view(x, (math.prod(batch), channels // (r * r), r, r, height, width))
    return b.view(b.permute(apart, (0, 1, 4, 2, 5, 3)), a.out.shape)


def _pixel_unshuffle(b: Builder, a: Args) -> Result:
    x, r = a.tensor("self"), a["downscale_factor"]
    *batch, channels, height, width = x.shape
    apart = b.view(x, (math.prod(batch), channels, height // r, r, width // r, r))
    return b.view(b.permute(apart, (0, 1, 3, 5, 2, 4)), a.out.shape)


def _channel_shuffle(b: Builder, a: Args) -> Result:
    x, groups = a.tensor("self"), a["groups"]
    batch, channels, *spatial = x.shape
    apart = b.view(x, (batch, groups, channels // groups, math.prod(spatial)))
    return b.view(b.permute(apart, (0, 2, 1, 3)), x.shape)


def _overloads(*names: str) -> list[Any]:
    return [getattr(getattr(aten, name), overload) for name in names for overload in ("default", "vec")]


LOWERINGS: Mapping[Any, Lowering] = {
    **{
        target: _nearest(target)
        for target in _overloads(
            *(
                f"{kind}{axes}d"
                for kind in ("upsample_nearest", "_upsample_nearest_exact")
                for axes in (1, 2, 3)
            )
        )
    },
    **{
        target: _interpolated(target)
        for target in _overloads(
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
        )
    },
    aten.pixel_shuffle.default: _pixel_shuffle,
    aten.pixel_unshuffle.default: _pixel_unshuffle,
    aten.channel_shuffle.default: _channel_shuffle,
    aten.native_channel_shuffle.default: _channel_shuffle,
}
