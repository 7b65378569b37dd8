"""Modules: what is no module, state of odd kinds, hooks, wrappers, names, state that changes."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import torchcalyx
from tests.hostile.arguments import Wrapper, X
from tests.hostile.case import Case, refused, works
from tests.models import Function
from torchcalyx.errors import CaptureError

V = X[0]

NAMES = (
    "a'b",
    'a"b',
    "a'\"b",
    "a\nb",
    "ünï",
    "名前",
    "🙂",
    "a b",
    "a-b",
    "1",
    "a[0]",
    "class",
    "a\\b",
    "*/ //",
    "a\tb",
    "<script>",
    "a;b",
    "a{b}",
    "%s",
    "a\x00b",
    "a@1",
    "L['self']",
    "\ud800",
)
"""Names of modules, parameters and buffers that torch takes."""


class Named(nn.Module):
    """A submodule, a parameter and a buffer of one odd name, and two that differ in odd characters only."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        inner = nn.Linear(4, 4)
        inner.register_parameter(name, nn.Parameter(V.clone()))
        inner.register_buffer(f"{name}'", V / 2)
        inner.register_buffer(f'{name}"', V / 4)
        self.add_module(name, inner)

    def forward(self, x: torch.Tensor) -> Any:
        inner = self._modules[self.name]
        assert inner is not None
        more = inner._buffers[f"{self.name}'"], inner._buffers[f'{self.name}"']
        return torch.relu(inner(x)) * inner._parameters[self.name] + more[0] - more[1]


class Unicode(nn.Module):
    def forward(self, größe: torch.Tensor) -> torch.Tensor:
        return größe * 2


