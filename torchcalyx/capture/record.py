"""`Captured`: one functional ATen graph of fixed shapes with its constants and the pytrees around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from torchcalyx.capture.admit import check_argument
from torchcalyx.capture.containers import pack, unpack
from torchcalyx.errors import InputError

Value: TypeAlias = "int | float | bool | str | None"


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One leaf of the user's arguments.

    path: how the user names it, as in `x` or `batch['ids']`. placeholder: the graph node that stands for a
    tensor, None for a leaf that is no tensor; such a leaf is fixed to `value` at capture.
    """

    path: str
    placeholder: str | None
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    value: Value = None


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One leaf of the user's result: the graph value `node`, or the constant `value` when node is None.

    dtype: of the tensor.
    """

    node: str | None
    value: Value = None
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Captured:
    """A module turned into a functional ATen graph of fixed shapes.

    graph: `placeholder`, `call_function` and `output` nodes with `meta["val"]`; treat it as read-only.
    constants: tensor of each placeholder that is a parameter, buffer or literal. constant_names: their
    dotted names.
    inputs, outputs: one entry a pytree leaf, in order. in_spec describes `(args, kwargs)`, out_spec the
    result, both packed (`containers.pack`).
    """

    graph: fx.Graph
    constants: Mapping[str, torch.Tensor] = field(hash=False, compare=False)
    constant_names: Mapping[str, str] = field(hash=False, compare=False)
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec

    @property
    def tensor_inputs(self) -> tuple[InputSpec, ...]:
        """The leaves that are tensors, in the order of `flatten_inputs` and of `Graph.inputs`."""
        return tuple(s for s in self.inputs if s.placeholder is not None)

    @property
    def tensor_outputs(self) -> tuple[OutputSpec, ...]:
        """The leaves that are tensors, in the order of `Graph.outputs` and of `unflatten_outputs`."""
        return tuple(s for s in self.outputs if s.node is not None)

    @property
    def keywords(self) -> tuple[str, ...]:
        """Names of the arguments that are given by keyword."""
        names: list[str] = self.in_spec.child(1).context
        return tuple(names)

    def flatten_inputs(self, args: Any, kwargs: Mapping[str, Any] | None = None) -> list[torch.Tensor]:
        """The tensor leaves of a call's arguments, checked against the example inputs.

        Raises InputError when count, structure, shape, dtype or a fixed Python value differs.
        """
        args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
        expected = self.in_spec.child(0).num_children
        if len(args) != expected:
            raise InputError(f"the compiled model takes {expected} argument(s), got {len(args)}")
        named, given = self.keywords, set(kwargs or {})
        if given != set(named):
            raise InputError(
                f"the model was compiled for {_keywords(named)}, and the call gives "
                f"{_keywords(sorted(given))}; compile again for another set"
            )
        try:
            leaves = self.in_spec.flatten_up_to(pack((args, dict(kwargs or {}))))
        except ValueError as error:
            raise InputError(
                f"the arguments are nested differently from the example inputs: {error}; "
                "pass the same structure of tuples, lists and dicts as when compiling"
            ) from error
        for spec, leaf in zip(self.inputs, leaves, strict=True):
            _check_leaf(spec, leaf)
        return [leaf for spec, leaf in zip(self.inputs, leaves, strict=True) if spec.placeholder is not None]

    def unflatten_outputs(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The user's result structure from its tensor leaves (one for each of `tensor_outputs`; both parts of
        a complex one along a first axis).
        """
        expected = len(self.tensor_outputs)
        if len(tensors) != expected:
            raise ValueError(f"expected {expected} output tensors, got {len(tensors)}")
        rest = iter(tensors)
        leaves = [spec.value if spec.node is None else _returned(spec, next(rest)) for spec in self.outputs]
        return unpack(pytree.tree_unflatten(leaves, self.out_spec))


def _returned(spec: OutputSpec, tensor: torch.Tensor) -> torch.Tensor:
    assert spec.dtype is not None
    return (torch.complex(tensor[0], tensor[1]) if spec.dtype.is_complex else tensor).to(spec.dtype)


def _keywords(names: Sequence[str]) -> str:
    return f"the keyword argument(s) {', '.join(names)}" if names else "no keyword arguments"


def _check_leaf(spec: InputSpec, leaf: Any) -> None:
    if spec.placeholder is None:
        nan = leaf != leaf and spec.value != spec.value
        same = type(leaf) is type(spec.value) and (nan or leaf == spec.value)
        if not same:
            raise InputError(
                f"argument {spec.path}: the model was compiled for the value {spec.value!r}, got {leaf!r}; "
                "values that are not tensors are fixed when compiling, compile again for another value"
            )
        return
    if not isinstance(leaf, torch.Tensor):
        raise InputError(f"argument {spec.path} must be a torch.Tensor, got {type(leaf).__name__}")
    check_argument(spec.path, leaf)
    if tuple(leaf.shape) != spec.shape:
        raise InputError(
            f"argument {spec.path} has shape {tuple(leaf.shape)}, the model was compiled for {spec.shape}; "
            "shapes are fixed in hardware, compile again for another shape"
        )
    if leaf.dtype != spec.dtype:
        raise InputError(
            f"argument {spec.path} has dtype {leaf.dtype}, the model was compiled for {spec.dtype}; "
            f"convert it with .to({spec.dtype})"
        )
