"""What a lowering sees of one ATen node: its arguments by schema name, with a record of which were read.

An argument that differs from its default and was not read is a reason to refuse: nothing is silently ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from torchcalyx.ir.typerules import TensorType
from torchcalyx.normalize.builder import Builder, Known, Operand, Ref, Value


@dataclass(frozen=True, slots=True)
class Reject:
    """Why a lowering does not take a node; falsy."""

    reason: str

    def __bool__(self) -> bool:
        return False


Outs: TypeAlias = "tuple[TensorType | None, ...]"
Result: TypeAlias = (
    "Value | tuple[Value | Reject | None, ...] | Reject"  # a Reject in a tuple: only that result has none
)


@dataclass
class Args:
    """Arguments of one node by the names of its schema; `outs` are the types torch gives to its results.

    Tensors are `Ref` or `Known`, everything else is the Python value.
    """

    named: Mapping[str, Any]
    defaults: Mapping[str, Any]
    outs: Outs
    _read: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return self.named[name]

    def get(self, name: str, default: Any) -> Any:
        """An argument, or the default where this overload has none of that name."""
        return self[name] if name in self.named else default

    @property
    def out(self) -> TensorType:
        """Type of the only (or first) result."""
        first = self.outs[0]
        assert first is not None, "the operation returns no tensor"
        return first

    def tensor(self, name: str) -> Value:
        """A tensor argument."""
        value = self[name]
        if not isinstance(value, (Ref, Known)):
            raise ValueError(f"the argument {name} = {value!r} must be a tensor")
        return value

    def operand(self, name: str) -> Operand:
        """A tensor or a Python number."""
        value = self[name]
        if not isinstance(value, (Ref, Known, bool, int, float)):
            raise ValueError(f"the argument {name} = {value!r} must be a tensor or a real number")
        return value

    def ignore(self, *names: str) -> None:
        """Declare arguments that do not change the values of the result (memory format, device, ...)."""
        self._read.update(names)

    def unread(self) -> tuple[str, ...]:
        """Arguments that were never read and differ from their defaults."""
        missing = object()
        return tuple(
            f"{name}={value!r}"
            for name, value in self.named.items()
            if name not in self._read and not _same(value, self.defaults.get(name, missing))
        )


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


Lowering: TypeAlias = Callable[[Builder, Args], Result]


def bind(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], outs: Outs) -> Args:
    """The arguments of a call by schema name, defaults filled in."""
    schema = target._schema.arguments
    defaults = {a.name: a.default_value for a in schema if a.has_default_value()}
    given = {a.name: v for a, v in zip(schema, args, strict=False)}
    return Args({**defaults, **given, **kwargs}, defaults, outs)
