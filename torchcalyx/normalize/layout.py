"""Lowerings of views: every reshape is one "view", every reordering of axes one "permute", every part a
"slice".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Value

aten = torch.ops.aten


def _view(b: Builder, a: Args) -> Result:
    a.ignore(*a.named)  # the result's shape holds all that these arguments say
    return b.view(a.tensor("self"), a.out.shape)


def _permute(b: Builder, a: Args) -> Result:
    return b.permute(a.tensor("self"), a["dims"]) if a["dims"] else a.tensor("self")


def _transpose(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    return b.transpose(x, a["dim0"], a["dim1"]) if x.shape else x


def _t(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    return b.transpose(x) if len(x.shape) == 2 else x


def _select(b: Builder, a: Args) -> Result:
    x, dim, index = a.tensor("self"), a["dim"], a["index"]
    return b.view(b.slice(x, dim, index % x.shape[dim], 1, 1), a.out.shape)


def _slice(b: Builder, a: Args) -> Result:
    x, dim, step = a.tensor("self"), a["dim"], a["step"]
    start, _, step = slice(a["start"], a["end"], step).indices(x.shape[dim])
    return b.slice(x, dim, start, step, a.out.shape[dim])


def _split_into(b: Builder, x: Value, dim: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(b.slice(x, dim, start, 1, size) for start, size in zip(starts, sizes, strict=True))


def _split(b: Builder, a: Args) -> Result:
    a.ignore("split_size", "split_sizes", "chunks")  # the results' shapes hold them
    dim = a["dim"]
    sizes = [t.shape[dim] for t in a.outs if t is not None]
    if 0 in sizes:
        return Reject("an empty part in a split")
    return _split_into(b, a.tensor("self"), dim, sizes)


def _unbind(b: Builder, a: Args) -> Result:
    x, dim = a.tensor("self"), a["dim"]
    parts = _split_into(b, x, dim, [1] * x.shape[dim])
    return tuple(b.view(p, a.out.shape) for p in parts)


def _flip(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    for dim in a["dims"] if x.shape else ():
        x = b.slice(x, dim, x.shape[dim] - 1, -1, x.shape[dim])
    return x


def _diagonal(b: Builder, a: Args) -> Result:
    x, offset, rank = a.tensor("self"), a["offset"], len(a.tensor("self").shape)
    first, second = a["dim1"] % rank, a["dim2"] % rank
    order = [d for d in range(rank) if d not in (first, second)] + [first, second]
    moved = b.permute(x, order)
    rows, columns = moved.shape[-2:]
    start = offset if offset >= 0 else -offset * columns
    flat = b.view(moved, (*moved.shape[:-2], rows * columns))
    return b.slice(flat, -1, start, columns + 1, a.out.shape[-1])


def _expand(b: Builder, a: Args) -> Result:
    a.ignore("size", "implicit")  # the result's shape holds them
    return b.expand(a.tensor("self"), a.out.shape)


LOWERINGS: Mapping[Any, Lowering] = {
    **{
        target: _view
        for target in (
            aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.squeeze.default,
            aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.flatten.using_ints,
            aten.unflatten.int, aten._reshape_alias.default,
        )
    },
    aten.permute.default: _permute,
    aten.transpose.int: _transpose,
    aten.t.default: _t,
    aten.select.int: _select,
    aten.slice.Tensor: _slice,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.chunk.default: _split,
    aten.unbind.int: _unbind,
    aten.flip.default: _flip,
    aten.diagonal.default: _diagonal,
    aten.expand.default: _expand,
}  # fmt: skip
