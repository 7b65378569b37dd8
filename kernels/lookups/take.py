"""Reads at computed indices: rows of a table a word a cycle, or single elements.

Equation: out[d] = table[d with d[axis] replaced by index[d]] for d over the output's domain; 0 where the
index leaves the axis.
Interface: memories x0 (table), x1 (index), y. The table's domain is the output's but for the size of `axis`.
Cycles: steps + 3. A step is a word where the index is the same along the last dimension, whose words the
table and the output hold aligned (an embedding reads so); else it is one element.
Numbers: elements are moved, not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arith.expr import narrowing
from ..arith.numerics import IntArray, index_bits, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.assemble import assemble
from ..ports.stage import Stage, element_lanes, reading_mode, word_loops, writing_refusal
from ..rtl.hw import Component, Program, digest
from ..rtl.loops import Loop, Nest
from .place import LATENCY, find, index_refusal, on_axis, one_index_a_row, squeezed, turned

__all__ = ["Take", "take"]


@dataclass(frozen=True, slots=True)
class Take:
    """Elements of a table at computed indices along one axis.

    Use `take(...)`, which drops dimensions of one element. Raises KernelParameterError when the domains do
    not fit, the formats differ, or the output cannot be written by whole words.
    """

    table: Operand
    index: Operand
    out: Operand
    axis: int

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            shapes = f"{self.table.access.sizes} along dimension {self.axis} to {self.sizes}"
            raise KernelParameterError(f"take kernel from {shapes}: {problem}")

    def _problem(self) -> str | None:
        problem = index_refusal(self.index, self.sizes, self.axis)
        if problem:
            return problem
        have = list(self.table.access.sizes)
        if len(have) != len(self.sizes) or any(
            have[d] != size for d, size in enumerate(self.sizes) if d != self.axis
        ):
            return "table and output differ in another dimension"
        if self.table.fmt != self.out.fmt:
            return f"the table holds {self.table.fmt}, the output {self.out.fmt}"
        if self.table.access.limits:
            return "the table is padded"
        if len({o.layout.lanes for o in (self.table, self.index, self.out)}) != 1:
            return "operands have different lane counts"
        return writing_refusal(self.out, len(self.sizes) - 1)

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "take"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain of the output."""
        return self.out.access.sizes

    @property
    def rows(self) -> bool:
        """Whether a step reads a word."""
        last = len(self.sizes) - 1
        return one_index_a_row(self.index, self.axis) and reading_mode(self.table, last) == "vector"

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of the steps."""
        if self.rows:
            return word_loops(self.sizes, len(self.sizes) - 1, self.out.layout.lanes)
        return tuple(Loop(size, d) for d, size in enumerate(self.sizes))

    def ports(self) -> tuple[Port, ...]:
        """x0 (table), x1 (index) and y."""
        return Port("x0", self.table, "read"), Port("x1", self.index, "read"), Port("y", self.out, "write")

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """Steps + pipeline depth."""
        return product(loop.size for loop in self.loops) + LATENCY + 1

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """The address: pointers of both memories, the index's part and its sum; the word being filled."""
        bits = index_bits(self.table.layout.words * self.table.layout.lanes)
        return Cost(0, 4, LATENCY * bits + (0 if self.rows else self.out.width))

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; nothing saturates."""
        table, index = self.table.access.read(arrays[0]), self.index.access.read(arrays[1])
        inside = on_axis(index, self.table.access.sizes[self.axis])
        found = np.take_along_axis(table, np.where(inside, index, 0), self.axis)
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, np.where(inside, found, 0))
        return Emulated((out,), 0)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, y."""
        name = f"take_{digest((self, tuple(sorted(words.items()))))}"
        made = prog.find(name)
        if made is not None:
            return made
        c = prog.component(name, latency=self.cycles())
        depth = LATENCY + 1
        step = c.run(self.cycles() - depth, depth)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        nest, size = Nest(c, [loop.size for loop in self.loops], step), self.table.access.sizes[self.axis]
        place = find(
            c, nest, self.loops, self.index, memories["x1"], self.table, self.axis, size, words["x0"],
            rows=self.rows,
        )  # fmt: skip
        reading = c.delay(step, LATENCY)
        enable = reading if place.inside is None else c.and_(reading, place.inside)
        data = c.read(memories["x0"], place.word, enable)
        if place.inside is not None:
            data = c.mux(c.delay(place.inside, 1), data, c.const(0, data.width))
        word, full = element_lanes(c, self.table, data), c.delay(step, depth)
        if place.lane is not None:
            element = c.select(word, c.delay(place.lane, 1))
            word, full = assemble(c, element, full, self.sizes[-1], self.out.layout.lanes)
        last, lanes = len(self.sizes) - 1, self.out.layout.lanes
        keep, loops = narrowing(self.out.fmt, self.out.fmt), word_loops(self.sizes, last, lanes)
        Stage(keep, (None,), self.out, last, loops).build(c, full, {0: word}, {}, memories["y"])
        return c


def take(table: Operand, index: Operand, axis: int, out: Operand) -> Take:
    """The kernel, dimensions of one element dropped; KernelParameterError as `Take`.

    table: over the dimensions of `out`, with any size along `axis`. index: over the dimensions of `out`.
    """
    sizes = out.access.sizes
    if len(table.access.sizes) != len(sizes) or index.access.sizes != sizes or not 0 <= axis < len(sizes):
        return Take(table, index, out, axis)  # which says why not
    order = squeezed(sizes, axis)
    return Take(turned(table, order), turned(index, order), turned(out, order), order.index(axis))
