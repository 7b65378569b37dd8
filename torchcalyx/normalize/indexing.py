"""Lowerings of indices and windows known at compile time: they become slices and one join."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value

aten = torch.ops.aten

_MOST_RUNS = 64  # each run of indices is a slice in the hardware's address map
_COMPUTED = "no kernel yet for an index that is computed; it must be known at compile time"


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


def _index_select(b: Builder, a: Args) -> Result:
    x, index = a.tensor("self"), a["index"]
    if not isinstance(index, Known):
        return Reject(_COMPUTED)
    if not x.shape:
        a.ignore("dim")
        return x
    dim = a["dim"] % len(x.shape)
    return gathered(b, [x], dim, [int(i) % x.shape[dim] for i in index.tensor.reshape(-1)])


@dataclass(frozen=True, slots=True)
class _Addressed:
    """Known indices of several axes as one index list of one axis.

    order: permutation that brings the indexed axes together, at `place`. shape: of the tensor with these axes
    merged. indices: into the merged axis. grid: shape of the broadcast index tensors.
    """

    order: tuple[int, ...]
    place: int
    shape: tuple[int, ...]
    indices: tuple[int, ...]
    grid: tuple[int, ...]


def _addressed(x: Value, given: Sequence[Any]) -> _Addressed | Reject:
    if any(i is not None and not isinstance(i, Known) for i in given):
        return Reject(_COMPUTED)
    indices: list[torch.Tensor | None] = []
    for index in given:
        masks = index is not None and index.dtype in ("bool", "uint8")
        indices += index.tensor.nonzero(as_tuple=True) if masks else [None if index is None else index.tensor]
    axes = [i for i, index in enumerate(indices) if index is not None]
    linear = torch.zeros((), dtype=torch.int64)
    for axis in axes:
        index = indices[axis]
        assert index is not None
        linear = linear * x.shape[axis] + index % x.shape[axis]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    place = axes[0] if together else 0
    rest = [d for d in range(len(x.shape)) if d not in axes]
    kept = [x.shape[d] for d in rest]
    return _Addressed(
        order=(*rest[:place], *axes, *rest[place:]),
        place=place,
        shape=(*kept[:place], math.prod(x.shape[d] for d in axes), *kept[place:]),
        indices=tuple(int(i) for i in linear.reshape(-1)),
        grid=tuple(linear.shape),
    )


def _index(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    found = _addressed(x, a["indices"])
    if isinstance(found, Reject):
        return found
    flat = b.view(b.permute(x, found.order), found.shape)
    picked = gathered(b, [flat], found.place, found.indices)
    return picked if isinstance(picked, Reject) else b.view(picked, a.out.shape)


def _index_put(b: Builder, a: Args) -> Result:
    x, values = a.tensor("self"), a.tensor("values")
    found = _addressed(x, a["indices"])
    if isinstance(found, Reject):
        return found
    if a["accumulate"] or len(set(found.indices)) < len(found.indices):
        return Reject("no kernel yet for adding to, or writing twice to, one element")
    moved = b.permute(x, found.order)
    flat = b.view(moved, found.shape)
    before, after = found.shape[: found.place], found.shape[found.place + 1 :]
    source = b.expand(b.cast(values, x.dtype), (*before, *found.grid, *after))
    written = _overwritten(
        b, flat, b.view(source, (*before, len(found.indices), *after)), found.place, found.indices
    )
    if isinstance(written, Reject):
        return written
    back = [found.order.index(d) for d in range(len(found.order))]
    return b.permute(b.view(written, moved.shape), back)


def _gather(b: Builder, a: Args) -> Result:
    a.ignore("sparse_grad")
    x, index = a.tensor("self"), a["index"]
    if not isinstance(index, Known):
        return Reject(_COMPUTED)
    if not x.shape:
        a.ignore("dim")
        return b.view(x, a.out.shape)
    dim = a["dim"] % len(x.shape)
    linear = torch.zeros((), dtype=torch.int64)
    for axis, size in enumerate(x.shape):
        place = torch.arange(index.shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
        linear = linear * size + (index.tensor if axis == dim else place)
    picked = gathered(b, [b.view(x, (math.prod(x.shape),))], 0, [int(i) for i in linear.reshape(-1)])
    return picked if isinstance(picked, Reject) else b.view(picked, a.out.shape)


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
    return _overwritten(b, x, src, dim, range(start, stop, step))


def _select_scatter(b: Builder, a: Args) -> Result:
    x, dim = a.tensor("self"), a["dim"] % len(a.out.shape)
    src = b.view(a.tensor("src"), [1 if i == dim else n for i, n in enumerate(x.shape)])
    at = a["index"] % x.shape[dim]
    return _overwritten(b, x, src, dim, range(at, at + 1))


def _overwritten(b: Builder, x: Value, src: Value, dim: int, places: Sequence[int]) -> Value | Reject:
    size = x.shape[dim]
    indices = list(range(size))
    for i, place in enumerate(places):
        indices[place] = size + i
    return gathered(b, [x, b.cast(src, x.dtype)], dim, indices)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.index_select.default: _index_select,
    aten.index.Tensor: _index,
    aten._unsafe_index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten.gather.default: _gather,
    aten.unfold.default: _unfold,
    aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
}
