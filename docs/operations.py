"""Which PyTorch operation becomes which kernel, found by compiling one small module for each.

    python docs/operations.py

Prints the table of README.md. Nothing in it is written by hand but the calls below.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import torchcalyx
from torchcalyx.capture import capture
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.normalform import OPS
from torchcalyx.normalize import normalize

Call = tuple[Callable[..., Any], tuple[Tensor, ...]]

X = torch.linspace(-1, 1, 32).reshape(4, 8)  # rows of whole words: 8 lanes with the default options
Y = X / 2
W, BIAS = torch.linspace(-1, 1, 40).reshape(5, 8), torch.linspace(-1, 1, 5)
N, B, IMAGE = torch.arange(32).reshape(4, 8), X > 0, torch.linspace(-1, 1, 72).reshape(1, 2, 6, 6)
PLACES, GRID = torch.arange(12).reshape(4, 3) * 3 % 4, torch.linspace(-0.9, 0.7, 16).reshape(1, 2, 4, 2)
A3, B3 = X.reshape(2, 2, 8), Y.reshape(2, 8, 2)


def _known(layer: nn.Module) -> nn.Module:
    """A layer whose parameters are the same in every run: formats, and kernels with them, follow values."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().reshape(parameter.shape))
    return layer


_WRITTEN: Mapping[str, Call] = {
    "linear": (lambda x: F.linear(x, W, BIAS), (X[:1],)),
    "addmm": (lambda x: torch.addmm(BIAS, x, W.t()), (X[:1],)),
    "matmul": (lambda x, y: x @ y.t(), (X, Y)),
    "mm": (lambda x, y: torch.mm(x, y.t()), (X, Y)),
    "bmm": (torch.bmm, (A3, B3)),
    "mv": (lambda x, y: torch.mv(x, y[0]), (X, Y)),
    "dot": (lambda x, y: torch.dot(x[0], y[0]), (X, Y)),
    "einsum": (lambda x, y: torch.einsum("ik,jk->ij", x, y), (X, Y)),
    "add": (lambda x, y: x + y, (X, Y)),
    "sub": (lambda x, y: x - y, (X, Y)),
    "mul": (lambda x, y: x * y, (X, Y)),
    "div by a constant": (lambda x: x / 3, (X,)),
    "floor_divide by a constant": (lambda x: x // 3, (N,)),
    "remainder by a constant": (lambda x: x % 3, (N,)),
    "neg": (torch.neg, (X,)),
    "abs": (torch.abs, (X,)),
    "sign": (torch.sign, (X,)),
    "square": (torch.square, (X,)),
    "pow of a whole number": (lambda x: x**3, (X,)),
    "relu": (torch.relu, (X,)),
    "relu6": (F.relu6, (X,)),
    "hardtanh": (F.hardtanh, (X,)),
    "leaky_relu": (F.leaky_relu, (X,)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.2])), (X,)),
    "threshold": (lambda x: F.threshold(x, 0.5, 0.0), (X,)),
    "hardswish": (F.hardswish, (X,)),
    "hardsigmoid": (F.hardsigmoid, (X,)),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (X,)),
    "minimum": (torch.minimum, (X, Y)),
    "maximum": (torch.maximum, (X, Y)),
    "eq": (torch.eq, (X, Y)),
    "ne": (torch.ne, (X, Y)),
    "lt": (torch.lt, (X, Y)),
    "le": (torch.le, (X, Y)),
    "gt": (torch.gt, (X, Y)),
    "ge": (torch.ge, (X, Y)),
    "logical_and": (torch.logical_and, (B, ~B)),
    "logical_or": (torch.logical_or, (B, ~B)),
    "logical_xor": (torch.logical_xor, (B, ~B)),
    "logical_not": (torch.logical_not, (B,)),
    "bitwise_and": (torch.bitwise_and, (N, N + 1)),
    "bitwise_or": (torch.bitwise_or, (N, N + 1)),
    "bitwise_xor": (torch.bitwise_xor, (N, N + 1)),
    "bitwise_not": (torch.bitwise_not, (N,)),
    "where": (torch.where, (B, X, Y)),
    "masked_fill": (lambda x, m: x.masked_fill(m, 0.5), (X, B)),
    "to": (lambda x: x.to(torch.int32), (X,)),
    "batch_norm": (nn.BatchNorm1d(8).eval(), (X,)),
    "sum": (lambda x: x.sum(1), (X,)),
    "mean": (lambda x: x.mean(1), (X,)),
    "var": (lambda x: x.var(1), (X,)),
    "amax": (lambda x: x.amax(1), (X,)),
    "amin": (lambda x: x.amin(1), (X,)),
    "any": (lambda x: x.any(1), (B,)),
    "all": (lambda x: x.all(1), (B,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "argmax": (lambda x: x.argmax(1), (X,)),
    "argmin": (lambda x: x.argmin(1), (X,)),
    "cumsum": (lambda x: x.cumsum(1), (X,)),
    "view": (lambda x: x.view(8, 4), (X,)),
    "reshape": (lambda x: x.reshape(2, 16), (X,)),
    "flatten": (torch.flatten, (X,)),
    "squeeze": (lambda x: x.squeeze(0), (X[:1],)),
    "unsqueeze": (lambda x: x.unsqueeze(0), (X,)),
    "permute": (lambda x: x.permute(1, 0), (X,)),
    "transpose": (lambda x: x.transpose(0, 1), (X,)),
    "slice": (lambda x: x[1:, ::2], (X,)),
    "select": (lambda x: x[1], (X,)),
    "split": (lambda x: x.split(3, 1), (X,)),
    "chunk": (lambda x: x.chunk(2), (X,)),
    "unbind": (lambda x: x.unbind(), (X,)),
    "expand": (lambda x: x.expand(3, 4, 8), (X,)),
    "flip": (lambda x: x.flip(1), (X,)),
    "repeat": (lambda x: x.repeat(2, 1), (X,)),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False), (X,)),
    "clone": (torch.clone, (X,)),
    "cat": (lambda x, y: torch.cat([x, y]), (X, Y)),
    "stack": (lambda x, y: torch.stack([x, y], 1), (X, Y)),
    "pad": (lambda x: F.pad(x, (1, 2)), (X,)),
    "roll": (lambda x: x.roll(1, 1), (X,)),
    "div": (lambda x, y: x / (y + 3), (X, Y)),
    "softmax": (lambda x: x.softmax(1), (X,)),
    "layer_norm": (lambda x: F.layer_norm(x, (8,)), (X,)),
    "rms_norm": (lambda x: F.rms_norm(x, (8,)), (X,)),
    "group_norm": (lambda x: F.group_norm(x, 2), (IMAGE,)),
    "embedding": (lambda x: F.embedding(x, W), (PLACES,)),
    "gather": (lambda x, i: x.gather(1, i), (X, PLACES)),
    "take": (torch.take, (X, PLACES)),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (X, PLACES)),
    "index_select": (lambda x, i: x.index_select(1, i[0]), (X, PLACES)),
    "index": (lambda x, i: x[i], (X, PLACES - 1)),
    "one_hot": (lambda i: F.one_hot(i, 5), (PLACES,)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, GRID)),
    "embedding_bag": (lambda i: F.embedding_bag(i, W, mode="sum"), (PLACES,)),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), (X, PLACES[:, :1], Y)),
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y), (X, PLACES, Y)),
    "scatter_reduce": (lambda x, i, y: x.scatter_reduce(1, i, y, "amax"), (X, PLACES, Y)),
    "index_add": (lambda x, i, y: x.index_add(0, i[0], y[:3]), (X, PLACES, Y)),
    "index_copy": (lambda x, i, y: x.index_copy(1, i[0, :1], y[:, :1]), (X, PLACES, Y)),
    "index_put": (lambda x, i, y: x.index_put((i[0],), y[:3], accumulate=True), (X, PLACES, Y)),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m, y), (X, B, Y)),
    "max_unpool2d": (lambda x, i: F.max_unpool2d(x, i, 2), (IMAGE[:, :1, :1, :3], PLACES[:1, None, None])),
    "lstm": (_known(nn.LSTM(8, 4)), (X,)),
    "gru": (_known(nn.GRU(8, 4)), (X,)),
    "conv1d": (lambda x: F.conv1d(x[0], torch.ones(3, 2, 3)), (IMAGE[:, :, 0],)),
    "conv2d": (lambda x: F.conv2d(x, torch.ones(3, 2, 3, 3)), (IMAGE,)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, torch.ones(2, 3, 3, 3)), (IMAGE,)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2.0), (IMAGE,)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (IMAGE,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (IMAGE,)),
    "scaled_dot_product_attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (A3,)),
    "sort": (lambda x: x.sort(1), (X,)),
    "argsort": (lambda x: x.argsort(1), (X,)),
    "topk": (lambda x: x.topk(2, 1), (X,)),
    "median": (lambda x: x.median(1), (X,)),
    "quantile": (lambda x: x.quantile(0.3, 1), (X,)),
    "mode": (lambda x: x.mode(1), (X,)),
    "cummax": (lambda x: x.cummax(1), (X,)),
    "cummin": (lambda x: x.cummin(1), (X,)),
    "searchsorted": (lambda x: torch.searchsorted(torch.arange(4.0), x), (X,)),
    "isin": (lambda x: torch.isin(x, torch.arange(4.0)), (X,)),
}


