"""Lowering of embedding_bag: rows of a table, folded within each bag."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.division import divided
from torchcalyx.normalize.lookups import table_rows
from torchcalyx.normalize.places import everywhere, written
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten

_MODES = ("sum", "mean", "max")


def _embedding_bag(none: int | None) -> Lowering:
    """none: the padding index that means there is none."""
    return lambda b, a: _lower(b, a, none)


def _lower(b: Builder, a: Args, none: int | None) -> Result:
    a.ignore("scale_grad_by_freq", "sparse")
    weight, index, offsets = a.tensor("weight"), a.tensor("indices"), a.tensor("offsets")
    padding = a.get("padding_idx", none)
    kept: Value | None = None
    if padding != none:
        number = b.known(padding % weight.shape[0], "int64")
        kept = b.view(b.emit("ne", b.cast(index, "int64"), number), (index.shape[0], 1))
    rows, mode = table_rows(b, weight, index), _MODES[a["mode"]]
    if a["per_sample_weights"] is not None:
        rows = b.emit("mul", rows, b.view(a.tensor("per_sample_weights"), (index.shape[0], 1)))
    last = a["include_last_offset"]
    if isinstance(offsets, Known):
        ends = [int(i) for i in offsets.tensor]
        bags = _known_bags(b, rows, kept, mode, ends if last else [*ends, index.shape[0]])
    else:
        starts = b.slice(offsets, 0, 0, 1, offsets.shape[0] - int(last))
        bags = _computed_bags(b, rows, kept, mode, starts)
    missing = Reject("no kernel for what gradients read of the bags, only for the bags")
    return (bags, *[missing] * 3)


def _known_bags(b: Builder, rows: Value, kept: Value | None, mode: str, ends: list[int]) -> Value:
    """One fold for each bag."""
    bags: list[Value] = []
    for start, end in pairwise(ends):
        if start == end:
            bags.append(Known(torch.zeros((1, rows.shape[1]), dtype=torch_dtype(rows.dtype))))
            continue
        mask = None if kept is None else b.slice(kept, 0, start, 1, end - start)
        bags.append(_bag(b, b.slice(rows, 0, start, 1, end - start), mask, mode))
    return b.cat(bags, 0)


def _bag(b: Builder, rows: Value, kept: Value | None, mode: str) -> Value:
    """One bag [1, features]. kept: which rows count (None: all)."""
    zero = b.known(0, rows.dtype)
    if mode == "max":
        if kept is None:
            return reduced(b, "amax", rows, 0, True)
        least = b.expand(reduced(b, "amin", rows, 0, True), rows.shape)
        most = reduced(b, "amax", b.emit("where", kept, rows, least), 0, True)
        return b.emit("where", reduced(b, "any", kept, 0, True), most, zero)
    total = reduced(b, "sum", rows if kept is None else b.emit("where", kept, rows, zero), 0, True)
    if mode == "sum":
        return total
    if kept is None:
        return divided(b, total, b.known(rows.shape[0], rows.dtype), total.shape)
    number = reduced(b, "sum", b.cast(kept, "int64"), 0, True)
    return _per(b, total, number)


def _per(b: Builder, total: Value, number: Value) -> Value:
    """Means: sums by counts, a count of 0 as 1."""
    count = b.cast(b.emit("clamp", number, min=1, max=None), total.dtype)
    return b.emit("div", total, b.expand(count, total.shape))


def _computed_bags(b: Builder, rows: Value, kept: Value | None, mode: str, starts: Value) -> Value:
    """Each row is written to its bag: the last one that does not begin behind it; dropped rows to none."""
    count, features = rows.shape
    bags = starts.shape[0]
    numbers = Known(torch.arange(count).reshape(count, 1))
    begun = b.emit("ge", numbers, b.view(b.cast(starts, "int64"), (1, bags)))
    bag = b.emit("add", reduced(b, "sum", b.cast(begun, "int64"), 1, True), b.known(-1, "int64"))
    if kept is not None:
        bag = b.emit("where", kept, bag, b.known(-1, "int64"))
    empty = everywhere(b, 0, (bags, features), rows.dtype)
    if mode == "max":  # a first pass takes the zeros away from bags with rows
        return written(b, written(b, empty, bag, rows, 0, "set"), bag, rows, 0, "max")
    total = written(b, empty, bag, rows, 0, "add")
    if mode == "sum":
        return total
    ones = everywhere(b, 1, (count, 1), "int64")
    return _per(b, total, written(b, everywhere(b, 0, (bags, 1), "int64"), bag, ones, 0, "add"))


LOWERINGS: Mapping[Any, Lowering] = {
    aten.embedding_bag.default: _embedding_bag(None),
    aten.embedding_bag.padding_idx: _embedding_bag(None),
    aten._embedding_bag.default: _embedding_bag(-1),
    aten._embedding_bag_forward_only.default: _embedding_bag(-1),
}
