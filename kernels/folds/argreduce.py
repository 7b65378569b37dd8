"""Index of the greatest or smallest element over some dimensions; the first of equal ones wins.

Equation: out[k] = the least r, counted row-major over the folded dimensions, with x[k, r] = max (or min)
over r of x[k, r].
Interface: memories x0, y. Cycles: steps + 2 + the tree across the lanes + the writing end; steps as in
`reduce`.
Numbers: comparisons are exact; the output is an integer format that holds every index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ..arith.expr import Value, narrowing
from ..arith.numerics import IntArray, ceil_div, index_bits, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.assemble import assemble
from ..ports.domains import split_domain
from ..ports.epilogue import epilogue_problem, written
from ..ports.reader import LaneRole, Reader
from ..ports.stage import Stage, word_loops
from ..rtl.hw import Component, Program, Signal, digest
from ..rtl.loops import Loop, Nest
from .fold import cuts, levels, mask_lanes, tree_latency

ArgOp: TypeAlias = Literal["max", "min"]

_ROLES: tuple[LaneRole, ...] = ("kept", "folded", "single")


@dataclass(frozen=True, slots=True)
class ArgReduce:
    """The index of the greatest or smallest element over some dimensions.

    source: access over (kept dimensions..., folded dimensions...), `kept` of the first kind.
    out: access over the kept dimensions, the last one over the lanes. Use `arg_reduce(...)`, which merges
    dimensions and takes the fastest role of the lanes. Raises KernelParameterError when a memory cannot be
    read or written so, or the output's format does not hold every index.
    """

    op: ArgOp
    source: Operand
    out: Operand
    kept: int
    lanes: LaneRole

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            where = f"over {self.sizes[: self.kept]}, folding {self.sizes[self.kept :]}"
            raise KernelParameterError(f"arg{self.op} kernel {where}: {problem}")

    def _problem(self) -> str | None:
        if self.op not in ("max", "min"):
            return "the operation is not one of max, min"
        if not 1 <= self.kept < len(self.sizes):
            return "it needs at least one kept and one folded dimension"
        if self.sizes[: self.kept] != self.out.access.sizes:
            return f"the output loops over {self.out.access.sizes}"
        if self.source.layout.lanes != self.out.layout.lanes:
            return f"{self.source.layout.lanes} lanes, the output has {self.out.layout.lanes}"
        if self.out.fmt.frac or self.out.fmt.max < self.count - 1:
            return f"{self.out.fmt} does not hold the indices 0 to {self.count - 1}"
        index = Value(0, 0, self.count - 1)
        problem = self.reader.refusal()
        return problem or epilogue_problem(index, narrowing(index, self.out.fmt), (), self.out)

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "argreduce"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The whole domain."""
        return self.source.access.sizes

    @property
    def count(self) -> int:
        """Elements compared for one result."""
        return product(self.sizes[self.kept :])

    @property
    def reader(self) -> Reader:
        """The reading end: elements as they are."""
        roles: dict[LaneRole, int | None] = {"kept": self.kept - 1, "folded": len(self.sizes) - 1}
        lane_dim, lanes = roles.get(self.lanes), self.out.layout.lanes
        loops = tuple(
            Loop(ceil_div(size, lanes), d, lanes) if d == lane_dim else Loop(size, d)
            for d, size in enumerate(self.sizes)
        )
        return Reader(narrowing(self.source.fmt, self.source.fmt), (self.source,), loops, lane_dim)

    @property
    def writer(self) -> Stage:
        """The writing end: indices in the output's format."""
        sizes, lane_dim = self.out.access.sizes, self.kept - 1
        loops = word_loops(sizes, lane_dim, self.out.layout.lanes)
        return Stage(narrowing(Value(0, 0, self.count - 1), self.out.fmt), (None,), self.out, lane_dim, loops)

    @property
    def valid_lanes(self) -> int:
        """Lanes in use in the last word of a folded row; 0 when that word is full."""
        return self.sizes[-1] % self.out.layout.lanes if self.lanes == "folded" else 0

    @property
    def tree(self) -> int:
        """Registers of the tree across the lanes."""
        return tree_latency(self.out.layout.lanes if self.lanes == "folded" else 1, self.valid_lanes > 0)

    @property
    def steps(self) -> int:
        """Words (or elements) read."""
        return product(loop.size for loop in self.reader.loops)

    def ports(self) -> tuple[Port, ...]:
        """x0 and y."""
        return Port("x0", self.source, "read"), Port("y", self.out, "write")

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def cycles(self) -> int:
        """Steps + pipeline depth."""
        return self.steps + self.reader.latency + self.tree + 1 + self.writer.depth

    def useful_operations(self) -> int:
        """Elements compared."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """Comparators of the tree and the accumulators; the best values and indices so far."""
        width = self.reader.width
        best = width if self.lanes == "kept" else 1
        held = best * (self.source.fmt.width + index_bits(self.count))
        return Cost(0, width + best, held + self.reader.register_bits)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact."""
        values = self.source.access.read(arrays[0]).reshape(*self.sizes[: self.kept], -1)
        index = np.argmax(values, axis=-1) if self.op == "max" else np.argmin(values, axis=-1)
        out, saturated = written(self.writer.expr, index, (), (), self.out)
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, y."""
        name = f"argreduce_{digest((self, tuple(sorted(words.items()))))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(self.steps, self.cycles() - self.steps)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        nest = Nest(c, [loop.size for loop in self.reader.loops], step)
        lanes = self.reader.build(c, nest, [memories["x0"]])
        arrived = self.reader.latency + self.tree
        base = c.delay(self._flat_index(nest), arrived)
        if self.lanes == "folded":
            pairs = [self._best_lane(c, nest, lanes, base)]
        else:
            pairs = [(lane, base) for lane in lanes]
        word = [self._keep_best(c, nest, value, index, arrived) for value, index in pairs]
        full = c.delay(nest.carry(self.kept), arrived + 1)
        if self.lanes != "kept":
            word, full = assemble(c, word[0], full, self.out.access.sizes[-1], self.out.layout.lanes)
        self.writer.build(c, full, {0: word}, {}, memories["y"])
        return c

    def _flat_index(self, nest: Nest) -> Signal:
        """Index of the step's (first) element."""
        strides, step = [0] * len(self.sizes), 1
        for d in range(len(self.sizes) - 1, self.kept - 1, -1):
            strides[d] = step * self.reader.loops[d].scale
            step *= self.sizes[d]
        return nest.pointer(strides, 0, index_bits(self.count))

    def _better(self, c: Component, challenger: Signal, holder: Signal) -> Signal:
        return c.less(holder, challenger) if self.op == "max" else c.less(challenger, holder)

    def _best_lane(
        self, c: Component, nest: Nest, lanes: Sequence[Signal], base: Signal
    ) -> tuple[Signal, Signal]:
        """The best lane's value and index; of equal lanes the first, so masked lanes never win."""
        if self.valid_lanes:
            last = c.delay(nest.carry(len(nest.sizes) - 1), self.reader.latency)
            lanes = mask_lanes(c, self.op, self.reader.value, lanes, self.valid_lanes, last)
        bits = index_bits(len(lanes))
        row = [(value, c.const(number, bits)) for number, value in enumerate(lanes)]
        for level, cut in enumerate(cuts(levels(len(lanes)) + 1, self.valid_lanes > 0)):
            if cut:
                row = [(c.delay(value, 1), c.delay(number, 1)) for value, number in row]
            if level == levels(len(lanes)):
                break
            pairs = [row[i : i + 2] for i in range(0, len(row), 2)]
            row = [self._winner(c, p[0], p[1]) if len(p) == 2 else p[0] for p in pairs]
        value, number = row[0]
        width = max(base.width, bits)
        total = c.add(c.pad(base, width), c.pad(number, width), width)
        return value, c.slice(total, 0, base.width)

    def _winner(
        self, c: Component, left: tuple[Signal, Signal], right: tuple[Signal, Signal]
    ) -> tuple[Signal, Signal]:
        take = self._better(c, right[0], left[0])
        return c.mux(take, right[0], left[0]), c.mux(take, right[1], left[1])

    def _keep_best(self, c: Component, nest: Nest, value: Signal, index: Signal, arrived: int) -> Signal:
        """Index of the best element so far, as a signed number, one cycle later."""
        first, valid = c.delay(nest.first(self.kept), arrived), c.delay(nest.step, arrived)
        best, place = c.register(value.width), c.register(index.width)
        take = c.or_(first, self._better(c, value, best.q))
        best.set(c.mux(take, value, best.q), valid)
        place.set(c.mux(take, index, place.q), valid)
        return c.pad(place.q, index.width + 1)


def arg_reduce(op: ArgOp, source: Operand, reduced: Sequence[int], out: Operand) -> ArgReduce:
    """The fastest kernel for the index, row-major over the dimensions `reduced` of the source's domain.

    out: access over the other dimensions, in their order. Raises KernelParameterError as `ArgReduce`.
    """
    found: list[ArgReduce] = []
    problems: list[KernelParameterError] = []
    for accesses, kept, _ in split_domain([source], tuple(reduced), [out], ordered=True):
        parts = [replace(o, access=a) for o, a in zip((source, out), accesses, strict=True)]
        for role in _ROLES:
            try:
                found.append(ArgReduce(op, parts[0], parts[1], kept, role))
            except KernelParameterError as problem:
                problems.append(problem)
    if not found:
        raise problems[-1]
    return min(found, key=ArgReduce.cycles)


def refusal(op: ArgOp, source: Operand, reduced: Sequence[int], out: Operand) -> str | None:
    """Why `arg_reduce` refuses (None: it does not)."""
    try:
        arg_reduce(op, source, reduced, out)
    except KernelParameterError as problem:
        return str(problem)
    return None
