"""Indices as values of the normal form: on their axis, several as one, and what is read and written there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchcalyx.ir.lookups import check_index
from torchcalyx.normalize.args import Reject
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.fold import emit
from torchcalyx.normalize.indexing import gathered

DATA = Reject(
    "the size of the result depends on data, and hardware has fixed shapes: keep all elements and choose "
    "with torch.where, or give the mask as a constant"
)


def on_axis(b: Builder, index: Value, size: int, wrap: bool) -> Value:
    """An index that lies on an axis of `size` elements, int64; ValueError for a known one that does not.

    wrap: negative ones count from the end.
    """
    if not isinstance(index, Known):
        return b.emit("checked", index, size=size, wrap=wrap)
    values = index.tensor.long()
    if values.numel():
        check_index(b.source, b.hint, values.numpy(), size, wrap)
    return index.to(values % size)


def numbers_along(rank: int, dim: int, stop: int, start: int = 0) -> Known:
    """start .. stop - 1 along dim of a tensor of that rank."""
    return Known(torch.arange(start, stop).reshape([-1 if d == dim else 1 for d in range(rank)]))


def along(index: Value, rank: int, dim: int) -> list[int]:
    """The shape of a list of indices of one axis of a tensor of that rank."""
    return [math.prod(index.shape) if d == dim else 1 for d in range(rank)]


def taken(b: Builder, x: Value, index: Value, dim: int) -> Value:
    """x at index along dim: of one rank, other axes broadcast. Known indices become slices where few do."""
    if isinstance(index, Known):
        if isinstance(x, Known):
            return x.to(torch.take_along_dim(x.tensor, index.tensor, dim))
        if math.prod(index.shape) == index.shape[dim]:
            places = [int(i) for i in index.tensor.reshape(-1)]
            found = gathered(b, [x], dim, places)
            if not isinstance(found, Reject):
                return found
    return b.emit("take", x, index, dim=dim)


def everywhere(b: Builder, number: bool | int | float, shape: Sequence[int], dtype: str) -> Value:
    """One number in every place, held once."""
    return b.emit("expand", b.known(number, dtype), shape=tuple(shape)) if shape else b.known(number, dtype)


def written(b: Builder, base: Value, index: Value, source: Value, dim: int, mode: str) -> Value:
    """base with source written to index along dim."""
    if isinstance(base, Known) and base.tensor.numel() and base.shape:
        first = base.tensor.reshape(-1)[0]
        if bool((base.tensor == first).all()):
            base = everywhere(b, first.item(), base.shape, base.dtype)
    return b.emit("put", base, index, b.cast(source, base.dtype), dim=dim, mode=mode)


@dataclass(frozen=True, slots=True)
class Addressed:
    """Indices of several axes as one index of one axis.

    order: permutation that brings the indexed axes together, at `place`. shape: of the tensor with these axes
    merged. index: into the merged axis, of the shape of the broadcast index tensors.
    """

    order: tuple[int, ...]
    place: int
    shape: tuple[int, ...]
    index: Value

    def merged(self, b: Builder, x: Value) -> Value:
        """The tensor with the indexed axes as one."""
        return b.view(b.permute(x, self.order), self.shape)

    def apart(self, b: Builder, x: Value, shape: Sequence[int]) -> Value:
        """The merged tensor with its own axes. shape: of the whole."""
        moved = b.view(x, [shape[d] for d in self.order])
        return b.permute(moved, [self.order.index(d) for d in range(len(self.order))])

    @property
    def listed(self) -> list[int]:
        """The shape of the index as a list along the merged axis."""
        return along(self.index, len(self.shape), self.place)


def addressed(b: Builder, x: Value, given: Sequence[Any]) -> Addressed | Reject:
    """Index tensors, one for an axis or None, as torch reads them; masks must be known."""
    indices: list[Value | None] = []
    for index in given:
        if index is None:
            indices.append(None)
        elif index.dtype not in ("bool", "uint8"):
            indices.append(index)
        elif isinstance(index, Known):
            indices += [index.to(part) for part in index.tensor.nonzero(as_tuple=True)]
        else:
            return DATA
    axes = [i for i, index in enumerate(indices) if index is not None]
    if not axes:
        return Reject("an index without any tensor")
    linear: Value | None = None
    for axis in axes:
        index = indices[axis]
        assert index is not None
        own = on_axis(b, index, x.shape[axis], wrap=True)
        linear = own if linear is None else emit(b, "add", scaled(b, linear, x.shape[axis]), own)
    assert linear is not None
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    place = axes[0] if together else 0
    rest = [d for d in range(len(x.shape)) if d not in axes]
    kept = [x.shape[d] for d in rest]
    shape = (*kept[:place], math.prod(x.shape[d] for d in axes), *kept[place:])
    return Addressed((*rest[:place], *axes, *rest[place:]), place, shape, linear)


def limited(b: Builder, x: Value, given: Sequence[Any]) -> list[Any]:
    """Indices of axes, one for an axis or None, brought onto their axis."""
    return [
        i if i is None else b.emit("clamp", i, min=-x.shape[d], max=x.shape[d] - 1)
        for d, i in enumerate(given)
    ]
