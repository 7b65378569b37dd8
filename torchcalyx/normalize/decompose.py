"""torch's own decomposition of one ATen node into simpler ones.

In: operation, arguments. Out: a small fx graph whose placeholders are the tensor arguments, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torchcalyx.normalize import recurrent
from torchcalyx.normalize.builder import torch_dtype
from torchcalyx.normalize.pair import VALUES, AnyValue

_FOURIER = frozenset(
    getattr(torch.ops.aten, f"fft_{name}{dims}")
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for dims in (("", "2", "n") if name.endswith("fft") else ())
)


def _decomposition(target: torch._ops.OpOverload) -> Callable[..., Any] | None:
    if target.namespace == "prims":  # where torch's own decompositions end: each has an ATen form
        impl: Callable[..., Any] = target.impl_aten  # type: ignore[attr-defined]
        return impl
    if target in recurrent.DECOMPOSITIONS:
        return recurrent.DECOMPOSITIONS[target]
    if target.overloadpacket in _FOURIER:  # the table leads to operations without normalisation
        return target.decompose
    found = decomposition_table.get(target)
    if found is None and target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return target.decompose
    return found


def decompose(
    target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[fx.GraphModule, list[AnyValue]] | None:
    """The node as simpler nodes and the values of the placeholders; None when torch has no decomposition.

    The graph has `meta["val"]` on each node and is functional.
    """
    function = _decomposition(target)
    if function is None:
        return None
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    values = [leaf for leaf in leaves if isinstance(leaf, VALUES)]

    def call(*tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        filled = [next(rest) if isinstance(leaf, VALUES) else leaf for leaf in leaves]
        call_args, call_kwargs = pytree.tree_unflatten(filled, spec)
        result = function(*call_args, **call_kwargs)
        return tuple(result) if isinstance(result, tuple) else result  # plain, where torch names its fields

    samples = [torch.empty(v.shape, dtype=torch_dtype(v.dtype)) for v in values]
    traced = make_fx(call, tracing_mode="fake")(*samples)
    if any(_mutates(node) for node in traced.graph.nodes):
        # the graph, not the call: a composite kernel of torch calls past what makes its writes functional
        traced = make_fx(torch.func.functionalize(traced), tracing_mode="fake")(*samples)
    traced.graph.eliminate_dead_code()
    if any(node.target is target for node in traced.graph.nodes):
        return None
    return traced, values


def _mutates(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
