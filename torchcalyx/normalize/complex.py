"""Operations on complex tensors as operations on real and imaginary parts.

In: an ATen operation with complex operands or results. Out: a small fx graph of real operations, traced from
its row in `complex_rules`, and how its results pair up; None where there is no row (torch's own decomposition
then leads to operations that have one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torchcalyx.normalize.builder import Builder, Known, Ref, Value, torch_dtype, type_of
from torchcalyx.normalize.complex_numbers import Z
from torchcalyx.normalize.complex_rules import RULES
from torchcalyx.normalize.pair import REAL_OF, VALUES, AnyValue, Pair


@dataclass(frozen=True)
class RealGraph:
    """traced: real operations with one placeholder for each of `values`. spec, complex_leaves: structure of
    the results, whose complex leaves are two neighbours of the graph's flat results.
    """

    traced: fx.GraphModule
    values: list[Value]
    spec: pytree.TreeSpec
    complex_leaves: tuple[bool, ...]

    def paired(self, flat: Any) -> Any:
        """The results from the flat results of the graph."""
        rest = iter(flat)
        leaves = [_pair(next(rest), next(rest)) if both else next(rest) for both in self.complex_leaves]
        return pytree.tree_unflatten(leaves, self.spec)


def is_complex(target: torch._ops.OpOverload, args: Any, kwargs: Any, outs: Any) -> bool:
    """Whether complex numbers take part in an operation, seen from outside or not."""
    if target.overloadpacket is torch.ops.aten.stft:  # may return pairs
        return True
    leaves = pytree.tree_leaves((args, kwargs))
    dtypes = [v.dtype for v in leaves if isinstance(v, VALUES)] + [t.dtype for t in outs if t is not None]
    return any(isinstance(v, complex) for v in leaves) or any(d.startswith("complex") for d in dtypes)


def as_real(
    target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> RealGraph | None:
    """The operation in real ones; None without a rule. ValueError where the rule refuses the arguments."""
    rule = RULES.get(target.overloadpacket)
    if rule is None:
        return None
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    split = [_halves(leaf) if isinstance(leaf, VALUES) else leaf for leaf in leaves]
    values = [half for found in split if isinstance(found, tuple) for half in found if half is not None]
    shapes: list[Any] = []

    def call(*tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        filled = [_refilled(leaf, part, rest) for leaf, part in zip(leaves, split, strict=True)]
        call_args, call_kwargs = pytree.tree_unflatten(filled, spec)
        result = rule(target, *call_args, **call_kwargs)
        found, result_spec = pytree.tree_flatten(list(result) if isinstance(result, tuple) else result)
        shapes[:] = [result_spec, tuple(isinstance(leaf, Z) for leaf in found)]
        return [part for leaf in found for part in ((leaf.re, leaf.imag) if isinstance(leaf, Z) else (leaf,))]

    samples = [torch.empty(v.shape, dtype=torch_dtype(v.dtype)) for v in values]
    traced = make_fx(call, tracing_mode="fake")(*samples)
    traced.graph.eliminate_dead_code()
    return RealGraph(traced, values, shapes[0], shapes[1])


def opaque(b: Builder, make: Callable[..., Value], result: Any) -> AnyValue:
    """Stand-in for a refused result; two halves for a complex one."""
    if result.dtype not in REAL_OF:
        return make(result)
    half = type(result)(result.shape, REAL_OF[result.dtype])
    return Pair(make(half), make(half))


def _halves(value: AnyValue) -> tuple[Value, Value | None]:
    """Both parts; None for an imaginary part that is zero, or of a real value."""
    if isinstance(value, Pair):
        zero = isinstance(value.im, Known) and not bool(value.im.tensor.any())
        return value.re, None if zero else value.im
    if isinstance(value, Known) and value.tensor.is_complex():
        re, im = value.to(value.tensor.real.clone()), value.to(value.tensor.imag.clone())
        return re, im if bool(im.tensor.any()) else None
    return value, None


def _refilled(leaf: Any, split: Any, rest: Any) -> Any:
    if not isinstance(leaf, VALUES):
        return leaf
    re = next(rest)
    im = None if split[1] is None else next(rest)
    return Z(re, im) if leaf.dtype.startswith("complex") else re


def _pair(re: Value, im: Value) -> AnyValue:
    if isinstance(re, Known) and isinstance(im, Known):
        origins = tuple(dict.fromkeys((*re.origins, *im.origins)))
        return Known(torch.complex(re.tensor, im.tensor), origins)
    assert type_of(re) == type_of(im) and isinstance(re, (Ref, Known)) and isinstance(im, (Ref, Known))
    return Pair(re, im)
