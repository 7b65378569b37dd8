"""Relayout of contiguous rows, one word a cycle: joins on any axis, misaligned slices, constant padding.

Equation: out[i] = narrow_s(source_s[i - starts_s]) where i lies in the region of source s, `fill` where it
lies in none. Each source's last dimension must be contiguous in memory, but may begin in the middle of a
word: then two neighbouring words go through a shifter.
Interface: memories x0, x1, ... (one per source), y.
Cycles: rows * words + 1 + 1 for the shifter + the latency of the slowest narrowing; a row takes one word
more where a source's piece of it spreads over one more than the row has.
Numbers: as in `gather`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd

import numpy as np

from ..arith.expr import narrowing
from ..arith.numerics import IntArray, bits_for_range, ceil_div, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.stage import Stage, element_lanes, positions, word_loops
from ..rtl.hw import Component, Memory, Program, Signal, digest
from ..rtl.lane import lane_component, latency
from ..rtl.loops import Nest
from .gather import covered
from .regions import (
    GatherSource,
    covers_all,
    grouped,
    merge_dimensions,
    output_refusal,
    regions_refusal,
)

__all__ = ["GatherSource", "Splice", "splice"]


@dataclass(frozen=True, slots=True)
class Splice:
    """A relayout of contiguous rows, one word a cycle.

    sources: accesses over parts of the domain. out: written access, its last dimension over the lanes.
    Use `splice(...)`. Raises KernelParameterError as `gather.Gather`, and when a source's last dimension is
    not contiguous, a source is padded or two sources share a memory.
    """

    sources: tuple[GatherSource, ...]
    out: Operand
    fill: int = 0

    def __post_init__(self) -> None:
        problem = regions_refusal(self.sources, self.out, self.sizes, self.fill) or output_refusal(self.out)
        ports = [s.port for s in self.sources]
        if problem is None and ports != list(range(len(ports))):
            problem = f"its ports are numbered {ports}"
        for number, source in enumerate(self.sources):
            problem = problem or _row_problem(number, source)
        if problem:
            raise KernelParameterError(f"splice kernel over {self.sizes}: {problem}")

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "splice"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain."""
        return self.out.access.sizes

    @property
    def words(self) -> int:
        """Words of an output row."""
        return ceil_div(self.sizes[-1], self.out.layout.lanes)

    @property
    def slots(self) -> int:
        """Cycles of a row: its words, and one where a piece spreads over one more."""
        return self.words + int(any(self._spreads(s) for s in self.sources))

    @property
    def shifts(self) -> int:
        """1 when a piece begins in the middle of a word: words then wait for their successor."""
        return int(any(self._shifted(s) for s in self.sources))

    @property
    def narrowing(self) -> int:
        """Registers of the slowest narrowing."""
        return max(latency(s.expr) for s in self.sources)

    @property
    def writer(self) -> Stage:
        """The writing end: words leave as they are."""
        lane_dim = len(self.sizes) - 1
        loops = word_loops(self.sizes, lane_dim, self.out.layout.lanes)
        return Stage(narrowing(self.out.fmt, self.out.fmt), (None,), self.out, lane_dim, loops)

    def _shifted(self, source: GatherSource) -> bool:
        """Whether a row of it begins in the middle of a word."""
        return row_lanes(source)[1] > 0

    def _ahead(self, source: GatherSource) -> bool:
        """Whether it starts so far right that the first output word does not need its first source word."""
        return self._shifted(source) and row_lanes(source)[0] + source.begin[-1] >= self.out.layout.lanes

    def _spreads(self, source: GatherSource) -> bool:
        """Whether the last output word needs elements of a word that can only be read after it."""
        lanes = self.out.layout.lanes
        used = source.region[-1].stop - (self.words - 1) * lanes
        return used > 0 and row_lanes(source)[1] + used > lanes and not self._ahead(source)

    def ports(self) -> tuple[Port, ...]:
        """x0, x1, ... and y."""
        reads = tuple(Port(f"x{i}", s.operand, "read") for i, s in enumerate(self.sources))
        return (*reads, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """Slots + pipeline depth."""
        return product(self.sizes[:-1]) * self.slots + 1 + self.shifts + self.narrowing

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """The address adders of each source; the words that wait for their successor."""
        waiting = sum(s.operand.width for s in self.sources if self._shifted(s))
        return Cost(0, 4 * len(self.sources), waiting)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; saturations counted over the elements of the sources."""
        domain = np.full(self.sizes, self.fill, dtype=np.int64)
        saturated = 0
        for source, array in zip(self.sources, arrays, strict=True):
            values, count = source.expr.emulate([source.operand.access.read(array)])
            domain[source.region] = values
            saturated += count
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, domain)
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, ..., y."""
        name = f"splice_{digest((self, tuple(sorted(words.items()))))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        trips = product(self.sizes[:-1]) * self.slots
        step = c.run(trips, self.cycles() - trips)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        nest = Nest(c, [*self.sizes[:-1], self.slots], step)
        arrived = self.cycles() - trips
        results = [self._lanes(c, nest, s, memories[f"x{i}"]) for i, s in enumerate(self.sources)]
        word = self._choose(c, nest, results, arrived)
        slot = nest.counters[-1]
        writing = (
            step if slot is None or self.slots == self.words else c.and_(step, c.below(slot, self.words))
        )
        self.writer.build(c, c.delay(writing, arrived), {0: word}, {}, memories["y"])
        return c

    def _lanes(self, c: Component, nest: Nest, source: GatherSource, memory: Memory) -> list[Signal]:
        """The source's elements for all lanes of the output word, narrowed."""
        operand, lanes = source.operand, self.out.layout.lanes
        ahead = int(self._ahead(source))
        base, steps = row_position(source)
        base, steps = base + ahead * lanes, [*steps[:-1], lanes]
        reach = [s * (n - 1) for s, n in zip(steps, nest.sizes, strict=True)]
        low, high = base + sum(min(r, 0) for r in reach), base + sum(max(r, 0) for r in reach)
        bits = max(bits_for_range(low // lanes, high // lanes), memory.address_bits)
        pointer, lane = nest.digit_pointer(steps, base, lanes, bits)
        enable = c.and_(nest.step, covered(c, nest, source, len(self.sizes) - 1))
        if low < 0 or high // lanes >= operand.layout.words:  # a row's ends may lie outside the memory
            enable = c.and_(enable, c.below(pointer, operand.layout.words))
        data = c.read(memory, c.slice(pointer, 0, memory.address_bits), enable)
        row = element_lanes(c, operand, c.delay(data, self.shifts + ahead))
        if self._shifted(source):
            following, shift = element_lanes(c, operand, c.delay(data, ahead)), c.delay(lane, 2)
            both = [*row, *following]
            row = [c.select(both[i : i + lanes], shift) for i in range(lanes)]
        wait = self.narrowing - latency(source.expr)
        unit, width = lane_component(c.program, source.expr), source.expr.inputs[0].width
        return [c.delay(c.instance(unit).drive(i0=c.resize(s, width)).get("y"), wait) for s in row]

    def _choose(
        self, c: Component, nest: Nest, results: Sequence[Sequence[Signal]], arrived: int
    ) -> list[Signal]:
        """For each lane the element of the source whose region holds its column."""
        outer = [c.delay(covered(c, nest, s, len(self.sizes) - 1), arrived) for s in self.sources]
        slot = nest.counters[-1]
        late = None if slot is None else c.delay(slot, arrived)
        reached: dict[int, Signal] = {}

        def begun(column: int, lane: int) -> Signal:
            """1 in the output words whose `lane` is at or behind `column`."""
            first = max(0, ceil_div(column - lane, self.out.layout.lanes))
            if first not in reached:
                if first == 0 or late is None or first >= self.words:
                    reached[first] = c.const(int(first == 0), 1)
                else:
                    reached[first] = c.not_(c.below(late, first))
            return reached[first]

        word = []
        for lane in range(self.out.layout.lanes):
            chosen = c.const(self.fill, self.out.fmt.width)
            for source, flag, elements in zip(self.sources, outer, results, strict=True):
                columns = source.region[-1]
                start, stop = begun(columns.start, lane), begun(columns.stop, lane)
                if start.text == "1'd0":
                    continue
                before = [] if stop.text == "1'd0" else [c.not_(stop)]
                tests = [t for t in (flag, start, *before) if t.text != "1'd1"]
                new = elements[lane]
                chosen = c.mux(reduce(c.and_, tests), new, chosen) if tests else new
            word.append(chosen)
        return word


def row_position(source: GatherSource) -> tuple[int, list[int]]:
    """Element position of the domain's origin and steps, as if the rows went on to both sides."""
    base, steps = positions(source.operand)
    outwards = [*steps[:-1], 1]  # the step of a last dimension of size 1 says nothing
    return base - sum(s * k for s, k in zip(source.begin, outwards, strict=True)), outwards


def row_lanes(source: GatherSource) -> tuple[int, int]:
    """Lowest and highest lane in which a row may begin, continued to the output's first column."""
    base, steps = row_position(source)
    moves = [s for s, n in zip(steps[:-1], source.operand.access.sizes[:-1], strict=True) if n > 1]
    lanes = source.operand.layout.lanes
    pitch = gcd(lanes, *moves)
    return base % pitch, lanes - pitch + base % pitch


def _row_problem(number: int, source: GatherSource) -> str | None:
    access = source.operand.access
    if access.limits:
        return f"source {number} is padded"
    if access.sizes[-1] > 1 and access.column(len(access.sizes) - 1) != (0, 1):
        return f"the last dimension of source {number} is not contiguous"
    return None


def splice(sources: Sequence[GatherSource], out: Operand, fill: int = 0) -> Splice:
    """The kernel with ports numbered and dimensions merged; KernelParameterError as `Splice`.

    Sources that name one port are refused: their pieces would be read in the same cycle.
    """
    problem = regions_refusal(sources, out, out.access.sizes, fill)
    shared = [s.port for s in sources if s.port is not None]
    if problem is None and len(set(shared)) != len(shared):
        problem = f"sources share memories: ports {shared}"
    if problem:
        raise KernelParameterError(f"splice kernel over {out.access.sizes}: {problem}")
    numbered = [replace(source, port=number) for number, source in enumerate(sources)]
    sizes = out.access.sizes
    groups = merge_dimensions([*numbered, GatherSource(out, None, numbered[0].expr)], sizes)
    merged_out = replace(out, access=grouped(out.access, groups))
    if output_refusal(merged_out):
        groups, merged_out = [[d] for d in range(len(sizes))], out
    merged = tuple(
        replace(
            s,
            operand=replace(s.operand, access=grouped(s.operand.access, groups)),
            starts=tuple(sum(s.begin[d] * product(sizes[e] for e in g if e > d) for d in g) for g in groups),
        )
        for s in numbered
    )
    return Splice(merged, merged_out, 0 if covers_all(numbered, sizes) else fill)
