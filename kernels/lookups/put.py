"""Writes at computed indices: set, add, keep the greatest or the smallest, in the order of the loops.

Equation: out = base; then for d over the source's domain, row-major, with e = d with d[axis] replaced by
index[d]: out[e] = source[d] (set), out[e] + source[d] (add), the greater (max) or smaller (min) of both;
nothing where the index leaves the axis. A later write to an element comes after, and sees, an earlier one.
Interface: memories x0 (base), x1 (index), x2 (source), y. The source's domain fits into the base's, but for
`axis`, whose sizes are free.
Cycles: words of the output + 2 * steps + 2, and one more for each cycle by which the narrowing of base or
source passes 1. A step is a word where the index is the same along a last dimension that is written whole,
else one element. A step reads its word, and writes it in the next cycle, before the step behind it reads.
Numbers: base and source are narrowed to the output's format; sums must fit it (`accumulator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np

from ..arith.expr import Expr, narrowing
from ..arith.numerics import IntArray, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.reader import Reader
from ..ports.stage import element_lanes, read_operand, reading_mode, strides, word_loops, writing_refusal
from ..rtl.hw import Component, Memory, Program, Signal, digest
from ..rtl.lane import lane_component, latency
from ..rtl.loops import Loop, Nest
from .mode import PutMode
from .place import LATENCY, Place, find, index_refusal, on_axis, one_index_a_row, squeezed, turned

__all__ = ["Put", "put"]

_AT = {"add": np.add.at, "max": np.maximum.at, "min": np.minimum.at}


@dataclass(frozen=True, slots=True)
class Put:
    """A copy of `base` with elements written at computed indices along one axis.

    base, out: over one domain. index, source: over another. Raises KernelParameterError when the domains do
    not fit, sums may leave the output's format, `base` cannot be read or `out` not written word by word.
    """

    mode: PutMode
    base: Operand
    index: Operand
    source: Operand
    out: Operand
    axis: int

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            shapes = f"of {self.source.access.sizes} along dimension {self.axis} into {self.out.access.sizes}"
            raise KernelParameterError(f"put kernel ({self.mode}) {shapes}: {problem}")

    def _problem(self) -> str | None:
        if self.mode not in get_args(PutMode):
            return f"the mode is not one of {', '.join(get_args(PutMode))}"
        sizes, into = self.source.access.sizes, self.out.access.sizes
        problem = index_refusal(self.index, sizes, self.axis)
        if problem:
            return problem
        if self.base.access.sizes != into:
            return f"the base loops over {self.base.access.sizes}"
        if len(into) != len(sizes) or any(
            n > m for d, (n, m) in enumerate(zip(sizes, into, strict=True)) if d != self.axis
        ):
            return "the source passes the output's sizes"
        if self.source.access.limits:
            return "the source is padded"
        if len({o.layout.lanes for o in (self.base, self.index, self.source, self.out)}) != 1:
            return "operands have different lane counts"
        if self.mode == "add":
            low, high = self._reach()
            if low < self.out.fmt.min or high > self.out.fmt.max:
                return f"sums of {sizes[self.axis]} elements do not fit {self.out.fmt}"
        last = len(into) - 1
        return self._reader.refusal() or writing_refusal(self.out, last)

    def _reach(self) -> tuple[int, int]:
        """Least and greatest sum, as stored integers."""
        count, ends = self.source.access.sizes[self.axis], []
        for fmt in (self.base.fmt, self.source.fmt):
            ends.append(narrowing(fmt, self.out.fmt).emulate([np.array([fmt.min, fmt.max])])[0])
        (low, high), (least, most) = ([int(v) for v in pair] for pair in ends)
        return low + count * min(least, 0), high + count * max(most, 0)

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "put"

    @property
    def _reader(self) -> Reader:
        """The reading end of the copy of the base."""
        last = len(self.out.access.sizes) - 1
        loops = word_loops(self.out.access.sizes, last, self.out.layout.lanes)
        return Reader(narrowing(self.base.fmt, self.out.fmt), (self.base,), loops, last)

    @property
    def _expr(self) -> Expr:
        return narrowing(self.source.fmt, self.out.fmt)

    @property
    def rows(self) -> bool:
        """Whether a step writes a word."""
        last = len(self.out.access.sizes) - 1
        whole = self.source.access.sizes[last] == self.out.access.sizes[last]
        readable = not reading_mode(self.source, last).startswith("no: ")
        return whole and readable and one_index_a_row(self.index, self.axis)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of the writes."""
        sizes = self.source.access.sizes
        if self.rows:
            return word_loops(sizes, len(sizes) - 1, self.out.layout.lanes)
        return tuple(Loop(size, d) for d, size in enumerate(sizes))

    @property
    def _wait(self) -> int:
        """Cycles a write waits beyond its address: for the copy's last word and for its narrowed value."""
        return max(0, self._reader.latency - LATENCY, latency(self._expr) - LATENCY)

    @property
    def _copies(self) -> int:
        return product(loop.size for loop in self._reader.loops)

    @property
    def _writes(self) -> int:
        return product(loop.size for loop in self.loops)

    def ports(self) -> tuple[Port, ...]:
        """x0 (base), x1 (index), x2 (source) and y, which is read as well."""
        return (
            Port("x0", self.base, "read"),
            Port("x1", self.index, "read"),
            Port("x2", self.source, "read"),
            Port("y", self.out, "write"),
        )

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """The copy, two cycles a write, the pipeline's depth."""
        return self._copies + 2 * self._writes + LATENCY + self._wait

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.source.access.sizes)

    def cost(self) -> Cost:
        """The addresses; an adder or comparator for each lane that a step writes."""
        lanes = self.out.layout.lanes if self.rows else 1
        return Cost(0, 5 + (lanes if self.mode != "set" else 0), self.out.width)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact."""
        values, cut = self._reader.expr.emulate([self.base.access.read(arrays[0])])
        source, more = self._expr.emulate([self.source.access.read(arrays[2])])
        index = self.index.access.read(arrays[1])
        inside = on_axis(index, self.out.access.sizes[self.axis])
        result = np.array(np.broadcast_to(values, self.out.access.sizes), dtype=np.int64)
        grid = list(np.nonzero(inside))
        grid[self.axis] = index[inside]
        written = np.broadcast_to(source, index.shape)[inside]
        if self.mode == "set":
            for place, value in zip(zip(*grid, strict=True), written, strict=True):
                result[place] = value  # one by one: the last of equal places stays
        else:
            _AT[self.mode](result, tuple(grid), written)
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, result)
        return Emulated((out,), cut + more)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, x2, y."""
        name = f"put_{digest((self, tuple(sorted(words.items()))))}"
        made = prog.find(name)
        if made is not None:
            return made
        c = prog.component(name, latency=self.cycles())
        trips = self._copies + 2 * self._writes
        issue = c.run(trips, self.cycles() - trips)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        count = Nest(c, [trips], issue).counters[0]
        assert count is not None, "a copy and a write take three cycles at least"
        copying = c.below(count, self._copies)
        writing = c.and_(issue, c.not_(copying))
        second = c.register(1)  # the cycle in which the word before is written
        second.set(c.not_(second.q), writing)
        copied = self._copy(c, c.and_(issue, copying), memories)
        self._write(c, c.and_(writing, c.not_(second.q)), memories, words["y"], copied)
        return c

    def _copy(
        self, c: Component, step: Signal, memories: Mapping[str, Memory]
    ) -> tuple[Signal, Signal, Signal]:
        """(enable, address, word) of the copy of the base."""
        reader = self._reader
        nest = Nest(c, [loop.size for loop in reader.loops], step)
        lanes = reader.build(c, nest, [memories["x0"]])
        late = c.delay(step, reader.latency)
        base, steps = strides(self.out, reader.loops)
        count = self.out.layout.lanes
        pointer = Nest(c, nest.sizes, late).pointer(
            [s // count if n > 1 else 0 for s, n in zip(steps, nest.sizes, strict=True)],
            base // count,
            memories["y"].address_bits,
        )
        return late, pointer, c.concat([c.resize(lane, self.out.fmt.width) for lane in lanes])

    def _write(
        self,
        c: Component,
        step: Signal,
        memories: Mapping[str, Memory],
        words: int,
        copied: tuple[Signal, Signal, Signal],
    ) -> None:
        """The port of the output: words of the copy, then a read and a write for each step."""
        nest = Nest(c, [loop.size for loop in self.loops], step)
        size = self.out.access.sizes[self.axis]
        place = find(
            c, nest, self.loops, self.index, memories["x1"], self.out, self.axis, size, words, rows=self.rows
        )
        enable = c.delay(step, LATENCY)
        if place.inside is not None:
            enable = c.and_(enable, place.inside)
        reading, address = c.delay(enable, self._wait), c.delay(place.word, self._wait)
        written = c.delay(reading, 1)
        y, (copy, copy_address, copy_word) = memories["y"], copied
        word = self._changed(
            c, self._values(c, nest, memories["x2"]), place, Signal(f"{y.name}.read_data", y.width)
        )
        second = c.mux(written, c.delay(address, 1), address)
        c.connect(f"{y.name}.addr0", c.mux(copy, copy_address, second))
        c.connect(f"{y.name}.content_en", c.or_(copy, c.or_(reading, written)))
        c.connect(f"{y.name}.write_en", c.or_(copy, written))
        c.connect(f"{y.name}.write_data", c.mux(copy, copy_word, word))

    def _values(self, c: Component, nest: Nest, memory: Memory) -> list[Signal]:
        """The narrowed source of a step, when its old word has arrived."""
        last = len(self.out.access.sizes) - 1
        vector = self.rows and reading_mode(self.source, last) == "vector"
        lanes = read_operand(c, nest, self.loops, self.source, memory, vector=vector)
        values = []
        for lane in lanes if self.rows else lanes[:1]:
            unit = c.instance(lane_component(c.program, self._expr))
            unit.drive(i0=c.resize(lane, self._expr.inputs[0].width))
            values.append(c.delay(unit.get("y"), LATENCY + self._wait - latency(self._expr)))
        return values

    def _changed(self, c: Component, values: list[Signal], place: Place, word: Signal) -> Signal:
        """The word with the step's elements written into it."""
        fmt, old = self.out.fmt, element_lanes(c, self.out, word)
        if place.lane is None:
            pairs = zip(old, values, strict=True)
            return c.concat([c.slice(self._merge(c, o, v), 0, fmt.width) for o, v in pairs])
        lane = c.delay(place.lane, self._wait + 1)
        new = c.slice(self._merge(c, c.select(old, lane), values[0]), 0, fmt.width)
        if len(old) == 1:
            return new
        raw = c.split(word, len(old))
        return c.concat([c.mux(c.equals(lane, n), new, part) for n, part in enumerate(raw)])

    def _merge(self, c: Component, old: Signal, new: Signal) -> Signal:
        width = old.width
        new = c.resize(new if self.out.fmt.signed else c.pad(new, new.width + 1), width)
        if self.mode == "set":
            return new
        if self.mode == "add":
            return c.add(old, new, width)
        return c.maximum(old, new, width) if self.mode == "max" else c.minimum(old, new, width)


def put(mode: PutMode, operands: tuple[Operand, Operand, Operand], axis: int, out: Operand) -> Put:
    """The kernel, dimensions of one element dropped; KernelParameterError as `Put`.

    operands: base, index and source.
    """
    sizes, into = operands[2].access.sizes, out.access.sizes
    if len(sizes) != len(into) or operands[1].access.sizes != sizes or not 0 <= axis < len(into):
        return Put(mode, *operands, out, axis)  # which says why not
    # Writes to different elements have no order, so an axis of one element may stand in front.
    order = squeezed(into, axis)
    base, index, source, out = (turned(operand, order) for operand in (*operands, out))
    return Put(mode, base, index, source, out, order.index(axis))
