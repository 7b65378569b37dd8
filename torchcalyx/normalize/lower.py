"""Walks an ATen graph and lowers each node: known at compile time, by a lowering of the table, or by
decomposition.

Refusals do not stop the walk; they are collected with their reasons.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from torchcalyx.capture.source import node_source, op_name
from torchcalyx.ir.graph import Source
from torchcalyx.ir.typerules import TensorType
from torchcalyx.normalize.args import Lowering, Outs, Reject, bind
from torchcalyx.normalize.assertions import ASSERTIONS
from torchcalyx.normalize.builder import (
    Builder,
    Known,
    Ref,
    dtype_name,
    in_numpy,
    torch_dtype,
    type_of,
)
from torchcalyx.normalize.complex import as_real, is_complex, opaque
from torchcalyx.normalize.decompose import decompose
from torchcalyx.normalize.own_functions import own_lowering
from torchcalyx.normalize.pair import VALUES, AnyValue, Pair

Path: TypeAlias = "tuple[torch._ops.OpOverload | None, ...]"
"""Operations whose decomposition is being lowered; None where one became operations on real parts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One node without kernel: where, what, why."""

    source: Source
    node: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass
class Lowerer:
    """State of a walk: the table, the builder, and the refusals found so far."""

    table: Mapping[Any, Lowering]
    builder: Builder
    refusals: list[Refusal] = field(default_factory=list)

    def run(self, graph: fx.Graph, env: dict[fx.Node, Any]) -> None:
        """Lower every live node of a captured graph; `env` holds the placeholders' values and gets all
        others.
        """
        live = _live(graph)
        for node in graph.nodes:
            if node.op != "call_function" or node not in live:
                continue
            whole = (
                node.args[0] if node.target is operator.getitem else node
            )  # a part comes from where the tuple does
            assert isinstance(whole, fx.Node)
            self.builder.source, self.builder.hint = node_source(whole), node.name
            args, kwargs = _values((node.args, node.kwargs), env)
            start = len(self.builder.nodes)
            result = self._node(node.target, args, kwargs, _types(node), ())
            if isinstance(result, Ref):
                result = self.builder.named_after_hint(start, result)
            env[node] = (
                self._refuse(node, args, kwargs, result.reasons) if isinstance(result, _NoWay) else result
            )

    def _node(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: Outs, path: Path
    ) -> Any:
        """The value of one node, or the reasons why it has none."""
        if target is operator.getitem:
            part = args[0][args[1]]
            if part is None:
                return _NoWay((f"result {args[1]} has no value",))
            return _NoWay((part.reason,)) if isinstance(part, Reject) else part
        if not isinstance(target, torch._ops.OpOverload):
            return _NoWay((f"{op_name(target)} is no tensor operation",))
        if _is_known((args, kwargs)):
            return _fold(target, args, kwargs)
        if outs and all(t is not None and math.prod(t.shape) == 0 for t in outs):
            return _each(outs, lambda t: Known(torch.empty(t.shape, dtype=torch_dtype(t.dtype))))
        reasons = []
        if is_complex(target, args, kwargs, outs):
            return self._complex(target, args, kwargs, outs, path)
        lowering = self.table.get(target) or own_lowering(target)
        if lowering is not None:
            result = self._by_table(lowering, target, args, kwargs, outs)
            if not isinstance(result, Reject):
                return result
            reasons.append(result.reason)
        inner = self._by_decomposition(target, args, kwargs, path, outs)
        if not isinstance(inner, _NoWay):
            return inner
        mere = (*reasons, f"no kernel yet for {_shown(target)}")
        new = [r for r in inner.reasons if not (reasons and r.endswith(mere))]
        return _NoWay((*reasons, *new))

    def _complex(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: Outs, path: Path
    ) -> Any:
        """An operation in which complex numbers take part: by its parts, else by torch's decomposition."""
        try:
            real = as_real(target, args, kwargs)
        except Exception as error:  # a rule is run by torch's tracer, which may raise anything
            return _NoWay((f"{_shown(target)} of complex numbers: {str(error).splitlines()[0]}",))
        if real is None:
            return self._by_decomposition(target, args, kwargs, path, outs)
        found = self._inner(_shown(target), real.traced, real.values, (*path, None), ())
        if isinstance(found, _NoWay):
            return found
        found = real.paired(found)
        reasons = _differing(found, outs)
        return _NoWay(tuple(reasons)) if reasons else found

    def _by_table(
        self,
        lowering: Lowering,
        target: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outs: Outs,
    ) -> Any:
        bound = bind(target, args, kwargs, outs)
        try:
            result = lowering(self.builder, bound)
        except ValueError as error:
            return Reject(str(error))
        if isinstance(result, Reject):
            return result
        if bound.unread():
            return Reject(
                f"the rule for {op_name(target)} does not know the argument {', '.join(bound.unread())}"
            )
        results = result if isinstance(result, tuple) else (result,)
        for value, expected in zip(results, outs, strict=True):
            if not isinstance(value, VALUES) or expected is None:
                continue
            if type_of(value) != expected:
                return Reject(f"the rule gives {type_of(value)}, torch {expected}")
        return _complete(result, outs, op_name(target))

    def _by_decomposition(
        self,
        target: torch._ops.OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        path: Path,
        outs: Outs,
    ) -> Any:
        name = _shown(target)
        if target in path:  # torch's decompositions of some operations lead back to them
            return _NoWay((f"no kernel yet for {name}",))
        try:
            simpler = decompose(target, args, kwargs)
        except Exception as error:  # a decomposition may call anything; its failure is one more reason
            return _NoWay(
                (f"no kernel yet for {name}; torch's decomposition fails: {str(error).splitlines()[0]}",)
            )
        if simpler is None:
            return _NoWay((f"no kernel yet for {name}",))
        traced, values = simpler
        return self._inner(name, traced, values, (*path, target), outs)

    def _inner(
        self, name: str, traced: fx.GraphModule, values: Sequence[AnyValue], path: Path, outs: Outs
    ) -> Any:
        rest = iter(values)
        env: dict[fx.Node, Any] = {}
        reasons: list[str] = []
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(rest)
            elif node.op == "get_attr":
                env[node] = Known(in_numpy(getattr(traced, str(node.target))))
            elif node.op == "output":
                result = _values(node.args[0], env)
                reasons += [] if reasons else _differing(result, outs)
                return _NoWay(tuple(dict.fromkeys(reasons))) if reasons else result
            else:
                args, kwargs = _values((node.args, node.kwargs), env)
                value = self._node(node.target, args, kwargs, _types(node), path)
                if isinstance(value, _NoWay):
                    reasons += [_within(name, r) if len(path) == 1 else r for r in value.reasons]
                    if all(
                        t is None for t in _types(node)
                    ):  # a number that depends on data: nothing can stand for it
                        return _NoWay(tuple(dict.fromkeys(reasons)))
                    value = self._opaque(_types(node))
                env[node] = value
        raise AssertionError("a traced graph has an output")

    def _refuse(self, node: fx.Node, args: Any, kwargs: Any, reasons: tuple[str, ...]) -> Any:
        tensors = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, VALUES)]
        shown = tuple(str(type_of(v)) for v in tensors)
        outs = tuple(str(t) for t in _types(node) if t is not None)
        self.refusals.append(Refusal(self.builder.source, node.name, shown, outs, reasons))
        return self._opaque(_types(node))

    def _opaque(self, outs: Outs) -> Any:
        return _each(outs, lambda t: opaque(self.builder, self.builder.opaque, t))


