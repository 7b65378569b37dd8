"""A graph under construction: each line is run by torch at once, so shapes, dtypes and magnitudes are
known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.fuzz.program import Line

LARGEST_REAL = 4096.0
LARGEST_WHOLE = 2**40
MOST_ELEMENTS = 400
MOST_AXES = 5
DTYPES = (
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)


@dataclass(frozen=True)
class Value:
    """A name with the tensor it had when it was defined."""

    name: str
    tensor: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def rank(self) -> int:
        return self.tensor.ndim

    @property
    def is_float(self) -> bool:
        return self.tensor.dtype.is_floating_point

    @property
    def is_bool(self) -> bool:
        return self.tensor.dtype == torch.bool

    @property
    def is_int(self) -> bool:
        return not self.is_float and not self.is_bool


@dataclass
class Sketch:
    """random: makes every choice. names: all tensors defined so far. frozen: names that must not change in
    place.
    """

    random: Random
    inputs: list[tuple[str, str]] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    names: dict[str, torch.Tensor] = field(default_factory=dict)
    owner: nn.Module = field(default_factory=nn.Module)
    frozen: list[str] = field(default_factory=list)
    count: int = 0

    # ---- drawing
    # -----------------------------------------------------------------------------------------------
    def choose(self, items: Sequence[Any]) -> Any:
        return self.random.choice(list(items))

    def whole(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def values(self, accept: Callable[[Value], bool] = lambda v: True) -> list[Value]:
        """Values so far that are accepted, the newest first."""
        found = [Value(n, t) for n, t in reversed(self.names.items())]
        return [v for v in found if accept(v)]

    def value(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """One of them, None when there is none; half of the time a new one, so that chains grow."""
        found = self.values(accept)
        found = found[:2] if self.flag() else found
        return self.choose(found) if found else None

    # ---- growing
    # -----------------------------------------------------------------------------------------------
    def run(self, text: str) -> Any:
        """Value of an expression over the names."""
        space = {"torch": torch, "F": F, "nn": nn, "self": self.owner, **self.names}
        with torch.no_grad():
            return eval(text, space)

    def input(self, make: str) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, make))
        self.names[name] = self.run(make)
        self.frozen.append(name)
        return Value(name, self.names[name])

    def parameter(self, make: str, kind: str = "nn.Parameter") -> Value:
        """A parameter, or for another kind a buffer; `make` is an expression."""
        name = self.member(f"{kind}({make})" if kind else make, buffer=not kind)
        value = getattr(self.owner, name).detach()
        self.names[f"self.{name}"] = value
        return Value(f"self.{name}", value)

    def member(self, make: str, buffer: bool = False) -> str:
        """A member of the module; its name."""
        name, self.count = f"{'buffer' if buffer else 'member'}{self.count}", self.count + 1
        made = self.run(make)
        if buffer:
            self.owner.register_buffer(name, made)
            self.setup.append(f'self.register_buffer("{name}", {make})')
        else:
            setattr(self.owner, name, made)
            self.setup.append(f"self.{name} = {make}")
        return name

    def define(self, text: str) -> Value | None:
        """A new value; None (and nothing changes) when torch refuses or the result is too large to be
        interesting.
        """
        try:
            result = self.run(text)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return None
        if not acceptable(result):
            return None
        name, self.count = f"v{self.count}", self.count + 1
        self.names[name] = result
        self.lines.append(Line(name, text))
        return Value(name, result)

    def change(self, name: str, statement: str) -> bool:
        """An in-place statement on `name`; False when torch refuses or the result is too large."""
        before = self.names[name].clone()
        try:
            with torch.no_grad():
                exec(statement, {"torch": torch, "F": F, "self": self.owner, **self.names})
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            return False
        if not acceptable(self.names[name]):
            self.names[name].copy_(before)
            return False
        self.lines.append(Line("", statement))
        return True

    def may_change(self, value: Value) -> bool:
        """Whether its memory belongs to the graph alone."""
        mine = value.tensor.untyped_storage().data_ptr()
        if value.name.startswith("self."):
            return False
        kept = [
            *(self.names[n] for n in self.frozen),
            *(t for n, t in self.names.items() if n.startswith("self.")),
        ]
        return all(t.untyped_storage().data_ptr() != mine for t in kept)


def acceptable(result: Any) -> bool:
    """A small tensor of a dtype in use with moderate values."""
    if not isinstance(result, torch.Tensor) or result.dtype not in DTYPES or result.ndim > MOST_AXES:
        return False
    if not 1 <= result.numel() <= MOST_ELEMENTS:
        return False
    result = result.detach()
    if result.dtype.is_floating_point:
        return bool(torch.isfinite(result).all()) and float(result.abs().max()) <= LARGEST_REAL
    return result.dtype == torch.bool or int(result.double().abs().max()) <= LARGEST_WHOLE
