"""Lowerings of indices and windows known at compile time: they become slices and one join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Value

aten = torch.ops.aten

_MOST_RUNS = 64  # each run of indices is a slice in the hardware's address map


def _runs(indices: Sequence[int], bounds: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(first, step, count) of the arithmetic runs of `indices` that cross none of `bounds`."""

    def part(index: int) -> int:
        return sum(index >= bound for bound in bounds)

    def end_of(start: int) -> int:
        """Behind the last of the evenly spaced indices of one part that begin at a place."""
        end = start + 1
        while end < len(indices) and part(indices[end]) == part(indices[start]):
            if indices[end] - indices[end - 1] != indices[start + 1] - indices[start]:
                break
            end += 1
        return end

    at = 0
    while at < len(indices):
        end = end_of(at)
        if end == at + 2 and end_of(at + 1) > end:  # a pair takes nothing from a longer run behind it
            end -= 1
        yield indices[at], indices[at + 1] - indices[at] if end > at + 1 else 1, end - at
        at = end


def gathered(b: Builder, parts: Sequence[Value], dim: int, indices: Sequence[int]) -> Value | Reject:
    """Elements `indices` along `dim` of the parts laid one after the other, by slices."""
    starts = [sum(p.shape[dim] for p in parts[:i]) for i in range(len(parts))]
    runs = list(_runs(indices, starts[1:]))
    if len(runs) > _MOST_RUNS:
        return Reject(
            f"no kernel yet for an index of {len(runs)} separate runs; at most {_MOST_RUNS} become slices"
        )
    pieces = []
    for first, step, count in runs:
        which = max(i for i, start in enumerate(starts) if first >= start)
        start = first - starts[which]
        piece = b.slice(parts[which], dim, start, step or 1, count if step else 1)
        if step == 0:
            piece = b.expand(piece, [count if i == dim else n for i, n in enumerate(piece.shape)])
        pieces.append(piece)
    return b.cat(pieces, dim)


def _unfold(b: Builder, a: Args) -> Result:
    x, size, step, dim = a.tensor("self"), a["size"], a["step"], a["dimension"]
    if not x.shape:
        return b.view(x, a.out.shape)
    dim %= len(x.shape)
    count = a.out.shape[dim]
    windows = gathered(b, [x], dim, [w * step + i for w in range(count) for i in range(size)])
    if isinstance(windows, Reject):
        return windows
    apart = b.view(windows, (*x.shape[:dim], count, size, *x.shape[dim + 1 :]))
    axes = list(range(len(apart.shape)))
    return b.permute(apart, [*axes[: dim + 1], *axes[dim + 2 :], dim + 1])


def _slice_scatter(b: Builder, a: Args) -> Result:
    x, src, dim = a.tensor("self"), a.tensor("src"), a["dim"] % len(a.out.shape)
    start, stop, step = slice(a["start"], a["end"], a["step"]).indices(x.shape[dim])
    return overwritten(b, x, src, dim, range(start, stop, step))


def _select_scatter(b: Builder, a: Args) -> Result:
    x, dim = a.tensor("self"), a["dim"] % len(a.out.shape)
    src = b.view(a.tensor("src"), [1 if i == dim else n for i, n in enumerate(x.shape)])
    at = a["index"] % x.shape[dim]
    return overwritten(b, x, src, dim, range(at, at + 1))


def overwritten(b: Builder, x: Value, src: Value, dim: int, places: Sequence[int]) -> Value | Reject:
    """x with the elements of `src` at different places along `dim`, by slices."""
    size = x.shape[dim]
    indices = list(range(size))
    for i, place in enumerate(places):
        indices[place] = size + i
    return gathered(b, [x, b.cast(src, x.dtype)], dim, indices)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.unfold.default: _unfold,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
}
