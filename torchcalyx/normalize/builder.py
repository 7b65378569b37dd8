"""`Builder`: makes nodes of the normal form; lowerings call it, one ATen node at a time.

A value is a `Ref` (a node of the new graph) or `Known` (a tensor known at compile time). Views of known
tensors are taken at once; a known tensor becomes a "constant" node when an operation reads it. Every node's
type comes from `normalform.infer`, so a lowering cannot make an ill-typed node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
import torch

from torchcalyx.ir.graph import Array, Attr, Node, Source
from torchcalyx.ir.normalform import infer
from torchcalyx.ir.typerules import DTYPES, FLOATS, TensorType

Scalar: TypeAlias = "bool | int | float"


def lacks_numpy(dtype: torch.dtype) -> bool:
    """Whether floats of this dtype have no numpy form: they stand for their real values, as float32."""
    return dtype.is_floating_point and str(dtype).removeprefix("torch.") not in FLOATS


def dtype_name(dtype: torch.dtype) -> str:
    """numpy's name of a torch dtype ("float32"); `typerules.DTYPES` says which of them hardware can take.

    Numbers that numpy lacks (bfloat16, eight bits, complex32) have the name of a type that holds their values
    ("float32", "complex64"): hardware computes with real values in formats of its own, and results get
    torch's dtype when they leave.
    """
    if dtype == torch.complex32:
        return "complex64"
    return "float32" if lacks_numpy(dtype) else str(dtype).removeprefix("torch.")


def in_numpy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in the dtype that `dtype_name` gives."""
    if tensor.dtype == torch.complex32:
        return tensor.to(torch.complex64)
    return tensor.float() if lacks_numpy(tensor.dtype) else tensor


def torch_dtype(name: str) -> torch.dtype:
    """Torch dtype of a numpy name."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


@dataclass(frozen=True, slots=True)
class Ref:
    """Name and type of a node made so far."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A tensor known at compile time. origins: dotted names of the parameters and buffers it was computed
    from.
    """

    tensor: torch.Tensor
    origins: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> str:
        """numpy dtype name."""
        return dtype_name(self.tensor.dtype)

    def to(self, tensor: torch.Tensor) -> Known:
        """Another tensor computed from this one."""
        return Known(tensor, self.origins)


class HasType(Protocol):
    """Anything with a shape and a dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape."""
        ...

    @property
    def dtype(self) -> str:
        """numpy's name."""
        ...


Value: TypeAlias = "Ref | Known"
Operand: TypeAlias = "Ref | Known | bool | int | float"


def type_of(value: HasType) -> TensorType:
    """Shape and dtype of a value."""
    return TensorType(value.shape, value.dtype)


