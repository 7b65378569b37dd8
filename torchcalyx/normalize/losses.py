"""Lowerings of losses that torch's decompositions write with computed indices, or not at all.

A class index picks its score by comparison with all indices: exact, and as cheap as one pass over the scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten

REDUCTIONS = ("none", "mean", "sum")


def averaged(b: Builder, loss: Value, reduction: int) -> Value:
    """A loss as it is, its mean or its sum."""
    how = REDUCTIONS[reduction]
    return loss if how == "none" else reduced(b, how, loss, None, False)


def _indices(count: int, rank: int, dim: int) -> Known:
    """0 .. count - 1 along dim of a tensor of that rank."""
    return Known(torch.arange(count).reshape([-1 if d == dim else 1 for d in range(rank)]))


def _chosen(b: Builder, mask: Value, values: Value, dim: int) -> Value:
    """The values that a mask has one of along dim; 0 where it has none."""
    return reduced(b, "sum", b.emit("where", mask, values, b.known(0, values.dtype)), dim, False)


def _class_mask(b: Builder, target: Value, count: int, dim: int) -> Value:
    """target[N, *S] against the classes: [N, C, *S] with C at dim."""
    apart = b.view(b.cast(target, "int64"), (*target.shape[:dim], 1, *target.shape[dim:]))
    return b.emit("eq", apart, _indices(count, len(target.shape) + 1, dim))


def _picked(
    b: Builder, x: Value, target: Value, weight: Value | None, ignored: int
) -> tuple[Value, Value, Value]:
    """(-x[n, target[n]] * weight[target[n]], these weights, which classes are named); all are 0 for a target
    that is ignored.
    """
    dim, rank, dtype = 0 if len(x.shape) == 1 else 1, len(x.shape), x.dtype
    classes = x.shape[dim]
    mask = _class_mask(b, target, classes, dim)
    if 0 <= ignored < classes:
        mask = b.emit("logical_and", mask, Known(_indices(classes, rank, dim).tensor != ignored))
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
        return loss, Known(torch.zeros((), dtype=getattr(torch, loss.dtype)))
    total, counted = (reduced(b, "sum", v, None, False) for v in (loss, factors))
    return (b.emit("div", total, counted) if how == "mean" else total), counted


def _nll(b: Builder, a: Args) -> Result:
    weight = None if a["weight"] is None else a.tensor("weight")
    loss, factors, _ = _picked(b, a.tensor("self"), a.tensor("target"), weight, a["ignore_index"])
    return _per_weight(b, loss, factors, a["reduction"])


def _cross_entropy(b: Builder, a: Args) -> Result:
    """Of class indices, or of probabilities; smoothed labels give every class its share."""
    x, target, smoothing = a.tensor("self"), a.tensor("target"), float(a["label_smoothing"])
    weight = None if a["weight"] is None else a.tensor("weight")
    dim, rank, dtype = 0 if len(x.shape) == 1 else 1, len(x.shape), x.dtype
    classes, reduction = x.shape[dim], a["reduction"]
    shifted = b.emit("sub", x, reduced(b, "amax", x, dim, True))
    total = reduced(b, "sum", b.emit("exp", shifted), dim, True)
    logs = b.emit("sub", shifted, b.emit("log", total))
    wide = None if weight is None else b.view(weight, [classes if d == dim else 1 for d in range(rank)])
    weighted = logs if wide is None else b.emit("mul", logs, wide)
    if target.dtype in FLOATS:
        a.ignore("ignore_index")  # torch refuses one here
        share = scaled(b, target, 1.0 - smoothing)
        if smoothing:
            share = b.emit("add", share, b.known(smoothing / classes, dtype))
        total = reduced(b, "sum", b.emit("mul", weighted, share), dim, False)
        return averaged(b, b.emit("neg", total), reduction)
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
    counts = b.view(b.emit("ge", least, b.known(0, "int64")), (rows, classes, 1))
    names = b.emit("eq", b.view(target, (rows, classes, 1)), _indices(classes, 3, 2))
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


def _hinge_embedding(b: Builder, a: Args) -> Result:
    """x where the target is 1, max(0, margin - x) where it is -1, both elsewhere."""
    x, target, dtype = b.cast(a.tensor("self"), a.out.dtype), a.tensor("target"), a.out.dtype
    zero = b.known(0, dtype)
    below = b.emit("relu", b.emit("sub", b.known(a["margin"], dtype), x))
    parts = (
        b.emit("where", b.emit("ne", target, b.known(value, target.dtype)), part, zero)
        for value, part in ((1, below), (-1, x))
    )
    return averaged(b, b.emit("add", *parts), a["reduction"])


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


LOWERINGS: Mapping[Any, Lowering] = {
    aten.nll_loss_forward.default: _nll,
    aten.nll_loss2d_forward.default: _nll,
    aten.cross_entropy_loss.default: _cross_entropy,
    aten.multilabel_margin_loss_forward.default: _multilabel_margin,
    aten.margin_ranking_loss.default: _margin_ranking,
    aten.hinge_embedding_loss.default: _hinge_embedding,
    aten.poisson_nll_loss.default: _poisson,
}
