"""Arguments: kinds of tensors that hardware cannot take, Python values, keywords, strides, sizes of zero."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from tests.hostile.case import Case, refused, works
from torchcalyx.errors import CaptureError, InputError, UnsupportedOpError

X = torch.tensor([[-7.5, 3.25, 0.5, 9.0], [1.5, -0.25, 6.0, -2.0], [8.0, 0.125, -4.0, 5.5]])
V = X[0]


class Plain(torch.Tensor):
    """A subclass without arithmetic of its own."""


class Wrapper(torch.Tensor):
    """A subclass that computes by itself."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bare = pytree.tree_map_only(Wrapper, lambda t: t.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Wrapper, func(*bare[0], **bare[1]))


class KeywordOnly(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return x * scale


class KeywordDefault(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor | None = None, k: float = 2.0) -> torch.Tensor:
        return x * k if scale is None else x * scale * k


class AnyKeywords(nn.Module):
    def forward(self, x: torch.Tensor, **more: torch.Tensor) -> torch.Tensor:
        return x * more["a"] + more["b"]


class AnyNumber(nn.Module):
    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        return sum(xs)  # type: ignore[return-value]


class EveryKind(nn.Module):
    def forward(self, a: Any, /, b: Any, *more: Any, c: Any, **rest: Any) -> torch.Tensor:
        result: torch.Tensor = a + b * 2 + (more[0] if more else 0) + c * 3 + sum(rest.values())
        return result


class Member(enum.Enum):
    A = 1


def _quietly(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """A tensor of a kind that torch calls a prototype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def _nested(layout: torch.layout = torch.strided) -> torch.Tensor:
    return _quietly(lambda: torch.nested.nested_tensor([X[:1], X[1:]], layout=layout))


def _linear() -> nn.Module:
    return nn.Linear(4, 2)


_TENSORS: tuple[tuple[str, Any, str], ...] = (
    ("nested", _nested(), "is a nested tensor: its rows have sizes of their own"),
    ("jagged", _nested(torch.jagged), "is a nested tensor: its rows have sizes of their own"),
    ("sparse", X.relu().to_sparse(), "is sparse (torch.sparse_coo): hardware holds every element; pass "),
    ("csr", _quietly(lambda: X.relu().to_sparse_csr()), "is sparse (torch.sparse_csr)"),
    ("meta", X.to("meta"), "has no values (device 'meta')"),
    ("wrapper", Wrapper(X), "is a Wrapper, a kind of tensor with rules of its own"),
    ("array", X.numpy(), "is of type ndarray: pass a tensor (torch.from_numpy(...))"),
    ("object", object(), "is of type object: pass tensors, numbers, text, None, or tuples"),
)

CASES: tuple[Case, ...] = (
    *(
        refused(f"{n}-compiled", _linear, v, says=f"argument input {t}", by=InputError, made=True)
        for n, v, t in _TENSORS
    ),
    *(
        refused(f"{n}-first", _linear, v, says=f"argument input {t}", by=InputError, made=True, first=True)
        for n, v, t in _TENSORS
    ),
    *(
        refused(
            f"{n}-called", _linear, X, says="argument input ", by=InputError, made=True, call=lambda v=v: (v,)
        )
        for n, v, _ in _TENSORS
    ),
    refused(
        "quantised",
        lambda x: x.dequantize(),
        _quietly(lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)),
        says="is quantised (torch.qint8): pass .dequantize()",
        by=InputError,
    ),
    refused("none", nn.ReLU, None, says="must be Tensor, not NoneType", by=CaptureError, made=True),
    refused("text", nn.ReLU, "abc", says="must be Tensor, not str", by=CaptureError, made=True),
    refused(
        "numpy-number",
        lambda x, v: x * v,
        V,
        np.float32(2),
        says="argument args[1] is of type float32: pass a Python number",
        by=InputError,
    ),
    refused(
        "missing",
        nn.ReLU,
        says="do not fit forward of ReLU: missing a required argument: 'input'; it takes "
        "(input: torch.Tensor)",
        by=InputError,
        made=True,
    ),
    refused(
        "missing-first", nn.ReLU, says="do not fit forward of ReLU", by=InputError, made=True, first=True
    ),
    refused("too-many", nn.ReLU, V, V, says="too many positional arguments", by=InputError, made=True),
    refused(
        "fewer",
        AnyNumber,
        V,
        V,
        says="takes 2 argument(s), got 1",
        by=InputError,
        made=True,
        call=lambda: (V,),
    ),
    refused(
        "other-number",
        lambda x, v: x * v,
        V,
        2,
        says="compiled for the value 2, got 3",
        by=InputError,
        call=lambda: (V, 3),
    ),
    refused(
        "other-dtype-value",
        lambda x, v: x.to(v),
        V,
        torch.float64,
        says="nested differently",
        by=InputError,
        call=lambda: (V, torch.float32),
    ),
    refused(
        "other-dtype",
        nn.ReLU,
        V,
        says="has dtype torch.float64",
        by=InputError,
        made=True,
        call=lambda: (V.double(),),
    ),
    refused("no-elements", lambda x: x * 2, X[:0], says="without elements", by=UnsupportedOpError),
    refused(
        "no-elements-beside", lambda x, e: x * 2, X, X[:0], says="without elements", by=UnsupportedOpError
    ),
    works("number", lambda x, v: x * v, V, 2.5),
    works("nan-number", lambda x, v: x * 2, V, float("nan")),
    works("text-branch", lambda x, v: x * 2 if v == "a" else x, V, "a"),
    works("none-branch", lambda x, v: x * 2 if v is None else x, V, None),
    works("big-number", lambda x, v: x * 2, V, 10**30),
    works("dtype", lambda x, v: x.to(v), V, torch.float64),
    works("slice", lambda x, v: x[v], V, slice(0, 2)),
    works("enum", lambda x, v: x * v.value, V, Member.A),
    works("empty-containers", lambda x, a, b, c: (x * 2, a, b, c), V, (), [], {}),
    works("no-arguments", lambda: torch.ones(3) * 2),
    works("requires-grad", lambda x: x * 2, V.clone().requires_grad_()),
    works("parameter", lambda x: x * 2, nn.Parameter(V.clone())),
    works("plain-subclass", lambda x: x * 2, V.as_subclass(Plain), wanted=lambda: V.double() * 2),
    works("transposed", lambda x: x * 2 + 1, X.t()),
    works("expanded", lambda x: x * 2 + 1, V.expand(3, 4)),
    works("overlapping", lambda x: x.sum(1), torch.arange(10.0).as_strided((4, 4), (2, 1))),
    works("negative-bit", lambda x: x * 2, torch.view_as_complex(X.reshape(6, 2)).conj().imag),
    works("one-number", lambda x: x * 2, torch.tensor(7.0)),
    works("empty-slice", lambda x: (x * 2, x[:0], x[:0].sum(0) + x[0], x[:, :0] @ x[:0, :3]), X),
    works("one-tensor-twice", lambda a, b: a * b - a, V, V),
    works("keyword-only", KeywordOnly, X, keywords=lambda: {"scale": V}, made=True, hardware=True),
    works("keyword-only-first", KeywordOnly, X, keywords=lambda: {"scale": V}, made=True, first=True),
    works("keyword-default", KeywordDefault, X, made=True),
    works("keyword-given", KeywordDefault, X, keywords=lambda: {"scale": V}, made=True, first=True),
    works("keyword-number", KeywordDefault, X, keywords=lambda: {"k": 3.0}, made=True, first=True),
    works(
        "any-keywords",
        AnyKeywords,
        X,
        keywords=lambda: {"b": V, "a": X},
        made=True,
        first=True,
        hardware=True,
    ),
    works("any-number", AnyNumber, V, V, V, made=True),
    works("every-kind", EveryKind, V, V, V, keywords=lambda: {"c": V, "d": V * 2}, made=True, first=True),
    works(
        "position-by-keyword", EveryKind, V, keywords=lambda: {"b": V, "c": V, "e": V}, made=True, first=True
    ),
    refused(
        "keyword-missing",
        KeywordOnly,
        X,
        says="missing a required argument: 'scale'; it takes (x: ",
        by=InputError,
        made=True,
    ),
    refused(
        "keyword-unknown",
        KeywordOnly,
        X,
        says="missing a required argument",
        by=InputError,
        made=True,
        keywords=lambda: {"scal": V},
        first=True,
    ),
    works(
        "dict-of-odd-keys",
        lambda d: {0: d['a"b\n'] * 2, "z": d[3], (1, 2): d[(4, 5)]},
        {'a"b\n': V, 3: V, (4, 5): V},
        hardware=True,
    ),
)
