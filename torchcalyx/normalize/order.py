"""Lowerings of order: everything that a sorted row answers, running extremes, and counts of comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.places import numbers_along
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def in_order(
    b: Builder, x: Value, dim: int, descending: bool, indices: bool = True
) -> tuple[Value, Value | None]:
    """Elements and, when wanted, indices of x sorted along dim."""
    if not x.shape or x.shape[dim] == 1:
        return x, Known(torch.zeros(x.shape, dtype=torch.int64))
    dim %= len(x.shape)
    numbers = b.cast(x, "uint8") if x.dtype == "bool" else x
    elements = b.cast(b.emit("sort", numbers, dim=dim, descending=descending), x.dtype)
    return elements, b.emit("argsort", numbers, dim=dim, descending=descending) if indices else None


def _sort(b: Builder, a: Args) -> Result:
    if "stable" in a:
        a.ignore("stable")  # it always is
    elements, indices = in_order(b, a.tensor("self"), a["dim"], a["descending"])
    return elements, indices


def _argsort(b: Builder, a: Args) -> Result:
    if "stable" in a:
        a.ignore("stable")
    indices = in_order(b, a.tensor("self"), a["dim"], a["descending"])[1]
    assert indices is not None
    return indices


def _msort(b: Builder, a: Args) -> Result:
    return in_order(b, a.tensor("self"), 0, False, False)[0]


def _topk(b: Builder, a: Args) -> Result:
    a.ignore("sorted")  # in order is one of the orders that torch may take otherwise
    x, count, dim = a.tensor("self"), a["k"], a["dim"]
    elements, indices = in_order(b, x, dim, a["largest"])
    assert indices is not None
    if not x.shape:
        return elements, indices
    return b.slice(elements, dim, 0, 1, count), b.slice(indices, dim, 0, 1, count)


def picked(
    b: Builder, x: Value, dim: int, place: int, keepdim: bool, *, indices: bool = True
) -> tuple[Value, Value]:
    """The element at a place of the sorted row and its index."""
    elements, where = in_order(b, x, dim, False, indices)
    if not x.shape:
        return elements, elements if where is None else where
    kept = [1 if d == dim % len(x.shape) else n for d, n in enumerate(x.shape)]
    shape = kept if keepdim else [n for d, n in enumerate(kept) if d != dim % len(x.shape)]
    parts = [b.view(b.slice(v, dim, place, 1, 1), shape) for v in (elements, where) if v is not None]
    return parts[0], parts[-1]


def _kth_value(b: Builder, a: Args) -> Result:
    return picked(b, a.tensor("self"), a["dim"], a["k"] - 1, a["keepdim"])


def _median(b: Builder, a: Args) -> Result:
    x, dim = a.tensor("self"), a["dim"]
    size = x.shape[dim] if x.shape else 1
    return picked(b, x, dim, (size - 1) // 2, a["keepdim"])


def _median_of_all(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    size = math.prod(x.shape)
    return picked(b, b.view(x, (size,)), 0, (size - 1) // 2, False, indices=False)[0]


def _running(op: str) -> Lowering:
    """The extreme so far and the last place that equals it."""

    def lower(b: Builder, a: Args) -> Result:
        x, dim = a.tensor("self"), a["dim"]
        if not x.shape or x.shape[dim] == 1:
            return x, Known(torch.zeros(x.shape, dtype=torch.int64))
        dim %= len(x.shape)
        numbers = b.cast(x, "uint8") if x.dtype == "bool" else x
        best = b.emit(op, numbers, dim=dim)
        places = numbers_along(len(x.shape), dim, x.shape[dim])
        reached = b.emit("where", b.emit("eq", numbers, best), places, b.known(0, "int64"))
        return b.cast(best, x.dtype), b.emit("cummax", reached, dim=dim)

    return lower


def _mode(b: Builder, a: Args) -> Result:
    """Of the most frequent elements the smallest, and where it stands last (torch names any place of it in
    rows of more than 16 elements): the first longest run of the sorted row.
    """
    x, dim, keepdim = a.tensor("self"), a["dim"], a["keepdim"]
    elements, indices = in_order(b, x, dim, False)
    assert indices is not None
    if not x.shape or x.shape[dim] == 1:
        shape = a.out.shape
        return b.view(elements, shape), b.view(indices, shape)
    rank, dim = len(x.shape), dim % len(x.shape)
    size = x.shape[dim]
    numbers = b.cast(elements, "uint8") if x.dtype == "bool" else elements
    fresh = b.emit("ne", b.slice(numbers, dim, 1, 1, size - 1), b.slice(numbers, dim, 0, 1, size - 1))
    places = b.emit("where", fresh, numbers_along(rank, dim, size, 1), b.known(0, "int64"))
    begins = b.emit("cummax", places, dim=dim)  # of the run, for all elements but the first
    runs = b.emit("sub", numbers_along(rank, dim, size, 1), begins)
    first = [1 if d == dim else n for d, n in enumerate(x.shape)]
    lengths = b.cat([Known(torch.zeros(first, dtype=torch.int64)), runs], dim)
    longest = b.emit("eq", lengths, reduced(b, "amax", lengths, dim, True))
    greatest = b.slice(numbers, dim, size - 1, 1, 1)
    found = reduced(b, "amin", b.emit("where", longest, numbers, greatest), dim, keepdim)
    place = b.emit("argmax", lengths, dim=dim, keepdim=True)
    here = b.emit("eq", numbers_along(rank, dim, size), place)
    kept = b.emit("where", here, indices, b.known(0, "int64"))
    return b.cast(found, x.dtype), reduced(b, "sum", kept, dim, keepdim)


LOWERINGS: Mapping[Any, Lowering] = {
    **dict.fromkeys((aten.sort.default, aten.sort.stable), _sort),
    **dict.fromkeys((aten.argsort.default, aten.argsort.stable), _argsort),
    aten.msort.default: _msort,
    aten.topk.default: _topk,
    aten.kthvalue.default: _kth_value,
    **dict.fromkeys((aten.median.dim, aten.nanmedian.dim), _median),
    **dict.fromkeys((aten.median.default, aten.nanmedian.default), _median_of_all),
    aten.cummax.default: _running("cummax"),
    aten.cummin.default: _running("cummin"),
    aten.mode.default: _mode,
}
