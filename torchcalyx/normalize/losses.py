"""Lowerings of losses that torch's decompositions write with computed indices, or not at all.

A class index picks its score by comparison with all indices: exact, and as cheap as one pass over the scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.places import numbers_along, on_axis
from torchcalyx.normalize.reduction import REDUCTIONS, averaged, reduced

aten = torch.ops.aten


def _chosen(b: Builder, mask: Value, values: Value, dim: int) -> Value:
    """The values that a mask has one of along dim; 0 where it has none."""
    return reduced(b, "sum", b.emit("where", mask, values, b.known(0, values.dtype)), dim, False)


def _class_mask(b: Builder, target: Value, count: int, dim: int) -> Value:
    """target[N, *S] against the classes: [N, C, *S] with C at dim. A call with another number is an error."""
    place = on_axis(b, target, count, wrap=False)
    apart = b.view(b.cast(place, "int64"), (*target.shape[:dim], 1, *target.shape[dim:]))
    return b.emit("eq", apart, numbers_along(len(target.shape) + 1, dim, count))


def _picked(
    b: Builder, x: Value, target: Value, weight: Value | None, ignored: int
) -> tuple[Value, Value, Value]:
    """(-x[n, target[n]] * weight[target[n]], these weights, which classes are named); all are 0 for a target
    that is ignored.
    """
    dim, rank, dtype = 0 if len(x.shape) == 1 else 1, len(x.shape), x.dtype
    classes = x.shape[dim]
    target = b.cast(target, "int64")
    if isinstance(target, Known):
        place: Value = target.to(torch.where(target.tensor == ignored, 0, target.tensor))
        counts: Value = target.to(target.tensor != ignored)
    else:
        counts = b.emit("ne", target, b.known(ignored, "int64"))
        place = b.emit("where", counts, target, b.known(0, "int64"))
    apart = b.view(counts, (*counts.shape[:dim], 1, *counts.shape[dim:]))
    mask: Value = b.emit("logical_and", _class_mask(b, place, classes, dim), apart)
    if weight is None:
        factors = b.cast(b.cast(reduced(b, "any", mask, dim, False), "int64"), dtype)
    else:
        wide = b.view(weight, [classes if d == dim else 1 for d in range(rank)])
        factors = reduced(b, "sum", b.emit("where", mask, wide, b.known(0, dtype)), dim, False)
        x = b.emit("mul", x, wide)
    return b.emit("neg", _chosen(b, mask, x, dim)), factors, mask


def _per_weight(b: Builder, loss: Value, factors: Value, reduction: int) -> tuple[Value, Value]:
    """A loss reduced, its mean one for each unit of weight; and the sum of the weights."""
    how = REDUCTIONS[reduction]
    if how == "none":
        return loss, Known(torch.zeros((), dtype=torch_dtype(loss.dtype)))
    total, counted = (reduced(b, "sum", v, None, False) for v in (loss, factors))
    return (b.emit("div", total, counted) if how == "mean" else total), counted


def _nll(b: Builder, a: Args) -> Result:
    weight = None if a["weight"] is None else a.tensor("weight")
    if isinstance(a.tensor("target"), Known):
        return Reject("known class indices become slices")
    loss, factors, _ = _picked(b, a.tensor("self"), a.tensor("target"), weight, a["ignore_index"])
    return _per_weight(b, loss, factors, a["reduction"])


def _cross_entropy(b: Builder, a: Args) -> Result:
    """Of class indices; smoothed labels give every class its share. Torch decomposes that of probabilities,
    and known indices become slices.
    """
    x, target, smoothing = a.tensor("self"), a.tensor("target"), float(a["label_smoothing"])
    if target.dtype in FLOATS or (isinstance(target, Known) and not smoothing):
        return Reject("no computed class indices")
    weight = None if a["weight"] is None else a.tensor("weight")
    dim, rank, dtype = 0 if len(x.shape) == 1 else 1, len(x.shape), x.dtype
    classes, reduction = x.shape[dim], a["reduction"]
    shifted = b.emit("sub", x, reduced(b, "amax", x, dim, True))
    total = reduced(b, "sum", b.emit("exp", shifted), dim, True)
    logs = b.emit("sub", shifted, b.emit("log", total))
    wide = None if weight is None else b.view(weight, [classes if d == dim else 1 for d in range(rank)])
    weighted = logs if wide is None else b.emit("mul", logs, wide)
    loss, factors, mask = _picked(b, logs, target, weight, a["ignore_index"])
    if smoothing:
        every = b.emit("neg", reduced(b, "sum", weighted, dim, False))
        named = reduced(b, "any", mask, dim, False)
        rest = b.emit("where", named, every, b.known(0, dtype))
        loss = b.emit("add", scaled(b, loss, 1.0 - smoothing), scaled(b, rest, smoothing / classes))
    return _per_weight(b, loss, factors, reduction)[0]


def _multilabel_margin(b: Builder, a: Args) -> Result:
    """sum over labels j before the first -1 and classes i that are none of max(0, 1 - x[j] + x[i])."""
    x, target = a.tensor("self"), b.cast(a.tensor("target"), "int64")
    shape, dtype = x.shape, x.dtype
    rows, classes = (1, math.prod(shape)) if len(shape) < 2 else shape
    x, target = b.view(x, (rows, classes)), b.view(target, (rows, classes))
    least = b.emit("cummin", target, dim=1) if classes > 1 else target
    valid = b.emit("ge", least, b.known(0, "int64"))
    target = on_axis(b, b.emit("where", valid, target, b.known(0, "int64")), classes, wrap=False)
    target, counts = b.cast(target, "int64"), b.view(valid, (rows, classes, 1))
    names = b.emit("eq", b.view(target, (rows, classes, 1)), numbers_along(3, 2, classes))
    names = b.emit("logical_and", names, counts)  # [row, label, class]
    is_target = reduced(b, "any", names, 1, False)
    flat = b.view(x, (rows, 1, classes))
    right = b.view(_chosen(b, names, flat, 2), (rows, classes, 1))
    over = b.emit("relu", b.emit("add", b.emit("sub", flat, right), b.known(1, dtype)))
    others = b.view(b.emit("logical_not", is_target), (rows, 1, classes))
    zero = b.known(0, dtype)
    over = b.emit("where", b.emit("logical_and", others, counts), over, zero)
    loss = b.emit("mul", reduced(b, "sum", over, (1, 2), False), b.known(1.0 / classes, dtype))
    return b.view(averaged(b, loss, a["reduction"]), a.out.shape), b.view(b.cast(is_target, dtype), shape)


def _margin_ranking(b: Builder, a: Args) -> Result:
    x, y, target = (b.cast(a.tensor(n), a.out.dtype) for n in ("input1", "input2", "target"))
    apart = b.emit("mul", target, b.emit("sub", y, x))
    return averaged(
        b, b.emit("relu", b.emit("add", apart, b.known(a["margin"], a.out.dtype))), a["reduction"]
    )


def _poisson(b: Builder, a: Args) -> Result:
    """exp(x) - target * x, or x - target * ln(x + eps); with `full` Stirling's ln(target!) beside it."""
    x, target, dtype = (*(b.cast(a.tensor(n), a.out.dtype) for n in ("input", "target")), a.out.dtype)
    if a["log_input"]:
        a.ignore("eps")
        loss = b.emit("sub", b.emit("exp", x), b.emit("mul", target, x))
    else:
        logarithm = b.emit("log", b.emit("add", x, b.known(a["eps"], dtype)))
        loss = b.emit("sub", x, b.emit("mul", target, logarithm))
    if a["full"]:
        least = b.emit("clamp", target, min=1.0, max=None)  # where it counts, the target is above 1
        logarithm = b.emit("log", least)
        more = b.emit("sub", b.emit("mul", least, logarithm), least)
        half = b.emit(
            "mul", b.emit("add", logarithm, b.known(math.log(2 * math.pi), dtype)), b.known(0.5, dtype)
        )
        counts = b.emit("gt", target, b.known(1, dtype))
        loss = b.emit("add", loss, b.emit("where", counts, b.emit("add", more, half), b.known(0, dtype)))
    return averaged(b, loss, a["reduction"])


