"""Relayout, one element a cycle: permute, reshape, slice, flip or stride, several sources, constant padding.

Equation: out, taken row-major, = narrow_s(source_s[i - starts_s]) where i lies in the region of source s,
`fill` where it lies in none, for i over `sizes` row-major. Only the numbers of elements must agree, so a
reshape needs no common shape.
Interface: memories x0, x1, ... (sources of one memory share a port), y.
Cycles: elements + 1 + the latency of the slowest narrowing; padding lanes cost nothing.
Numbers: each source is narrowed as its expression says, `fill` is a stored integer of the output format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from ..arith.expr import Expr, narrowing
from ..arith.numerics import IntArray, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.assemble import assemble
from ..ports.stage import Stage, element_lanes, inside_guards, positions, word_loops
from ..rtl.hw import Component, Memory, Program, Signal, digest
from ..rtl.lane import lane_component, latency
from ..rtl.loops import Loop, Nest
from .regions import (
    GatherSource,
    covers_all,
    grouped,
    merge_dimensions,
    output_refusal,
    regions_refusal,
    written,
)

__all__ = ["Gather", "GatherSource", "gather", "refusal"]


@dataclass(frozen=True, slots=True)
class Gather:
    """A relayout of one or several sources, one element a cycle.

    sizes: the domain of the regions. out: written access, its last dimension over the lanes.
    Use `gather(...)`, which brings equal relayouts to equal parameters. Raises KernelParameterError when
    regions overlap or leave the domain, `fill` does not fit the format, or the output cannot be written by
    whole words.
    """

    sources: tuple[GatherSource, ...]
    out: Operand
    sizes: tuple[int, ...]
    fill: int = 0

    def __post_init__(self) -> None:
        problem = regions_refusal(self.sources, self.out, self.sizes, self.fill) or output_refusal(self.out)
        ports = [s.port for s in self.sources]
        if problem is None and set(ports) != set(range(len(set(ports)))):
            problem = f"its ports are numbered {ports}"
        if problem:
            raise KernelParameterError(f"gather kernel over {self.sizes}: {problem}")

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "gather"

    @property
    def writer(self) -> Stage:
        """The writing end: assembled words leave as they are."""
        sizes, lane_dim = self.out.access.sizes, len(self.out.access.sizes) - 1
        loops = word_loops(sizes, lane_dim, self.out.layout.lanes)
        return Stage(narrowing(self.out.fmt, self.out.fmt), (None,), self.out, lane_dim, loops)

    @property
    def latency(self) -> int:
        """Cycles from an element's step to its place in a word: one to read, then the narrowing."""
        return 1 + max(latency(s.expr) for s in self.sources)

    def ports(self) -> tuple[Port, ...]:
        """x0, x1, ... (one per distinct source memory) and y."""
        first = {s.port: s.operand for s in reversed(self.sources)}
        reads = tuple(Port(f"x{i}", first[i], "read") for i in range(len(first)))
        return (*reads, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """Elements + pipeline depth."""
        return product(self.sizes) + self.latency

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """The address adders of each source; the word being filled."""
        pointers = sum(4 if s.operand.layout.lanes > 1 else 1 for s in self.sources)
        return Cost(0, pointers, self.out.width)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; saturations counted over the elements of the sources."""
        domain = np.full(self.sizes, self.fill, dtype=np.int64)
        saturated = 0
        for source in self.sources:
            assert source.port is not None
            values, count = source.expr.emulate([source.operand.access.read(arrays[source.port])])
            domain[source.region] = values
            saturated += count
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, domain.reshape(self.out.access.sizes))
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, ..., y."""
        name = f"gather_{digest((self, tuple(sorted(words.items()))))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(product(self.sizes), self.latency)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        element = self._element(c, Nest(c, self.sizes, step), memories)
        row = self.out.access.sizes[-1]
        word, full = assemble(c, element, c.delay(step, self.latency), row, self.out.layout.lanes)
        self.writer.build(c, full, {0: word}, {}, memories["y"])
        return c

    def _element(self, c: Component, nest: Nest, memories: Mapping[str, Memory]) -> Signal:
        """The narrowed element of the step `latency` cycles ago."""
        inside = [covered(c, nest, s) for s in self.sources]
        raw = [self._port_element(c, nest, p, inside, memories[f"x{p}"]) for p in range(len(memories) - 1)]
        made: dict[tuple[int, Expr], Signal] = {}
        pairs: list[tuple[Signal, Signal]] = []
        for source, flag in zip(self.sources, inside, strict=True):
            assert source.port is not None
            key = (source.port, source.expr)
            if key not in made:
                lane = c.instance(lane_component(c.program, source.expr))
                lane.drive(i0=c.resize(raw[source.port], source.expr.inputs[0].width))
                made[key] = c.delay(lane.get("y"), self.latency - 1 - latency(source.expr))
            pairs.append((made[key], flag))
        if covers_all(self.sources, self.sizes):
            chosen = pairs.pop()[0]
        else:
            chosen = c.const(self.fill, self.out.fmt.width)
        for result, flag in pairs:
            if result.text != chosen.text:
                chosen = c.mux(c.delay(flag, self.latency), result, chosen)
        return chosen

    def _port_element(
        self, c: Component, nest: Nest, port: int, inside: Sequence[Signal], memory: Memory
    ) -> Signal:
        """What the port's memory delivers one cycle after the step, the source chosen by the regions."""
        members = [(s, flag) for s, flag in zip(self.sources, inside, strict=True) if s.port == port]
        fmt, lanes = members[0][0].operand.fmt, members[0][0].operand.layout.lanes
        one = c.const(1, 1)
        chosen: list[Signal] = []
        for source, flag in members:
            operand = source.over(self.sizes)
            base, steps = positions(operand)
            loops = [Loop(size, d) for d, size in enumerate(self.sizes)]
            guard = inside_guards(c, nest, loops, operand.access) if source.operand.access.limits else None
            fill = c.const(operand.access.fill, fmt.signed_width)
            options = [*nest.digit_pointer(steps, base, lanes, memory.address_bits), guard or one, fill]
            if chosen:
                chosen = [
                    n if n.text == o.text else c.mux(flag, n, o) for n, o in zip(options, chosen, strict=True)
                ]
            else:
                chosen = options
        address, lane, guard, fill = chosen
        enable = reduce(c.or_, [flag for _, flag in members])
        # Outside its regions and guards a pointer may lie beyond the memory: the read is off there.
        data = c.read(memory, address, reduce(c.and_, [nest.step, enable, guard]))
        element = c.select(element_lanes(c, members[0][0].operand, data), c.delay(lane, 1))
        return element if guard == one else c.mux(c.delay(guard, 1), element, c.delay(fill, 1))


def covered(c: Component, nest: Nest, source: GatherSource, dims: int | None = None) -> Signal:
    """1 while the nest stands in the source's region, by its first `dims` dimensions (default: all)."""
    inside: Signal | None = None
    edges = list(zip(nest.counters, nest.sizes, source.region, strict=True))
    for counter, size, region in edges[:dims]:
        tests = []
        if counter is not None and region.start > 0:
            tests.append(c.not_(c.below(counter, region.start)))
        if counter is not None and region.stop < size:
            tests.append(c.below(counter, region.stop))
        for test in tests:
            inside = test if inside is None else c.and_(inside, test)
    return c.const(1, 1) if inside is None else inside


def refusal(
    sources: Sequence[GatherSource], out: Operand, fill: int = 0, sizes: tuple[int, ...] | None = None
) -> str | None:
    """Why `gather` refuses (None: it does not)."""
    problem = regions_refusal(sources, out, _domain(sources, out, sizes), fill)
    return problem or output_refusal(written(out))


def _domain(sources: Sequence[GatherSource], out: Operand, sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    if sizes is None and len(sources) == 1 and sources[0].starts is None:
        return sources[0].operand.access.sizes
    return out.access.sizes if sizes is None else sizes


def gather(
    sources: Sequence[GatherSource], out: Operand, fill: int = 0, sizes: tuple[int, ...] | None = None
) -> Gather:
    """The kernel with ports numbered and dimensions merged; KernelParameterError as `Gather`.

    sizes: the domain of the regions, by default that of `out` or of a single source without `starts`; `out`
    may have any other shape of as many elements.
    """
    sizes = _domain(sources, out, sizes)
    problem = regions_refusal(sources, out, sizes, fill)
    if problem:
        raise KernelParameterError(f"gather kernel over {sizes}: {problem}")
    numbers: dict[object, int] = {}
    numbered = tuple(
        replace(s, port=numbers.setdefault(("own", i) if s.port is None else s.port, len(numbers)))
        for i, s in enumerate(sources)
    )
    groups = merge_dimensions(numbered, sizes)
    merged = tuple(
        replace(
            s,
            operand=replace(s.operand, access=grouped(s.operand.access, groups)),
            starts=tuple(sum(s.begin[d] * product(sizes[e] for e in g if e > d) for d in g) for g in groups),
        )
        for s in numbered
    )
    domain = tuple(product(sizes[d] for d in g) for g in groups)
    return Gather(merged, written(out), domain, 0 if covers_all(numbered, sizes) else fill)