class Holding(nn.Module):
    """One buffer of any kind."""

    def __init__(self, held: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("held", held)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.held.real


class Counting(nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.c = self.a

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.c(self.b(self.a(x)))
        return y


class Empty(nn.Module):
    """No forward."""


class Printing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sys.stderr.write(f"shape {x.shape}\n")
        return x * 2


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def _hooked(kind: str) -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    part = net[0] if kind.startswith("inner") else net
    if kind.endswith("before"):
        part.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    elif kind.endswith("keywords"):
        part.register_forward_pre_hook(lambda _, args, kw: ((args[0] * 2,), kw), with_kwargs=True)
    elif kind.endswith("backward"):
        part.register_full_backward_hook(lambda *_: None)
    else:
        part.register_forward_hook(lambda _, args, out: out * 2)
    return net


def _pruned() -> nn.Module:
    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]
    return layer


def _in_place() -> nn.Module:
    layer = nn.Linear(4, 3)
    layer.compile()
    return layer


def _train(net: nn.Module) -> Any:
    return lambda: net.train()


def _calls_itself(x: torch.Tensor) -> torch.Tensor:
    return _calls_itself(x)


def _raises(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("mine")


def _linear() -> nn.Module:
    return nn.Linear(4, 3)


_PARAMETRISED: dict[str, Any] = {
    "weight-norm": lambda: parametrizations.weight_norm(_linear()),
    "weight-norm-by-hook": lambda: torch.nn.utils.weight_norm(_linear()),
    "spectral-norm": lambda: parametrizations.spectral_norm(_linear()).eval(),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(4, 4)).eval(),
    "pruned": _pruned,
    "shared": Shared,
    "data-parallel": lambda: nn.DataParallel(_linear()),
    "torch-compiled": lambda: torch.compile(_linear()),
    "torch-compiled-inside": lambda: nn.Sequential(torch.compile(_linear()), nn.ReLU()),  # type: ignore[arg-type]
    "torch-compiled-in-place": _in_place,
    "identity": nn.Identity,
    "nothing": nn.Sequential,
    "printing": Printing,
}
_HOOKS = ("after", "before", "keywords", "inner-after", "inner-before", "inner-keywords", "inner-backward")

_NO_MODULE: tuple[tuple[str, Any, str], ...] = (
    ("function", lambda: _raises, "cannot compile a function: pass an nn.Module"),
    ("class", lambda: nn.ReLU, "cannot compile the class ReLU: pass an instance of it (ReLU(...))"),
    ("none", lambda: None, "cannot compile a NoneType"),
    ("compiled-function", lambda: torch.compile(_raises), "cannot compile a function"),
    ("hardware", lambda: torchcalyx.compile(nn.ReLU()), "the module is compiled already"),
    ("scripted", lambda: torch.jit.script(_linear()), "is TorchScript, whose code is not Python any more"),
    (
        "traced",
        lambda: torch.jit.trace(_linear(), X),
        "compile the module that it was scripted or traced from",
    ),
    (
        "scripted-inside",
        lambda: nn.Sequential(torch.jit.script(_linear())),
        "module '0' of Sequential is TorchScript",
    ),
    ("no-forward", Empty, "Empty has no forward"),
    ("module-list", lambda: nn.ModuleList([nn.ReLU()]), "ModuleList has no forward"),
    ("lazy", lambda: nn.LazyLinear(3), "parameter 'weight' has no shape yet (a lazy module)"),
    ("meta", lambda: nn.Linear(4, 3, device="meta"), "parameter 'weight' has no values (device 'meta')"),
    ("sparse", lambda: Holding(V.relu().to_sparse()), "buffer 'held' is sparse (torch.sparse_coo)"),
    ("wrapper", lambda: Holding(Wrapper(V)), "buffer 'held' is a Wrapper"),
    ("counting", Counting, "buffer 'count' is mutated in forward"),
)


def _grad_inside(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        return torch.autograd.grad((y * y).sum(), y)[0]


CASES: tuple[Case, ...] = (
    *(works(f"name-{n!r}", lambda n=n: Named(n), X, made=True) for n in NAMES),
    works("unicode-argument", Unicode, V, made=True, hardware=True),
    *(works(n, m, X, made=True) for n, m in _PARAMETRISED.items()),
    *(works(f"hook-{n}", lambda n=n: _hooked(n), X, made=True) for n in _HOOKS),
    *(refused(f"is-{n}", m, X, says=t, by=CaptureError, made=True) for n, m, t in _NO_MODULE),
    *(
        refused(f"is-{n}-first", m, X, says=t, by=CaptureError, made=True, first=True)
        for n, m, t in _NO_MODULE
    ),
    works("train-linear", _train(_linear()), X, made=True, options={"train": True}),
    refused(
        "train-dropout",
        _train(nn.Dropout()),
        X,
        says="dropout in training mode",
        by=CaptureError,
        made=True,
        options={"train": True},
    ),
    refused(
        "train-batch-norm",
        _train(nn.BatchNorm1d(4)),
        X,
        says="is in training mode",
        by=CaptureError,
        made=True,
        options={"train": True},
    ),
    refused("raises", _raises, V, says="KeyError: 'mine'", by=CaptureError),
    refused("calls-itself", _calls_itself, V, says="forward calls itself without end", by=CaptureError),
    refused(
        "numpy-inside",
        lambda x: torch.from_numpy(x.numpy() * 2),
        V,
        says="forward turns a tensor into a numpy array at ",
        by=CaptureError,
    ),
    refused(
        "data-inside", lambda x: x.data * 2, V, says="takes a tensor out of torch's sight", by=CaptureError
    ),
    refused("item-inside", lambda x: x * sum(x.tolist()), V, says="aten.item at ", by=CaptureError),
    refused(
        "branch-inside",
        lambda x: x if x.sum() > 0 else -x,
        V,
        says="data-dependent control flow at ",
        by=CaptureError,
    ),
    refused(
        "random-inside", lambda x: x + torch.rand(4), V, says="random values: aten.rand", by=CaptureError
    ),
    refused(
        "nested-inside",
        lambda x: torch.nested.as_nested_tensor([x, x[:1]]).to_padded_tensor(0.0),
        X,
        says="forward makes a nested tensor at ",
        by=CaptureError,
    ),
    refused("in-place", lambda x: x.add_(1), V, says="is mutated in place by the model", by=CaptureError),
    refused("grad-inside", _grad_inside, V, says="mode: wrap_with_set_grad_enabled", by=CaptureError),
    works("own-autograd-function", lambda x: Doubling.apply(x), V, wanted=lambda: V.double() * 2),
    works("checkpoint", lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False), V),
    works("vmap", lambda x: torch.vmap(lambda r: r * r.sum())(x), X),
    works("function-module", lambda: Function(lambda x: x + 1), X, made=True),
)
