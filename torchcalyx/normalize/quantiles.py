"""Lowerings of quantiles: elements of sorted rows and what lies between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value, torch_dtype
from torchcalyx.normalize.order import in_order
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def _quantile(b: Builder, a: Args) -> Result:
    """Elements of the sorted row at q * (size - 1), between two of them as asked."""
    x, dim, keepdim, how = a.tensor("self"), a["dim"], a["keepdim"], a["interpolation"]
    q = a["q"]
    computed = isinstance(q, Ref)
    if computed and how != "linear":
        return Reject(
            f"computed quantiles q with interpolation {how!r}: a rounding error would choose another "
            "element; take 'linear', or hold q in a buffer"
        )
    wanted = q.tensor if isinstance(q, Known) else torch.tensor(0.0 if computed else float(q))
    if dim is None:
        rank, x, dim = len(x.shape), b.view(x, (math.prod(x.shape),)), 0
        kept = [1] * rank
    else:
        dim = dim % len(x.shape) if x.shape else 0
        kept = [1 if d == dim else n for d, n in enumerate(x.shape)]
    x = x if x.shape else b.view(x, (1,))
    size = x.shape[dim]
    elements = in_order(b, x, dim, False, False)[0]
    if isinstance(q, Ref):
        return b.view(_weighted(b, elements, dim, q), a.out.shape)
    parts = []
    for value in wanted.reshape(-1).tolist():
        part = _between(b, elements, dim, value * (size - 1), how)
        if part is None:
            return Reject(f"interpolation {how!r} is unknown")
        parts.append(b.view(part, kept if keepdim else [n for d, n in enumerate(part.shape) if d != dim]))
    if not wanted.shape:
        return b.view(parts[0], a.out.shape)
    return b.cat([b.view(p, (1, *p.shape)) for p in parts], 0)


def _between(b: Builder, elements: Value, dim: int, place: float, how: str) -> Value | None:
    below, above = math.floor(place), math.ceil(place)
    if how not in ("linear", "lower", "higher", "midpoint", "nearest"):
        return None
    nearest = round(place)  # half to even, as torch
    single = {"lower": below, "higher": above, "nearest": nearest}.get(how)
    if single is not None or below == above:
        return b.slice(elements, dim, below if single is None else single, 1, 1)
    weight = 0.5 if how == "midpoint" else place - below
    low, high = (b.slice(elements, dim, i, 1, 1) for i in (below, above))
    step = b.emit("mul", b.emit("sub", high, low), b.known(weight, elements.dtype))
    return b.emit("add", low, step)


def _weighted(b: Builder, elements: Value, dim: int, q: Value) -> Value:
    """The quantiles q[K] of sorted rows as sums: an element counts by how near its place is."""
    size, rank = elements.shape[dim], len(elements.shape)
    rows = b.transpose(elements, dim, -1)
    count = math.prod(q.shape)
    place = b.emit("mul", b.view(q, (count, *[1] * rank)), b.known(size - 1, elements.dtype))
    here = Known(torch.arange(size, dtype=torch_dtype(elements.dtype)))
    distance = b.emit("abs", b.emit("sub", place, here))
    weight = b.emit("relu", b.emit("sub", b.known(1, elements.dtype), distance))
    found = reduced(b, "sum", b.emit("mul", b.view(rows, (1, *rows.shape)), weight), rank, True)
    return b.transpose(found, dim + 1, -1)


LOWERINGS: Mapping[Any, Lowering] = {
    **dict.fromkeys((aten.quantile.default, aten.quantile.scalar), _quantile),
    **dict.fromkeys((aten.nanquantile.default, aten.nanquantile.scalar), _quantile),
}
