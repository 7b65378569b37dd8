"""Running folds along one dimension: cumulative sum, maximum or minimum.

Equation: out[.., i, ..] = epilogue(fold over j <= i of prologue(operand_0[.., j, ..], ...)).
Interface: memories x0, x1, ..., y; the engine when an expression multiplies.
Cycles: steps + reading and prologue + lane prefix + 1 + the writing end. A step is a word where the lanes
run over another dimension (one accumulator per lane) or over the scanned one (a prefix network across the
lanes, then the carry of the row), else a single element.
Numbers: accumulators are exact, as wide as the dimension's length needs; each result is narrowed by the
epilogue alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arith.expr import Expr, Value
from ..arith.numerics import IntArray, ceil_div, product
from ..contract import Cost, Emulated, KernelParameterError, Port
from ..engine.engine import engine_ref
from ..engine.spec import EngineSpec
from ..ports.access import Access, Operand
from ..ports.assemble import assemble
from ..ports.epilogue import epilogue_problem, written
from ..ports.reader import LaneRole, Reader, result_value, two_ends_engine
from ..ports.stage import Stage, coalesce, word_loops
from ..rtl.hw import Component, Program, Signal, digest
from ..rtl.loops import Loop, Nest
from .fold import (
    FOLD_OPS,
    FoldOp,
    accumulator,
    combine,
    cuts,
    fold_running,
    levels,
    neutral,
    signal_width,
    tree_latency,
)

__all__ = ["Scan", "accumulator", "refusal", "scan"]

_OUTER: tuple[LaneRole, ...] = ("kept",)
_INNERMOST: tuple[LaneRole, ...] = ("folded", "single")


@dataclass(frozen=True, slots=True)
class Scan:
    """A running sum, maximum or minimum along one dimension.

    dim: the scanned dimension of the domain. lanes: "kept" when they run over another one, the last.
    Use `scan(...)`, which merges dimensions and takes the fastest role of the lanes. Raises
    KernelParameterError when a memory cannot be read or written so, or an expression does not fit.
    """

    op: FoldOp
    prologue: Expr
    operands: tuple[Operand, ...]
    epilogue: Expr
    out: Operand
    dim: int
    lanes: LaneRole
    mul_stages: int = 1

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            sizes = self.operands[0].access.sizes if self.operands else ()
            where = f"along dimension {self.dim} of {sizes}"
            raise KernelParameterError(f"scan kernel ({self.op}) {where}: {problem}")

    def _problem(self) -> str | None:
        if self.op not in FOLD_OPS:
            return f"the operation is not one of {', '.join(FOLD_OPS)}"
        if not self.operands:
            return "it needs at least one operand"
        if self.sizes != self.out.access.sizes:
            return f"the output loops over {self.out.access.sizes}"
        if not 0 <= self.dim < len(self.sizes):
            return "there is no such dimension"
        if (self.lanes == "kept") != (self.dim != len(self.sizes) - 1):
            return f"the lanes cannot be {self.lanes} there"
        if self.operands[0].layout.lanes != self.out.layout.lanes:
            return f"{self.operands[0].layout.lanes} lanes, the output has {self.out.layout.lanes}"
        return self.reader.refusal() or epilogue_problem(self.total, self.epilogue, (), self.out)

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "scan"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain."""
        return self.operands[0].access.sizes

    @property
    def total(self) -> Value:
        """Range of the accumulators."""
        return accumulator(self.op, result_value(self.prologue), self.sizes[self.dim])

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The scanned dimension innermost; the lanes in words."""
        lane_dim, lanes = None if self.lanes == "single" else len(self.sizes) - 1, self.out.layout.lanes
        order = [*(d for d in range(len(self.sizes)) if d != self.dim), self.dim]
        return tuple(
            Loop(ceil_div(self.sizes[d], lanes), d, lanes) if d == lane_dim else Loop(self.sizes[d], d)
            for d in order
        )

    @property
    def reader(self) -> Reader:
        """The reading end."""
        lane_dim = None if self.lanes == "single" else len(self.sizes) - 1
        return Reader(self.prologue, self.operands, self.loops, lane_dim, self.mul_stages)

    @property
    def writer(self) -> Stage:
        """The writing end: a word each step, or an assembled one."""
        lane_dim = len(self.sizes) - 1
        single = self.lanes == "single"
        loops = word_loops(self.sizes, lane_dim, self.out.layout.lanes) if single else self.loops
        return Stage(self.epilogue, (None,), self.out, lane_dim, loops, self.mul_stages)

    @property
    def prefix(self) -> int:
        """Registers of the prefix network across the lanes."""
        return tree_latency(self.out.layout.lanes, False) if self.lanes == "folded" else 0

    @property
    def steps(self) -> int:
        """Words (or elements) read."""
        return product(loop.size for loop in self.loops)

    def ports(self) -> tuple[Port, ...]:
        """x0, x1, ... and y."""
        reads = tuple(Port(f"x{i}", o, "read") for i, o in enumerate(self.operands))
        return (*reads, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """What both expressions multiply."""
        return two_ends_engine(self.reader, self.epilogue, self.out.layout.lanes)

    def cycles(self) -> int:
        """Steps + pipeline depth."""
        return self.steps + self.reader.latency + self.prefix + 1 + self.writer.depth

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """Adders of the prefix network and the accumulators; these and both pipelines."""
        lanes, width = self.out.layout.lanes, self.reader.width
        adders = width * (1 + (levels(lanes) if self.lanes == "folded" else 0))
        pairs = self.reader.pairs + self.epilogue.multiplications * lanes
        pipelines = self.reader.register_bits + self.writer.register_bits
        return Cost(pairs, adders, width * self.total.width + pipelines)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; saturations of both expressions."""
        values = [o.access.read(a) for o, a in zip(self.operands, arrays, strict=True)]
        terms, before = self.prologue.emulate(values)
        sums = fold_running(self.op, np.broadcast_to(terms, self.sizes), self.dim, self.total)
        out, after = written(self.epilogue, sums, (), (), self.out)
        return Emulated((out,), before + after)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, ..., y and, for multiplications, engine."""
        need = self.engine()
        name = f"scan_{digest((self, tuple(sorted(words.items())), engine if need else None))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(self.steps, self.cycles() - self.steps)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        unit = engine_ref(c, prog, engine) if need else None
        nest = Nest(c, [loop.size for loop in self.loops], step)
        reads = [memories[f"x{i}"] for i in range(len(self.operands))]
        lanes = self.reader.build(c, nest, reads, unit)
        word = self._carried(c, nest, lanes) if self.lanes == "folded" else self._accumulated(c, nest, lanes)
        full = c.delay(step, self.reader.latency + self.prefix + 1)
        if self.lanes == "single":
            word, full = assemble(c, word[0], full, self.sizes[-1], self.out.layout.lanes)
        self.writer.build(c, full, {0: word}, {}, memories["y"], engine=unit, first_pair=self.reader.pairs)
        if unit is not None:
            unit.idle()
        return c

    @property
    def _width(self) -> int:
        return signal_width(self.op, self.reader.value, self.sizes[self.dim])

    def _accumulated(self, c: Component, nest: Nest, lanes: Sequence[Signal]) -> list[Signal]:
        """One accumulator per lane."""
        first = c.delay(nest.first(len(nest.sizes) - 1), self.reader.latency)
        valid = c.delay(nest.step, self.reader.latency)
        sums = []
        for lane in lanes:
            held = c.register(self._width)
            following = combine(c, self.op, held.q, lane, self._width)
            sums.append(held.set(c.mux(first, c.resize(lane, self._width), following), valid))
        return sums

    def _carried(self, c: Component, nest: Nest, lanes: Sequence[Signal]) -> list[Signal]:
        """Prefixes within the word, then the carry of the words before it."""
        row, value = list(lanes), self.reader.value
        for level, cut in enumerate(cuts(levels(len(lanes)) + 1, False)):
            if cut:
                row = [c.delay(s, 1) for s in row]
            if level == levels(len(lanes)):
                break
            reach, width = 2**level, signal_width(self.op, value, min(2 ** (level + 1), len(lanes)))
            row = [
                combine(c, self.op, s, row[i - reach], width) if i >= reach else c.resize(s, width)
                for i, s in enumerate(row)
            ]
        arrived = self.reader.latency + self.prefix
        first = c.delay(nest.first(len(nest.sizes) - 1), arrived)
        carry = c.register(self._width)
        before = c.mux(first, c.const(neutral(self.op, value), self._width), carry.q)
        sums = [combine(c, self.op, s, before, self._width) for s in row]
        carry.set(sums[-1], c.delay(nest.step, arrived))
        return [*(c.delay(s, 1) for s in sums[:-1]), carry.q]


def scan(
    op: FoldOp,
    prologue: Expr,
    operands: Sequence[Operand],
    dim: int,
    epilogue: Expr,
    out: Operand,
    mul_stages: int = 1,
) -> Scan:
    """The fastest kernel that folds along `dim` and writes every partial result; all loop over one domain.

    epilogue: its input is the accumulator, in range `accumulator(op, result of the prologue, size of dim)`.
    Raises KernelParameterError as `Scan`.
    """
    found: list[Scan] = []
    problems: list[KernelParameterError] = []
    everything = (*operands, out)
    for accesses, place in _domains([o.access for o in everything], dim):
        parts = tuple(replace(o, access=a) for o, a in zip(everything, accesses, strict=True))
        for role in _INNERMOST if place == len(parts[0].access.sizes) - 1 else _OUTER:
            try:
                found.append(Scan(op, prologue, parts[:-1], epilogue, parts[-1], place, role, mul_stages))
            except KernelParameterError as problem:
                problems.append(problem)
    if not found:
        raise problems[-1]
    return min(found, key=Scan.cycles)


def refusal(
    op: FoldOp, prologue: Expr, operands: Sequence[Operand], dim: int, epilogue: Expr, out: Operand
) -> str | None:
    """Why `scan` refuses (None: it does not)."""
    try:
        scan(op, prologue, operands, dim, epilogue, out)
    except KernelParameterError as problem:
        return str(problem)
    return None


def _domains(accesses: Sequence[Access], dim: int) -> list[tuple[tuple[Access, ...], int]]:
    """Accesses and place of `dim`: dimensions on either side of it merged, then as they are."""
    sizes = accesses[0].sizes
    if any(a.sizes != sizes for a in accesses) or not 0 <= dim < len(sizes):
        raise KernelParameterError(f"cannot scan dimension {dim} of {[a.sizes for a in accesses]}")
    if sizes[dim] == 1:  # nothing to fold: any place will do, the first keeps the lanes' dimension last
        order = (dim, *(d for d in range(len(sizes)) if d != dim))
        accesses = [a.permute(order) for a in accesses]
        sizes, dim = accesses[0].sizes, 0
    before = coalesce([a.permute(tuple(range(dim))) for a in accesses])
    after = coalesce([a.permute(tuple(range(dim + 1, len(sizes)))) for a in accesses])
    merged = []
    for a, head, tail in zip(accesses, before, after, strict=True):
        steps = tuple((*h, s[dim], *t) for h, s, t in zip(head.steps, a.steps, tail.steps, strict=True))
        merged.append(a.over((*head.sizes, sizes[dim], *tail.sizes), steps))
    plain = [(tuple(accesses), dim)] if merged[0].sizes != sizes else []
    return [(tuple(merged), len(before[0].sizes)), *plain]