@dataclass
class Builder:
    """Nodes made so far. `source` and `hint` (of names) describe the ATen node that is being lowered."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    parameter_names: dict[str, str] = field(default_factory=dict)
    source: Source = field(default_factory=lambda: Source(""))
    hint: str = "value"
    _names: set[str] = field(default_factory=set)
    _known: dict[Known, Ref] = field(default_factory=dict)

    def input(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Ref:
        """A tensor of the caller."""
        return self._append("input", (), {}, TensorType(shape, dtype_name(dtype)), name)

    def opaque(self, result: TensorType) -> Ref:
        """Stand-in for the result of an operation that was refused, so that later refusals are found as
        well.
        """
        return Ref(self._unique(f"{self.hint}_refused"), result.shape, result.dtype)

    def emit(self, op: str, *args: Value, **attrs: Attr) -> Ref:
        """A node; ValueError with the reason when operands or attributes do not fit the operation."""
        result = infer(op, tuple(type_of(a) for a in args), attrs)
        return self._append(op, tuple(self.ref(a).name for a in args), attrs, result)

    def ref(self, value: Value) -> Ref:
        """The node of a value; a known tensor becomes one "constant" node however often it is read."""
        if isinstance(value, Ref):
            return value
        if value not in self._known:
            if value.dtype not in DTYPES:
                raise ValueError(f"dtype {value.dtype} has no hardware form; use one of {', '.join(DTYPES)}")
            origin = ", ".join(value.origins)
            hint = value.origins[0].replace(".", "_") if len(value.origins) == 1 else f"{self.hint}_constant"
            made = self._append("constant", (), {}, type_of(value), hint)
            self.constants[made.name] = np.array(value.tensor.numpy(), order="C", copy=True)
            if origin:
                self.parameter_names[made.name] = origin
            self._known[value] = made
        return self._known[value]

    def known(self, value: Scalar, dtype: str) -> Known:
        """A Python number as a 0-d tensor; ValueError when the dtype cannot hold it."""
        try:
            return Known(torch.tensor(value, dtype=torch_dtype(dtype)))
        except (RuntimeError, OverflowError) as error:
            raise ValueError(f"{value} does not fit dtype {dtype}") from error

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another dtype; the value itself when it has that dtype."""
        if isinstance(value, Known):
            return value if value.dtype == dtype else value.to(value.tensor.to(torch_dtype(dtype)))
        return value if value.dtype == dtype else self.emit("cast", value, to=dtype)

    def view(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements in row-major order with another shape."""
        shape = tuple(shape)
        if isinstance(value, Known):
            return value.to(value.tensor.reshape(shape))
        return value if value.shape == shape else self.emit("view", value, shape=shape)

    def permute(self, value: Value, dims: Sequence[int]) -> Value:
        """Axes reordered; dims may be negative."""
        dims = tuple(d % len(dims) for d in dims)
        if isinstance(value, Known):
            return value.to(value.tensor.permute(dims))
        return value if dims == tuple(range(len(dims))) else self.emit("permute", value, dims=dims)

    def transpose(self, value: Value, first: int = -2, second: int = -1) -> Value:
        """Two axes exchanged; by default the last two."""
        dims = list(range(len(value.shape)))
        dims[first], dims[second] = dims[second], dims[first]
        return self.permute(value, dims)

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """The value broadcast to a shape."""
        shape = tuple(shape)
        if isinstance(value, Known):
            return value.to(value.tensor.expand(shape))
        return value if value.shape == shape else self.emit("expand", value, shape=shape)

    def slice(self, value: Value, axis: int, start: int, step: int, size: int) -> Value:
        """`size` elements of one axis, from `start`, `step` apart (negative: backwards)."""
        rank = len(value.shape)
        axis %= rank
        if isinstance(value, Known):
            index = torch.arange(size) * step + start
            return value.to(value.tensor.index_select(axis, index))
        if (start, step, size) == (0, 1, value.shape[axis]):
            return value
        starts, steps, sizes = [0] * rank, [1] * rank, list(value.shape)
        starts[axis], steps[axis], sizes[axis] = start, step, size
        return self.emit("slice", value, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))

    def cat(self, values: Sequence[Value], axis: int) -> Value:
        """Values joined along an axis; empty parts vanish."""
        parts = [v for v in values if math.prod(v.shape)]
        if not parts or all(isinstance(p, Known) for p in parts):
            known = [p for p in (parts or values) if isinstance(p, Known)]
            origins = dict.fromkeys(o for k in known for o in k.origins)
            return Known(torch.cat([k.tensor for k in known], axis), tuple(origins))
        if len(parts) == 1:
            return parts[0]
        return self.emit("cat", *parts, dim=axis % len(parts[0].shape))

    def named_after_hint(self, start: int, result: Ref) -> Ref:
        """Exchange names so that `result`, the last of the nodes from `start` on, has the name of its ATen
        node.
        """
        made = {node.name for node in self.nodes[start:]}
        if result.name == self.hint or not {self.hint, result.name} <= made:
            return result
        swap = {self.hint: result.name, result.name: self.hint}
        for i, node in enumerate(self.nodes[start:], start):
            args = tuple(swap.get(a, a) for a in node.args)
            self.nodes[i] = replace(node, name=swap.get(node.name, node.name), args=args)
        return replace(result, name=self.hint)

    def _append(
        self, op: str, args: tuple[str, ...], attrs: dict[str, Attr], result: TensorType, hint: str = ""
    ) -> Ref:
        name = self._unique(hint or self.hint)
        source = self.source
        self.nodes.append(
            Node(name, op, args, tuple(sorted(attrs.items())), result.shape, result.dtype, source)
        )
        return Ref(name, result.shape, result.dtype)

    def _unique(self, hint: str) -> str:
        name, count = hint, 0
        while name in self._names:
            count += 1
            name = f"{hint}_{count}"
        self._names.add(name)
        return name
