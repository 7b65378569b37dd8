"""Lowerings that read at computed indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.fold import emit
from torchcalyx.normalize.indexing import gathered
from torchcalyx.normalize.places import DATA, addressed, along, limited, numbers_along, on_axis, taken

aten = torch.ops.aten


def _index_select(b: Builder, a: Args) -> Result:
    x, index = a.tensor("self"), a.tensor("index")
    dim = a["dim"]
    if not x.shape:
        return b.view(x, a.out.shape)
    dim %= len(x.shape)
    place = on_axis(b, index, x.shape[dim], wrap=False)
    return taken(b, x, b.view(place, along(place, len(x.shape), dim)), dim)


def _index(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    found = addressed(b, x, a["indices"])
    if isinstance(found, Reject):
        return found
    picked = taken(b, found.merged(b, x), b.view(found.index, found.listed), found.place)
    return b.view(picked, a.out.shape)


def _masked_index(b: Builder, a: Args) -> Result:
    """Elements where the mask holds, whose indices alone must lie on their axes; a number elsewhere."""
    x, mask = a.tensor("self"), a.tensor("mask")
    found = addressed(b, x, limited(b, x, a["indices"]))
    if isinstance(found, Reject):
        return found
    picked = taken(b, found.merged(b, x), b.view(found.index, found.listed), found.place)
    behind = len(found.shape) - 1 - found.place
    counted = b.view(mask, (*mask.shape, *[1] * behind))
    return b.emit("where", counted, b.view(picked, a.out.shape), b.known(a["fill"], x.dtype))


def _gather(b: Builder, a: Args) -> Result:
    a.ignore("sparse_grad")
    x, index = a.tensor("self"), a.tensor("index")
    rank = max(1, len(x.shape))
    dim = a["dim"] % rank
    x, index = (b.view(v, v.shape or (1,)) for v in (x, index))
    size = x.shape[dim]
    if isinstance(index, Known):
        index = on_axis(b, index, size, wrap=False)
        assert isinstance(index, Known)
        flat = b.view(x, (math.prod(x.shape),))
        picked = gathered(b, [flat], 0, flat_places(index.tensor, x.shape, dim))
        if not isinstance(picked, Reject):
            return b.view(picked, a.out.shape)
    for axis in range(rank):
        if axis != dim:
            x = b.slice(x, axis, 0, 1, index.shape[axis])
    return b.view(taken(b, x, on_axis(b, index, size, wrap=False), dim), a.out.shape)


def flat_places(index: torch.Tensor, shape: Sequence[int], dim: int) -> list[int]:
    """Row-major places, in a tensor of that shape, of the elements at known indices along dim."""
    rank, linear = len(shape), torch.zeros((), dtype=torch.int64)
    for axis, size in enumerate(shape):
        own = numbers_along(rank, axis, index.shape[axis]).tensor
        linear = linear * size + (index if axis == dim else own)
    return linear.reshape(-1).tolist()


def _take(b: Builder, a: Args) -> Result:
    x, index = a.tensor("self"), a.tensor("index")
    size = math.prod(x.shape)
    place = b.view(on_axis(b, index, size, wrap=True), (math.prod(index.shape),))
    return b.view(taken(b, b.view(x, (size,)), place, 0), a.out.shape)


def table_rows(b: Builder, weight: Value, index: Value) -> Value:
    """Rows of a table, one for each index: [count, features]."""
    place = on_axis(b, index, weight.shape[0], wrap=False)
    return taken(b, weight, b.view(place, along(place, 2, 0)), 0)


def _embedding(b: Builder, a: Args) -> Result:
    a.ignore("padding_idx", "scale_grad_by_freq", "sparse")  # of gradients
    return b.view(table_rows(b, a.tensor("weight"), a.tensor("indices")), a.out.shape)


def _renorm(b: Builder, a: Args) -> Result:
    return Reject("max_norm rescales the caller's table in place; rescale it once, before compiling")


def _one_hot(b: Builder, a: Args) -> Result:
    count = a["num_classes"]
    if count < 0:
        return Reject("the size of the result depends on data: give num_classes")
    index = a.tensor("self")
    place = b.view(on_axis(b, index, count, wrap=False), (*index.shape, 1))
    return b.cast(b.emit("eq", place, Known(torch.arange(count))), "int64")


def _masked_scatter(b: Builder, a: Args) -> Result:
    x, source = a.tensor("self"), a.tensor("source")
    mask = b.expand(a.tensor("mask"), a.out.shape)
    size, given = math.prod(a.out.shape), math.prod(source.shape)
    flags = b.view(mask, (size,))
    number = b.cast(flags, "int64")
    before = emit(b, "add", emit(b, "cumsum", number, dim=0), b.known(-1, "int64"))
    place = b.emit("where", flags, before, b.known(0, "int64"))
    picked = taken(b, b.view(source, (given,)), on_axis(b, place, given, wrap=False), 0)
    return b.emit("where", mask, b.view(picked, a.out.shape), b.expand(x, a.out.shape))


def _as_strided(b: Builder, a: Args) -> Result:
    x, offset = a.tensor("self"), a["storage_offset"] or 0
    flat = b.view(x, (math.prod(x.shape),))
    places = strided(a["size"], a["stride"], offset)
    if places.numel() and int(places.max()) >= flat.shape[0]:
        return Reject("it reads memory behind the tensor's own elements, which only its storage holds")
    return b.view(taken(b, flat, Known(places.reshape(-1)), 0), a.out.shape)


def strided(size: Any, stride: Any, offset: int) -> torch.Tensor:
    """Places of the elements of a strided view."""
    places = torch.tensor(offset)
    for n, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(n) * step
    return places


def _refused(b: Builder, a: Args) -> Result:
    return DATA


def _repeat_interleave(b: Builder, a: Args) -> Result:
    return DATA if not isinstance(a["repeats"], Known) else Reject("repeats of a computed size")


LOWERINGS: Mapping[Any, Lowering] = {
    aten.index_select.default: _index_select,
    aten.index.Tensor: _index,
    aten._unsafe_index.Tensor: _index,
    aten._unsafe_masked_index.default: _masked_index,
    aten.gather.default: _gather,
    aten.take.default: _take,
    aten.embedding.default: _embedding,
    aten.embedding_renorm.default: _renorm,
    aten.one_hot.default: _one_hot,
    aten.masked_scatter.default: _masked_scatter,
    aten.as_strided.default: _as_strided,
    aten.as_strided_copy.default: _as_strided,
    **dict.fromkeys(
        (aten.masked_select.default, aten.nonzero.default, aten.nonzero_numpy.default, aten.argwhere.default),
        _refused,
    ),
    aten.repeat_interleave.Tensor: _repeat_interleave,
}
