"""Lowerings of reductions: dims become sorted non-negative tuples, "over all" names every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.division import divided

aten = torch.ops.aten

REDUCTIONS = ("none", "mean", "sum")
"""Of losses, by torch's number."""

_ON_BOOL = {"amax": "any", "amin": "all"}
_OF_BOOL = {"sum": "any", "prod": "all"}  # with dtype=torch.bool


def _dims(dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if isinstance(dims, int):
        dims = (dims,)
    return tuple(sorted({d % rank for d in dims})) if dims else tuple(range(rank))


def reduced(b: Builder, op: str, x: Value, dims: int | Sequence[int] | None, keepdim: bool) -> Value:
    """x reduced over dims (None or empty: all of them)."""
    if not x.shape:
        return x
    axes = _dims(dims, len(x.shape))
    if all(x.shape[d] == 1 for d in axes):
        return b.view(x, [n for i, n in enumerate(x.shape) if keepdim or i not in axes])
    return b.emit(_ON_BOOL.get(op, op) if x.dtype == "bool" else op, x, dims=axes, keepdim=keepdim)


def _dims_and_keepdim(a: Args) -> tuple[int | Sequence[int] | None, bool]:
    return (a.get("dim", None)), (a.get("keepdim", False))


def _reduce(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        if "dtype" in a:
            a.ignore("dtype")  # it is the dtype of the result, to which the operand is cast
        x = b.cast(a.tensor("self"), a.out.dtype)
        return reduced(b, _OF_BOOL.get(op, op) if x.dtype == "bool" else op, x, *_dims_and_keepdim(a))

    return lower


def _truth(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        truth = reduced(b, op, b.cast(a.tensor("self"), "bool"), *_dims_and_keepdim(a))
        return b.cast(truth, a.out.dtype)

    return lower


def _picked(b: Builder, op: str, x: Value, dim: int | None, keepdim: bool, shape: tuple[int, ...]) -> Value:
    if x.shape and dim is not None and x.shape[dim] > 1:
        return b.emit(op, x, dim=dim % len(x.shape), keepdim=keepdim)
    flat = b.view(x, (-1,) if isinstance(x, Known) else (_size(x),))
    if dim is not None or flat.shape == (1,):
        return Known(torch.zeros(shape, dtype=torch.int64))
    return b.view(b.emit(op, flat, dim=0, keepdim=False), shape)


def _size(x: Value) -> int:
    size = 1
    for n in x.shape:
        size *= n
    return size


def _arg(op: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return _picked(b, op, a.tensor("self"), a["dim"], a["keepdim"], a.out.shape)

    return lower


def _with_index(op: str, arg: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, dim, keepdim = a.tensor("self"), a["dim"], a["keepdim"]
        best = reduced(b, op, x, dim, keepdim)
        x = b.cast(x, "uint8") if x.dtype == "bool" else x
        return best, _picked(b, arg, x, dim, keepdim, a.out.shape)

    return lower


def _aminmax(b: Builder, a: Args) -> Result:
    x, dim, keepdim = a.tensor("self"), a["dim"], a["keepdim"]
    return reduced(b, "amin", x, dim, keepdim), reduced(b, "amax", x, dim, keepdim)


def _variance(with_mean: bool) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, (dims, keepdim) = a.tensor("self"), _dims_and_keepdim(a)
        mean = reduced(b, "mean", x, dims, True)
        centred = b.emit("sub", x, mean)
        total = reduced(b, "sum", b.emit("mul", centred, centred), dims, keepdim)
        count = _size(x) // _size(mean) - _correction(a)
        if count <= 0:
            return Reject("a variance of too few values is not a number")
        variance = divided(b, total, b.known(count, x.dtype), a.out.shape)
        return (variance, b.view(mean, a.out.shape)) if with_mean else variance

    return lower


def _log_of_sum(b: Builder, a: Args) -> Result:
    """ln(sum(exp(x))), the greatest element taken out first."""
    x, dims = b.cast(a.tensor("self"), a.out.dtype), a["dim"]
    a.ignore("keepdim")  # the result's shape holds it
    if not x.shape:
        return x
    peak = reduced(b, "amax", x, dims, True)
    total = reduced(b, "sum", b.emit("exp", b.emit("sub", x, peak)), dims, True)
    return b.view(b.emit("add", b.emit("log", total), peak), a.out.shape)


def _correction(a: Args) -> float:
    if "unbiased" in a:
        return 1 if a["unbiased"] else 0
    correction: float | None = a["correction"]
    return 1 if correction is None else correction


def _cumsum(b: Builder, a: Args) -> Result:
    a.ignore("dtype")
    x, dim = b.cast(a.tensor("self"), a.out.dtype), a["dim"]
    if not x.shape or x.shape[dim] == 1:
        return x
    return b.emit("cumsum", x, dim=dim % len(x.shape))


def _difference(b: Builder, a: Args) -> Result:
    """Neighbours subtracted n times."""
    x, dim = a.tensor("self"), a["dim"]
    more = [a.tensor(name) if a[name] is not None else None for name in ("prepend", "append")]
    if a["n"]:
        parts = [b.cast(v, a.out.dtype) for v in (more[0], x, more[1]) if v is not None]
        x = b.cat(parts, dim)
    for _ in range(a["n"]):
        size = x.shape[dim] - 1
        op = "logical_xor" if x.dtype == "bool" else "sub"
        x = b.emit(op, b.slice(x, dim, 1, 1, size), b.slice(x, dim, 0, 1, size))
    return x


def averaged(b: Builder, loss: Value, reduction: int) -> Value:
    """A loss as it is, its mean or its sum, by torch's number of the reduction."""
    how = REDUCTIONS[reduction]
    return loss if how == "none" else reduced(b, how, loss, None, False)


LOWERINGS: Mapping[Any, Lowering] = {
    **{t: _reduce("sum") for t in (aten.sum.default, aten.sum.dim_IntList)},
    **{t: _reduce("mean") for t in (aten.mean.default, aten.mean.dim)},
    **{t: _reduce("amax") for t in (aten.amax.default, aten.max.default)},
    **{t: _reduce("amin") for t in (aten.amin.default, aten.min.default)},
    **{t: _reduce("prod") for t in (aten.prod.default, aten.prod.dim_int)},
    **{t: _truth("any") for t in (aten.any.default, aten.any.dim, aten.any.dims)},
    **{t: _truth("all") for t in (aten.all.default, aten.all.dim, aten.all.dims)},
    aten.argmax.default: _arg("argmax"),
    aten.argmin.default: _arg("argmin"),
    aten.max.dim: _with_index("amax", "argmax"),
    aten.min.dim: _with_index("amin", "argmin"),
    aten.aminmax.default: _aminmax,
    **{t: _variance(False) for t in (aten.var.default, aten.var.dim, aten.var.correction)},
    **{t: _variance(True) for t in (aten.var_mean.default, aten.var_mean.dim, aten.var_mean.correction)},
    aten.logsumexp.default: _log_of_sum,
    aten.cumsum.default: _cumsum,
    aten.diff.default: _difference,
}
