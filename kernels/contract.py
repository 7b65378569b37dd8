"""What every kernel agrees on: parameters, memory ports, exact cycles, software model, generator, cost.

A kernel spec is a frozen dataclass whose fields are its parameters, so equal specs are one component. Specs
know nothing of torch nor of the program around them: memories and the shared multiplier engine come by
reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ..errors import KernelParameterError as KernelParameterError
from .arith.numerics import IntArray
from .engine.spec import EngineSpec
from .ports.access import Operand

if TYPE_CHECKING:
    from .rtl.hw import Component, Program


@dataclass(frozen=True, slots=True)
class Port:
    """A memory a kernel takes by reference: it reads it or writes it, one word a cycle."""

    name: str
    operand: Operand
    access: Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Hardware of one instance, without the memories and the shared engine.

    multipliers: multipliers of the shared engine kept busy. adders, register_bits, table_bits: counted from
    the parameters.
    """

    multipliers: int = 0
    adders: int = 0
    register_bits: int = 0
    table_bits: int = 0


@dataclass(frozen=True)
class Emulated:
    """Results of a software model: one (rows, cols) integer array per written port, and how many values
    saturated (a plain count, or a `Saturation`, which also says how many bits were missing).
    """

    outputs: tuple[IntArray, ...]
    saturated: int


@runtime_checkable
class KernelSpec(Protocol):
    """One kernel with its parameters.

    `family` names the generator. `ports` lists memories, reads first, in the order of `emulate`'s
    arguments. `engine` says what the kernel asks of the shared multiplier engine (None: nothing). `cycles`
    is the exact latency in clock cycles of one call. `useful_operations` counts multiply-accumulates or
    elements, for utilisation. `build` makes the static component (once for equal arguments): `words` gives
    the depth of each port's memory, at least the layout's, and `engine` the engine of the program, which
    has at least what `engine()` asked for. Its `ref` cells are the ports' names and, when an engine is
    used, "engine".
    """

    @property
    def family(self) -> str:
        """Name of the generator."""
        ...

    def ports(self) -> tuple[Port, ...]:
        """Memory ports, reads first."""
        ...

    def engine(self) -> EngineSpec | None:
        """Least engine this kernel works with."""
        ...

    def cycles(self) -> int:
        """Exact latency of one call in clock cycles."""
        ...

    def useful_operations(self) -> int:
        """Multiply-accumulates (or elements, where nothing is multiplied) of one call."""
        ...

    def cost(self) -> Cost:
        """Hardware of one instance."""
        ...

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact result on (rows, cols) arrays of stored integers."""
        ...

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """The component, made once for equal arguments."""
        ...


def reads(spec: KernelSpec) -> tuple[Port, ...]:
    """Ports the kernel reads."""
    return tuple(p for p in spec.ports() if p.access == "read")


def writes(spec: KernelSpec) -> tuple[Port, ...]:
    """Ports the kernel writes."""
    return tuple(p for p in spec.ports() if p.access == "write")
