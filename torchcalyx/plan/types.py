"""What planning makes: order of the calls, memories, kernel instances. Frozen, hashable, printable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from torchcalyx.design import DesignMemory
from torchcalyx.kernels.engine.spec import EngineSpec


@dataclass(frozen=True, slots=True)
class Seq:
    """Steps one after the other, without a cycle between them."""

    steps: tuple[Schedule, ...]

    def __str__(self) -> str:
        return _indented("seq", self.steps)


@dataclass(frozen=True, slots=True)
class Par:
    """Branches that start in the same cycle; it takes as long as the longest of them."""

    branches: tuple[Schedule, ...]

    def __str__(self) -> str:
        return _indented("par", self.branches)


Schedule: TypeAlias = "Seq | Par | str"
"""A tree over calls; a leaf is the name of a `selection.Call`."""


def _indented(word: str, parts: tuple[Schedule, ...]) -> str:
    return "\n".join([word, *("  " + str(part).replace("\n", "\n  ") for part in parts)])


def calls_of(schedule: Schedule) -> Iterator[str]:
    """Names of the calls, in an order in which they may run one after the other."""
    if isinstance(schedule, str):
        yield schedule
        return
    for part in schedule.steps if isinstance(schedule, Seq) else schedule.branches:
        yield from calls_of(part)


def start_times(schedule: Schedule, cycles: Mapping[str, int], start: int = 0) -> dict[str, int]:
    """Cycle in which each call starts, counted from the start of the program. cycles: length of each call."""
    if isinstance(schedule, str):
        return {schedule: start}
    times: dict[str, int] = {}
    for part in schedule.steps if isinstance(schedule, Seq) else schedule.branches:
        times.update(start_times(part, cycles, start))
        if isinstance(schedule, Seq):
            start += total_cycles(part, cycles)
    return times


def total_cycles(schedule: Schedule, cycles: Mapping[str, int]) -> int:
    """Length of a schedule: the sum over a `Seq`, the maximum over a `Par`; 0 when it is empty."""
    if isinstance(schedule, str):
        return cycles[schedule]
    if isinstance(schedule, Seq):
        return sum(total_cycles(step, cycles) for step in schedule.steps)
    return max((total_cycles(branch, cycles) for branch in schedule.branches), default=0)


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """A memory of the program and the buffers that live in it, in the order of the selection."""

    memory: DesignMemory
    buffers: tuple[str, ...]

    def __str__(self) -> str:
        m = self.memory
        size = f"{m.words} words of {m.lanes}x{m.element_width} bits"
        return f"{m.role} {m.name}: {size} for {', '.join(self.buffers)}"


@dataclass(frozen=True, slots=True)
class KernelInstance:
    """A kernel in hardware and the calls that use it, never two at once."""

    name: str
    calls: tuple[str, ...]

    def __str__(self) -> str:
        return f"instance {self.name} for {', '.join(self.calls)}"


@dataclass(frozen=True)
class Plan:
    """Everything `emit` needs beside the selection.

    memories: in the order in which the program declares them. engine: the multiplier engine that serves every
    call (None: no call multiplies). cycles: exact clock cycles of one run; a program without calls takes one.
    """

    schedule: Schedule
    memories: tuple[PlannedMemory, ...]
    instances: tuple[KernelInstance, ...]
    engine: EngineSpec | None
    cycles: int

    @property
    def placement(self) -> dict[str, str]:
        """Name of the memory of each buffer; a temp buffer that no call touches has none."""
        return {buffer: m.memory.name for m in self.memories for buffer in m.buffers}

    @property
    def instance_of(self) -> dict[str, str]:
        """Name of the kernel instance of each call."""
        return {call: instance.name for instance in self.instances for call in instance.calls}

    @property
    def memory(self) -> dict[str, DesignMemory]:
        """The memories by name."""
        return {m.memory.name: m.memory for m in self.memories}

    def __str__(self) -> str:
        lines = [f"{self.cycles} cycles", str(self.schedule)]
        lines += map(str, self.memories)
        lines += map(str, self.instances)
        return "\n".join([*lines, f"engine {self.engine}" if self.engine else "no engine"])