@dataclass(frozen=True, slots=True)
class _NoWay:
    reasons: tuple[str, ...]


def _differing(result: Any, outs: Outs) -> list[str]:
    """What torch's decomposition gives in another type than torch itself."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [
        f"torch's decomposition gives {type_of(value)}, torch {expected}"
        for value, expected in zip(results, outs, strict=False)
        if isinstance(value, VALUES) and expected is not None and type_of(value) != expected
    ]


def _complete(result: Any, outs: Outs, name: str) -> Any:
    """A tuple of results: those that a rule does not make are tensors without elements, or refusals."""
    if not isinstance(result, tuple):
        return result

    def part(index: int, value: Any, expected: TensorType | None) -> Any:
        if value is not None or expected is None:
            return value
        if math.prod(expected.shape) == 0:
            return _each((expected,), lambda t: Known(torch.empty(t.shape, dtype=torch_dtype(t.dtype))))
        return Reject(f"no kernel yet for result {index} of {name}")

    return tuple(part(i, v, t) for i, (v, t) in enumerate(zip(result, outs, strict=True)))


def _shown(target: object) -> str:
    return op_name(target).replace(
        "prims.", "aten."
    )  # torch's decompositions end in a namespace users never see


def _within(name: str, reason: str) -> str:
    return reason if reason.endswith(f" {name}") else f"decomposed from {name}: {reason}"


def _live(graph: fx.Graph) -> set[fx.Node]:
    live: set[fx.Node] = set()
    stack = [n for n in graph.nodes if n.op == "output" or n.target in ASSERTIONS]
    while stack:
        node = stack.pop()
        if node not in live:
            live.add(node)
            stack += node.all_input_nodes
    return live


def _types(node: fx.Node) -> Outs:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    tensors = [v if isinstance(v, torch.Tensor) else None for v in values]
    return tuple(v if v is None else TensorType(tuple(v.shape), dtype_name(v.dtype)) for v in tensors)


def _each(outs: Outs, make: Callable[[TensorType], AnyValue]) -> Any:
    made = [None if t is None else make(t) for t in outs]
    return made[0] if len(made) == 1 else made


def _values(tree: Any, env: Mapping[fx.Node, Any]) -> Any:
    return fx.node.map_arg(tree, lambda n: env[n])


def _is_known(tree: Any) -> bool:
    return not any(isinstance(leaf, (Ref, Pair)) for leaf in pytree.tree_leaves(tree))


def _fold(target: torch._ops.OpOverload, args: Any, kwargs: Any) -> Any:
    origins = dict.fromkeys(
        o for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, Known) for o in v.origins
    )
    real_args, real_kwargs = pytree.tree_map_only(Known, lambda v: v.tensor, (args, kwargs))
    try:
        result = target(*real_args, **real_kwargs)
    except Exception as error:  # any operation, also a user's own
        return _NoWay((f"{op_name(target)} of known tensors fails: {str(error).splitlines()[0]}",))
    return pytree.tree_map_only(torch.Tensor, lambda t: Known(in_numpy(t.detach()), tuple(origins)), result)
