"""Lowerings of distances between all rows of two matrices, or of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.reduction import reduced
from torchcalyx.normalize.sampled import function

aten = torch.ops.aten

_LEAST = 2.0**-24
"""Stands in for the greatest element of a row of zeros."""


def norm_along(b: Builder, x: Value, dim: int, p: float) -> Value:
    """The p-norm along dim; ValueError for a negative order."""
    size = b.emit("abs", x)
    if p == 0:
        unequal = b.emit("ne", x, b.known(0, x.dtype))
        return reduced(b, "sum", b.cast(b.cast(unequal, "int64"), x.dtype), dim, False)
    if p == 1:
        return reduced(b, "sum", size, dim, False)
    if p == math.inf:
        return reduced(b, "amax", size, dim, False)
    if not 0 < p < math.inf:
        raise ValueError(f"a norm of order {p}: the order must not be negative")
    if p == 2:
        return b.emit("sqrt", reduced(b, "sum", b.emit("mul", x, x), dim, False))
    # The greatest element taken out first: what is left lies from 0 to 1, its power too.
    peak = b.emit("clamp", reduced(b, "amax", size, dim, True), min=_LEAST, max=None)
    powers = function(b, "power", b.emit("div", size, peak), p)
    root = function(b, "power", reduced(b, "sum", powers, dim, True), 1.0 / p)
    found = b.emit("mul", peak, root)
    return b.view(found, [n for d, n in enumerate(found.shape) if d != dim])


def _cdist(b: Builder, a: Args) -> Result:
    """Of every pair of rows. Differences first: the product form of torch cancels."""
    a.ignore("compute_mode")  # the same values
    x, y = (b.cast(a.tensor(n), a.out.dtype) for n in ("x1", "x2"))
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (b.expand(v, (*batch, *v.shape[-2:])) for v in (x, y))
    rows, columns, size = x.shape[-2], y.shape[-2], x.shape[-1]
    left = b.view(x, (*batch, rows, 1, size))
    right = b.view(y, (*batch, 1, columns, size))
    return norm_along(b, b.emit("sub", left, right), len(batch) + 2, float(a.get("p", 2.0)))


def _pdist(b: Builder, a: Args) -> Result:
    """Of every pair of different rows of one matrix, the first row's pairs first."""
    x, p = a.tensor("self"), float(a["p"])
    rows = x.shape[0]
    if rows < 2:
        return Known(torch.zeros(a.out.shape, dtype=torch_dtype(x.dtype)))
    if rows > 64:
        return Reject(f"pdist of {rows} rows; at most 64 become slices, torch.cdist takes any number")
    parts = []
    for row in range(rows - 1):
        later = b.slice(x, 0, row + 1, 1, rows - 1 - row)
        parts.append(b.emit("sub", b.slice(x, 0, row, 1, 1), later))
    return norm_along(b, b.cat(parts, 0), 1, p)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.cdist.default: _cdist,
    aten._cdist_forward.default: _cdist,
    aten._euclidean_dist.default: _cdist,
    aten.pdist.default: _pdist,
    aten._pdist_forward.default: _pdist,
}