def _cosine_embedding(b: Builder, a: Args) -> Result:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, 0 elsewhere."""
    target, dtype = a.tensor("target"), a.out.dtype
    x, y = (b.cast(a.tensor(name), dtype) for name in ("input1", "input2"))
    dim = len(np.broadcast_shapes(x.shape, y.shape)) - 1
    units = []
    for v in (x, y):  # rows of length 1 first, with small products
        power = reduced(b, "sum", b.emit("mul", v, v), len(v.shape) - 1, True)
        units.append(b.emit("div", v, b.emit("sqrt", b.emit("add", power, b.known(1e-12, dtype)))))
    cosine = reduced(b, "sum", b.emit("mul", *units), dim, False)
    above = b.emit("relu", b.emit("sub", cosine, b.known(a["margin"], dtype)))
    zero, one = b.known(0, dtype), b.known(1, dtype)
    parts = (
        b.emit("where", b.emit("eq", target, b.known(value, target.dtype)), part, zero)
        for value, part in ((1, b.emit("sub", one, cosine)), (-1, above))
    )
    return averaged(b, b.emit("add", *parts), a["reduction"])


LOWERINGS: Mapping[Any, Lowering] = {
    aten.nll_loss_forward.default: _nll,
    aten.nll_loss2d_forward.default: _nll,
    aten.cross_entropy_loss.default: _cross_entropy,
    aten.multilabel_margin_loss_forward.default: _multilabel_margin,
    aten.margin_ranking_loss.default: _margin_ranking,
    aten.poisson_nll_loss.default: _poisson,
    aten.cosine_embedding_loss.default: _cosine_embedding,
}
