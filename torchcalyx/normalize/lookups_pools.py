"""Lowerings of maximum pooling with the places of its maxima, and of its inverse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value
from torchcalyx.normalize.places import everywhere, on_axis, taken, written
from torchcalyx.normalize.pooling import adaptive, adaptive_windows, max_pool, windows_of
from torchcalyx.normalize.reduction import reduced
from torchcalyx.normalize.spatial import each_axis

aten = torch.ops.aten


def _window_places(spatial: Sequence[int], windows: Sequence[Sequence[Sequence[int]]]) -> torch.Tensor:
    """Places [windows, taps] in the row-major elements of each window. windows: for each axis the indices of
    each window. Windows of unlike size are filled up with their first place, which wins only where it would.
    """
    rows = [torch.zeros(1, dtype=torch.int64)]
    for size, spans in zip(spatial, windows, strict=True):
        parts = [torch.tensor(span) for span in spans]
        rows = [(row[:, None] * size + part).reshape(-1) for row in rows for part in parts]
    most = max(len(row) for row in rows)
    return torch.stack([torch.cat([row, row[:1].expand(most - len(row))]) for row in rows])


def _winners(
    b: Builder, x: Value, spatial: int, windows: Sequence[Sequence[Sequence[int]]], shape: Sequence[int]
) -> tuple[Value, Value]:
    """Greatest of each window of x[..., *S] and its place among the elements of S."""
    places = _window_places(x.shape[len(x.shape) - spatial :], windows)
    count, taps = places.shape
    lead = math.prod(x.shape[: len(x.shape) - spatial])
    flat = b.view(x, (lead, math.prod(x.shape[len(x.shape) - spatial :])))
    seen = b.view(taken(b, flat, Known(places.reshape(1, -1)), 1), (lead, count, taps))
    values = b.view(reduced(b, "amax", seen, 2, False), shape)
    if taps == 1:
        return values, Known(places.reshape(1, count).expand(lead, count).reshape(tuple(shape)))
    winner = b.emit("argmax", seen, dim=2, keepdim=True)
    where = b.emit("take", Known(places.reshape(1, count, taps)), winner, dim=2)
    return values, b.view(where, shape)


def _max_pool(rank: int) -> Lowering:
    pooled = max_pool(rank)

    def lower(b: Builder, a: Args) -> Result:
        values = pooled(b, a)
        assert isinstance(values, (Ref, Known)) and a.outs[0] is not None
        windows = []
        for axis in windows_of(a, "self", rank):
            starts = [i * axis.stride - axis.padding for i in range(axis.count)]
            spans = [range(s, s + axis.dilation * axis.kernel, axis.dilation) for s in starts]
            windows.append([[i for i in span if 0 <= i < axis.size] for span in spans])
        return values, _winners(b, a.tensor("self"), rank, windows, a.outs[0].shape)[1]

    return lower


def _adaptive(rank: int) -> Lowering:
    pooled = adaptive(rank, "max_pool")

    def lower(b: Builder, a: Args) -> Result:
        values = pooled(b, a)
        x = a.tensor("self")
        counts = each_axis(a["output_size"], rank)
        sizes = x.shape[len(x.shape) - rank :]
        windows = [
            [list(range(*span)) for span in adaptive_windows(n, m)]
            for n, m in zip(sizes, counts, strict=True)
        ]
        assert a.outs[0] is not None
        found = _winners(b, x, rank, windows, a.outs[0].shape)
        return (values if isinstance(values, (Ref, Known)) else found[0]), found[1]

    return lower


def _fractional(rank: int) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, samples = a.tensor("self"), a["random_samples"]
        if not isinstance(samples, Known):
            return Reject("the places of the windows depend on data: give constant samples")
        lead = x.shape[: len(x.shape) - rank]
        given = samples.tensor.reshape(-1, rank)
        if len(given) != math.prod(lead) or a.outs[0] is None:
            return Reject(f"{len(given)} samples for {math.prod(lead)} planes")
        sizes = x.shape[len(x.shape) - rank :]
        kernel, counts = each_axis(a["kernel_size"], rank), each_axis(a["output_size"], rank)
        planes = b.view(x, (math.prod(lead), *sizes))
        parts = []
        for number, sample in enumerate(given.double().tolist()):
            windows = []
            # torch's samples name the last axis first
            for size, pool, count, u in zip(sizes, kernel, counts, _samples(sample, rank), strict=True):
                starts = _starts(size, pool, count, u)
                windows.append([list(range(s, s + pool)) for s in starts])
            plane = b.slice(planes, 0, number, 1, 1)
            parts.append(_winners(b, plane, rank, windows, (1, *counts)))
        return tuple(b.view(b.cat([p[i] for p in parts], 0), a.outs[0].shape) for i in (0, 1))

    return lower


def _samples(sample: list[float], rank: int) -> list[float]:
    """Torch reads width, height (two axes), or time, height, width."""
    return sample[::-1] if rank == 2 else sample


def _starts(size: int, pool: int, count: int, sample: float) -> list[int]:
    """First index of each window, as torch's kernel computes it."""
    if count == 1:
        return [size - pool]
    alpha = (size - pool) / (count - 1)
    starts = [int((i + sample) * alpha) - int(sample * alpha) for i in range(count - 1)]
    return [*starts, size - pool]


def _unpool(rank: int) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        a.ignore("output_size", "stride", "padding")
        x, index = a.tensor("self"), a.tensor("indices")
        lead = math.prod(x.shape[: len(x.shape) - rank])
        into = math.prod(a.out.shape[len(a.out.shape) - rank :])
        each = math.prod(x.shape[len(x.shape) - rank :])
        place = b.view(on_axis(b, index, into, wrap=False), (lead, each))
        empty = everywhere(b, 0, (lead, into), x.dtype)
        return b.view(written(b, empty, place, b.view(x, (lead, each)), 1, "set"), a.out.shape)

    return lower


_POOLS = (aten.max_pool1d_with_indices, aten.max_pool2d_with_indices, aten.max_pool3d_with_indices)
_ADAPTIVE = (aten.adaptive_max_pool1d, aten.adaptive_max_pool2d, aten.adaptive_max_pool3d)

LOWERINGS: Mapping[Any, Lowering] = {
    **{op.default: _max_pool(rank) for rank, op in enumerate(_POOLS, 1)},
    **{op.default: _adaptive(rank) for rank, op in enumerate(_ADAPTIVE, 1)},
    aten.fractional_max_pool2d.default: _fractional(2),
    aten.fractional_max_pool3d.default: _fractional(3),
    aten.max_unpool2d.default: _unpool(2),
    aten.max_unpool3d.default: _unpool(3),
}
