"""Lowerings of matrix products: "linear" when the right operand is a known matrix, else "matmul"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def product(b: Builder, x: Value, y: Value) -> Value:
    """torch.matmul(x, y) for any ranks >= 1."""
    if isinstance(y, Known) and len(y.shape) <= 2:
        if len(y.shape) == 2:
            return b.emit("linear", x, b.transpose(y))
        return b.view(b.emit("linear", x, b.view(y, (1, *y.shape))), x.shape[:-1])
    left = b.view(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = b.view(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    result: Value = b.emit("matmul", left, right)
    shape = list(result.shape)
    if len(y.shape) == 1:
        del shape[-1]
    if len(x.shape) == 1:
        del shape[-1 if len(y.shape) == 1 else -2]
    return b.view(result, shape)


def _product(left: str, right: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return product(b, a.tensor(left), a.tensor(right))

    return lower


def _linear(b: Builder, a: Args) -> Result:
    x, weight = a.tensor("input"), a.tensor("weight")
    bias = a.tensor("bias") if a["bias"] is not None else None
    return affine(b, x, weight, bias)


def affine(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """x @ weight.T + bias; the bias may have any shape that broadcasts."""
    if not (isinstance(weight, Known) and len(weight.shape) == 2):
        result = product(b, x, b.transpose(weight) if len(weight.shape) == 2 else weight)
        return result if bias is None else b.emit("add", result, bias)
    size = weight.shape[0]
    if bias is None:
        return b.emit("linear", x, weight)
    if (
        isinstance(bias, Known)
        and bias.tensor.numel() in (1, size)
        and bias.shape[-1:] in ((), (1,), (size,))
    ):
        flat = bias.to(bias.tensor.reshape(-1).expand(size))
        return b.emit("linear", x, weight, flat)
    return b.emit("add", b.emit("linear", x, weight), bias)


def _added_product(left: str, right: str) -> Lowering:
    """beta * self + alpha * left @ right, for addmm, addmv, addbmm and baddbmm."""

    def lower(b: Builder, a: Args) -> Result:
        x, y = a.tensor(left), a.tensor(right)
        alpha, beta = a["alpha"], a["beta"]
        addend = scaled(b, a.tensor("self"), beta) if beta != 0 else None
        if beta == 0:
            a.ignore("self")
        if isinstance(y, Known) and len(y.shape) == 2:
            return affine(b, x, scaled(b, b.transpose(y), alpha), addend)
        result = product(b, x, y)
        if len(a.out.shape) < len(result.shape):  # addbmm adds the products of the batch
            result = reduced(b, "sum", result, 0, False)
        result = scaled(b, result, alpha)
        return result if addend is None else b.emit("add", addend, result)

    return lower


LOWERINGS: Mapping[Any, Lowering] = {
    aten.linear.default: _linear,
    aten.matmul.default: _product("self", "other"),
    aten.mm.default: _product("self", "mat2"),
    aten.bmm.default: _product("self", "mat2"),
    aten.mv.default: _product("self", "vec"),
    aten.dot.default: _product("self", "tensor"),
    aten.addmm.default: _added_product("mat1", "mat2"),
    aten.addmv.default: _added_product("mat", "vec"),
    aten.addbmm.default: _added_product("batch1", "batch2"),
    aten.baddbmm.default: _added_product("batch1", "batch2"),
}
