"""Relayout that moves the lanes to another dimension, in square blocks: about one word a cycle.

Equation: out[i] = narrow(source[i]); along dimension `along` the source's elements are neighbours in a
word, along the last dimension the output's.
Interface: memories x0, y.
Cycles: blocks * slots + slots + 1 + the latency of the narrowing; a block is lanes x lanes elements, its
slots are the lanes, or less where both dimensions are shorter. A block's words come in while those of the
block before leave.
Numbers: as the expression says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..arith.expr import Expr
from ..arith.numerics import IntArray, ceil_div, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.stage import Stage, coalesce, reading_mode, strides, writing_refusal
from ..rtl.hw import Component, Memory, Program, Signal, digest
from ..rtl.lane import latency
from ..rtl.loops import Loop, Nest


@dataclass(frozen=True, slots=True)
class Transpose:
    """A relayout that moves the lanes to another dimension, in square blocks.

    source, out: accesses over one domain, the output's lanes along its last dimension.
    Use `transpose(...)`. Raises KernelParameterError when the source is not read by whole words along
    `along`, the output not written by whole words, or the expression does not fit.
    """

    source: Operand
    expr: Expr
    out: Operand
    along: int

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise KernelParameterError(f"transpose kernel over {self.out.access.sizes}: {problem}")

    def _problem(self) -> str | None:
        last = len(self.sizes) - 1
        if self.source.access.sizes != self.sizes:
            return f"the source loops over {self.source.access.sizes}"
        if not 0 <= self.along < last:
            return f"dimension {self.along} is not one before the last"
        if self.source.layout.lanes != self.out.layout.lanes:
            return f"{self.source.layout.lanes} lanes, the output has {self.out.layout.lanes}"
        if self.source.access.limits:
            return "the source is padded"
        if len(self.expr.inputs) != 1 or self.expr.multiplications:
            return "its expression must have one operand and no multiplication"
        if self.expr.out != self.out.fmt:
            return f"its expression gives {self.expr.out}, the output holds {self.out.fmt}"
        mode = reading_mode(self.source, self.along)
        if mode != "vector":
            return f"source: {mode.removeprefix('no: ')} along dimension {self.along}"
        problem = writing_refusal(self.out, last)
        return f"output: {problem}" if problem else None

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "transpose"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain."""
        return self.out.access.sizes

    @property
    def lanes(self) -> int:
        """Elements of a word."""
        return self.out.layout.lanes

    @property
    def slots(self) -> int:
        """Cycles of a block."""
        return min(self.lanes, max(self.sizes[self.along], self.sizes[-1]))

    @property
    def blocks(self) -> tuple[Loop, ...]:
        """The loops over blocks: outer dimensions, then both block dimensions."""
        outer = [Loop(n, d) for d, n in enumerate(self.sizes[:-1]) if d != self.along]
        last = len(self.sizes) - 1
        pair = [Loop(ceil_div(self.sizes[d], self.lanes), d, self.lanes) for d in (self.along, last)]
        return (*outer, *pair)

    @property
    def steps(self) -> int:
        """Slots of all blocks."""
        return product(loop.size for loop in self.blocks) * self.slots

    @property
    def writer(self) -> Stage:
        """The writing end: in each slot the word of one index of `along`."""
        loops = (*self.blocks, Loop(self.slots, self.along))
        return Stage(self.expr, (None,), self.out, len(self.sizes) - 1, loops)

    def ports(self) -> tuple[Port, ...]:
        """x0 and y."""
        return Port("x0", self.source, "read"), Port("y", self.out, "write")

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """Slots + one block + pipeline depth."""
        return self.steps + self.slots + 1 + latency(self.expr)

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """Two address adders; a block that arrives and a block that leaves."""
        return Cost(0, 2, 2 * self.slots * self.source.width)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact."""
        values, saturated = self.expr.emulate([self.source.access.read(arrays[0])])
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, np.broadcast_to(values, self.sizes))
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, y."""
        name = f"transpose_{digest((self, tuple(sorted(words.items()))))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(self.steps, self.cycles() - self.steps)
        source = c.memory_ref("x0", self.source.width, words["x0"])
        y = c.memory_ref("y", self.out.width, words["y"])
        nest = Nest(c, [*(loop.size for loop in self.blocks), self.slots], step)
        block = self._collect(c, nest, source)
        column = [c.slice(word, 0, self.source.fmt.width) for word in block]
        column += [column[0]] * (self.lanes - self.slots)  # lanes behind the row's end
        if not self.source.fmt.signed:
            column = [c.pad(element, element.width + 1) for element in column]
        keep = self._within(c, nest, len(self.blocks) - 2, self.along)
        wait = self.slots + 1
        self.writer.build(c, c.delay(step, wait), {0: column}, {}, y, keep=c.delay(keep, wait))
        return c

    def _within(self, c: Component, nest: Nest, loop: int, dim: int) -> Signal:
        """1 in the slots that lie within dimension `dim`, whose blocks are counted by `loop`."""
        slot, rest = nest.counters[-1], self.sizes[dim] - (nest.sizes[loop] - 1) * self.lanes
        if slot is None or rest >= self.slots:
            return c.const(1, 1)
        inside, blocks = c.below(slot, rest), nest.counters[loop]
        return inside if blocks is None else c.or_(inside, c.below(blocks, nest.sizes[loop] - 1))

    def _collect(self, c: Component, nest: Nest, memory: Memory) -> list[Signal]:
        """The words of a block, `slots` + 1 cycles after their slots; each moves on by one lane a cycle."""
        loops = (*self.blocks, Loop(self.slots, len(self.sizes) - 1))
        base, steps = strides(self.source, loops)
        whole = [s // self.lanes if n > 1 else 0 for s, n in zip(steps, nest.sizes, strict=True)]
        address = nest.pointer(whole, base // self.lanes, memory.address_bits)
        within = self._within(c, nest, len(self.blocks) - 1, len(self.sizes) - 1)
        data = c.read(memory, address, c.and_(nest.step, within))
        slot, arrived = nest.counters[-1], c.delay(nest.step, 1)
        complete = c.delay(nest.carry(len(nest.sizes) - 1), 1)
        width, element = self.source.width, self.source.fmt.width
        block = []
        for place in range(self.slots):
            word = data
            if slot is not None and place < self.slots - 1:
                word = c.hold(data, c.and_(arrived, c.delay(c.equals(slot, place), 1)))
            leaving = c.register(width)
            moved = leaving.q
            if self.lanes > 1:
                moved = c.pad(c.slice(moved, element, width - element), width)
            block.append(leaving.set(c.mux(complete, word, moved)))
        return block


def transpose(source: Operand, expr: Expr, out: Operand) -> Transpose:
    """The fastest such kernel over the merged dimensions; KernelParameterError as `Transpose`."""
    domain = out.access.sizes
    if source.access.sizes != domain:
        raise KernelParameterError(
            f"transpose kernel over {domain}: the source loops over {source.access.sizes}"
        )
    merged = coalesce([source.access, out.access])
    parts = replace(source, access=merged[0]), replace(out, access=merged[1])
    found: list[Transpose] = []
    problem: KernelParameterError | None = None
    for along in range(len(merged[0].sizes) - 1):
        try:
            found.append(Transpose(parts[0], expr, parts[1], along))
        except KernelParameterError as refused:
            problem = refused
    if not found:
        raise problem or KernelParameterError(
            f"transpose kernel over {domain}: source and output have their lanes on one dimension"
        )
    return min(found, key=Transpose.cycles)