def _functions() -> dict[str, Call]:
    """What else the normal form has as a function of one operand."""
    found: dict[str, Call] = {}
    for name in OPS:
        function = getattr(torch, name, None) or getattr(F, name, None)
        if name not in _WRITTEN and function is not None:
            with warnings.catch_warnings(), suppress(TypeError, ValueError, RuntimeError):
                warnings.simplefilter("ignore")
                function(X + 2)  # fails when it needs more than one operand
                found[name] = (function, (X + 2,))
    return found


CALLS: Mapping[str, Call] = {**_WRITTEN, **_functions()}
"""A call of each operation on its own."""

ADDRESS = "none: only addresses change"
REFUSED = "not yet: refused with an error"
LEADING = ("take", "put", "sort")
"""Kernels that stand alone in the table: what is in front of them and behind differs from call to call."""


class Single(nn.Module):
    """One call as a module."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Tensor) -> Any:
        """The call on the inputs."""
        return self.call(*inputs)


@dataclass(frozen=True)
class Outcome:
    """What became of a call: operations of its normal form, its kernels as the table shows them, and the
    greatest difference of the software model from PyTorch.
    """

    operations: frozenset[str]
    kernels: str
    error: float = 0.0


@cache
def outcomes() -> Mapping[str, Outcome]:
    """Every call compiled on its own."""
    return {name: outcome(Single(call).eval(), inputs) for name, (call, inputs) in CALLS.items()}


def outcome(module: nn.Module, inputs: tuple[Tensor, ...]) -> Outcome:
    """One module compiled."""
    try:
        hw = torchcalyx.compile(module, inputs)
    except UnsupportedOpError:
        try:
            graph = normalize(capture(module, inputs))
        except UnsupportedOpError:
            return Outcome(frozenset(), REFUSED)
        return Outcome(frozenset(node.op for node in graph.nodes), REFUSED)
    families = dict.fromkeys(call.spec.family for call in hw.stages.selection.calls)
    shown = [family for family in families if family in LEADING] or list(families)
    kernels = ", ".join(f"`{family}`" for family in shown) or ADDRESS
    with torch.no_grad():
        pairs = zip(tree_leaves(module(*inputs)), tree_leaves(hw.emulate(*inputs)), strict=True)
    error = max((wanted.double() - found.double()).abs().max().item() for wanted, found in pairs)
    return Outcome(frozenset(node.op for node in hw.stages.graph.nodes), kernels, error)


def table() -> str:
    """The operations by kernel, in Markdown; operations without a kernel come last."""
    rows: dict[str, list[str]] = {}
    for name, found in outcomes().items():
        rows.setdefault(found.kernels, []).append(name)
    refused = rows.pop(REFUSED, None)
    ordered = [*rows.items(), *([(REFUSED, refused)] if refused else [])]
    lines = ["| Operations of PyTorch | Kernel |", "|---|---|"]
    return "\n".join([*lines, *(f"| {', '.join(names)} | {kernel} |" for kernel, names in ordered)])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
