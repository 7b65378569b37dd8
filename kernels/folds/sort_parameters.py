"""Parameters of the sorting kernel, and what follows from them: checks, reading and writing ends, sweeps."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.expr import Value, narrowing, value_of
from ..arith.numerics import ceil_div, index_bits, product
from ..contract import KernelParameterError, Port
from ..ports.access import Operand
from ..ports.epilogue import epilogue_problem
from ..ports.reader import Reader
from ..ports.stage import Stage, word_loops
from ..rtl.loops import Loop
from .sort_plan import Pass, merger, network, passes

MOST_STAGES = 3
"""Bits of a place that one sweep compares; more save few sweeps and double the registers of a stage."""


@dataclass(frozen=True, slots=True)
class SortParameters:
    """Rows put in order.

    source, values, indices: accesses over one domain, its last dimension sorted and over the lanes; at least
    one of the results is asked for. stages: words of 2**stages places are compared in one sweep. Raises
    KernelParameterError when a memory cannot be read or written so, or a format holds not every result.
    """

    source: Operand
    values: Operand | None
    indices: Operand | None
    descending: bool
    stages: int = MOST_STAGES

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise KernelParameterError(f"sort kernel over {self.sizes}: {problem}")

    def _problem(self) -> str | None:
        if not self.sizes:
            return "it needs a dimension"
        if not self.results:
            return "no result is asked for"
        if self.stages < 1:
            return f"{self.stages} stages"
        for name, out in self.results.items():
            if out.access.sizes != self.sizes:
                return f"{name} loops over {out.access.sizes}"
            if out.layout.lanes != self.source.layout.lanes:
                return f"{self.source.layout.lanes} lanes, {name} has {out.layout.lanes}"
        if self.values is not None and self.values.fmt != self.source.fmt:
            return f"elements of {self.source.fmt} cannot be written as {self.values.fmt}"
        if self.indices is not None and (self.indices.fmt.frac or self.indices.fmt.max < self.count - 1):
            return f"{self.indices.fmt} does not hold the indices 0 to {self.count - 1}"
        problem = self.reader.refusal()
        if problem:
            return problem
        ends = ((out, self.writer(name)) for name, out in self.results.items())
        found = (epilogue_problem(end.expr.inputs[0], end.expr, (), out) for out, end in ends)
        return next((p for p in found if p), None)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain."""
        return self.source.access.sizes

    @property
    def results(self) -> dict[str, Operand]:
        """What is written, by the name of its port."""
        named = (("y", self.values), ("z", self.indices))
        return {name: out for name, out in named if out is not None}

    @property
    def count(self) -> int:
        """Elements of a row."""
        return self.sizes[-1]

    @property
    def rows(self) -> int:
        """Rows to sort."""
        return product(self.sizes[:-1])

    @property
    def width(self) -> int:
        """Keys of a word inside: the lanes where they are a power of two, else one."""
        lanes = self.source.layout.lanes
        return lanes if lanes & (lanes - 1) == 0 else 1

    @property
    def words(self) -> int:
        """Words of a row that hold elements."""
        return ceil_div(self.count, self.width)

    @property
    def place_bits(self) -> int:
        """A row inside is 2**place_bits words."""
        return (self.words - 1).bit_length()

    @property
    def index_width(self) -> int:
        """Bits of an index in a key, padding behind the row included; 0 without indices."""
        return index_bits(self.width << self.place_bits) if self.indices is not None else 0

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Sweeps over words inside."""
        return passes(self.place_bits, self.reach) if self.place_bits else ()

    @property
    def reach(self) -> int:
        """Stages that a row has use for."""
        return min(self.stages, self.place_bits)

    @property
    def reader(self) -> Reader:
        """The reading end: elements as they are."""
        last = len(self.sizes) - 1
        lane_dim = last if self.width > 1 else None
        loops = (*(Loop(n, d) for d, n in enumerate(self.sizes[:-1])), Loop(self.words, last, self.width))
        return Reader(narrowing(self.source.fmt, self.source.fmt), (self.source,), loops, lane_dim)

    def writer(self, name: str) -> Stage:
        """The writing end of a result."""
        out = self.results[name]
        held = value_of(self.source.fmt) if name == "y" else Value(0, 0, self.count - 1)
        loops = word_loops(self.sizes, len(self.sizes) - 1, out.layout.lanes)
        return Stage(narrowing(held, out.fmt), (None,), out, len(self.sizes) - 1, loops)

    @property
    def sorted_after(self) -> int:
        """Cycles from a step of the first sweep to its sorted word."""
        return self.reader.latency + len(network(self.width))

    @property
    def pass_latency(self) -> int:
        """Cycles from a step of another sweep to its word."""
        return 1 + sum((1 << s) + 1 for s in range(self.reach)) + len(merger(self.width))

    @property
    def sweep(self) -> int:
        """Steps of a sweep: words inside."""
        return self.rows * (1 << self.place_bits)

    @property
    def tail(self) -> int:
        """Cycles behind the last word of the last sweep."""
        return max(self.writer(name).depth for name in self.results)

    @property
    def phases(self) -> tuple[int, ...]:
        """Cycles of the first sweep with its pipeline, of all others, and of the writing end."""
        first = self.sweep + self.sorted_after
        return (first, len(self.passes) * (self.sweep + self.pass_latency), self.tail)

    def ports(self) -> tuple[Port, ...]:
        """x0, y, z."""
        return (Port("x0", self.source, "read"), *(Port(n, o, "write") for n, o in self.results.items()))

    def cycles(self) -> int:
        """All sweeps, each with its pipeline."""
        return sum(self.phases)
