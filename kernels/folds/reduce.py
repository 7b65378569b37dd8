"""Reductions: sum, maximum or minimum over some dimensions, with expressions before and after.

Equation: out[k] = epilogue(fold over r of prologue(operand_0[k, r], ...), extra_0[k], ...).
Interface: memories x0, x1, ... (operands), e0, e1, ... (extras), y; the engine when an expression multiplies.
Cycles: steps + reading and prologue + lane tree + 1 + the writing end; a step is a word where the lanes run
over a kept dimension (one accumulator per lane) or over a folded one (a tree across the lanes), else a
single element.
Numbers: accumulators are as wide as the count needs and never overflow; only the expressions narrow.
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
from ..ports.access import Operand
from ..ports.assemble import assemble
from ..ports.domains import split_domain
from ..ports.epilogue import epilogue_problem, written
from ..ports.reader import LaneRole, Reader, result_value, two_ends_engine
from ..ports.stage import Stage, word_loops
from ..rtl.hw import Component, Program, Signal, digest
from ..rtl.loops import Loop, Nest
from .fold import (
    FOLD_OPS,
    FoldOp,
    accumulator,
    combine,
    fold_axes,
    fold_lanes,
    mask_lanes,
    mean_constant,
    signal_width,
    tree_latency,
)

__all__ = ["LaneRole", "Reduce", "accumulator", "mean_constant", "reduce", "refusal"]

_ROLES: tuple[LaneRole, ...] = ("kept", "folded", "single")
_OTHER_ROLES: tuple[LaneRole, ...] = ("folded",)


@dataclass(frozen=True, slots=True)
class Reduce:
    """A sum, maximum or minimum over some dimensions.

    operands: accesses over (kept dimensions..., folded dimensions...), `kept` of the first kind.
    out, extras: accesses over the kept dimensions, the last one over the lanes. Use `reduce(...)`, which
    orders and merges the dimensions and takes the fastest role of the lanes. Raises KernelParameterError
    when a memory cannot be read or written so, or an expression does not fit.
    """

    op: FoldOp
    prologue: Expr
    operands: tuple[Operand, ...]
    epilogue: Expr
    extras: tuple[Operand, ...]
    out: Operand
    kept: int
    lanes: LaneRole
    mul_stages: int = 1

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            sizes = self.operands[0].access.sizes if self.operands else ()
            where = f"over {sizes[: self.kept]}, folding {sizes[self.kept :]}"
            raise KernelParameterError(f"reduce kernel ({self.op}) {where}: {problem}")

    def _problem(self) -> str | None:
        if self.op not in FOLD_OPS:
            return f"the operation is not one of {', '.join(FOLD_OPS)}"
        if not self.operands:
            return "it needs at least one operand"
        if not 1 <= self.kept < len(self.sizes):
            return "it needs at least one kept and one folded dimension"
        if self.sizes[: self.kept] != self.out.access.sizes:
            return f"the output loops over {self.out.access.sizes}"
        if self.operands[0].layout.lanes != self.out.layout.lanes:
            return f"{self.operands[0].layout.lanes} lanes, the output has {self.out.layout.lanes}"
        problem = self.reader.refusal()
        return problem or epilogue_problem(self.total, self.epilogue, self.extras, self.out)

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "reduce"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The whole domain."""
        return self.operands[0].access.sizes

    @property
    def count(self) -> int:
        """Elements folded into one result."""
        return product(self.sizes[self.kept :])

    @property
    def total(self) -> Value:
        """Range of the accumulators."""
        return accumulator(self.op, result_value(self.prologue), self.count)

    @property
    def reader(self) -> Reader:
        """The reading end."""
        roles: dict[LaneRole, int | None] = {"kept": self.kept - 1, "folded": len(self.sizes) - 1}
        lane_dim, lanes = roles.get(self.lanes), self.out.layout.lanes
        loops = tuple(
            Loop(ceil_div(size, lanes), d, lanes) if d == lane_dim else Loop(size, d)
            for d, size in enumerate(self.sizes)
        )
        return Reader(self.prologue, self.operands, loops, lane_dim, self.mul_stages)

    @property
    def writer(self) -> Stage:
        """The writing end; input 0 of its expression is the accumulator."""
        sizes, lane_dim = self.out.access.sizes, self.kept - 1
        loops = word_loops(sizes, lane_dim, self.out.layout.lanes)
        return Stage(self.epilogue, (None, *self.extras), self.out, lane_dim, loops, self.mul_stages)

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
        """x0, x1, ..., e0, e1, ... and y."""
        reads = [Port(f"x{i}", o, "read") for i, o in enumerate(self.operands)]
        reads += [Port(f"e{i}", o, "read") for i, o in enumerate(self.extras)]
        return (*reads, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """What both expressions multiply."""
        return two_ends_engine(self.reader, self.epilogue, self.out.layout.lanes)

    def cycles(self) -> int:
        """Steps + pipeline depth."""
        return self.steps + self.reader.latency + self.tree + 1 + self.writer.depth

    def useful_operations(self) -> int:
        """Elements folded."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """Adders of both expressions, the tree and the accumulators; these and both pipelines."""
        lanes, width = self.out.layout.lanes, self.reader.width
        adders = self.prologue.adders * width + self.epilogue.adders * lanes
        accumulators = width if self.lanes == "kept" else 1
        held = (accumulators + (0 if self.lanes == "kept" else lanes - 1)) * self.total.width
        pairs = self.reader.pairs + self.epilogue.multiplications * lanes
        return Cost(pairs, adders + width, held + self.reader.register_bits + self.writer.register_bits)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; saturations of both expressions."""
        inputs, extras = arrays[: len(self.operands)], arrays[len(self.operands) :]
        values = [o.access.read(a) for o, a in zip(self.operands, inputs, strict=True)]
        terms, before = self.prologue.emulate(values)
        axes = tuple(range(self.kept, len(self.sizes)))
        sums = fold_axes(self.op, np.broadcast_to(terms, self.sizes), axes, self.total)
        out, after = written(self.epilogue, sums, self.extras, extras, self.out)
        return Emulated((out,), before + after)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories and, for multiplications, engine."""
        need = self.engine()
        name = f"reduce_{digest((self, tuple(sorted(words.items())), engine if need else None))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(self.steps, self.cycles() - self.steps)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        unit = engine_ref(c, prog, engine) if need else None
        nest = Nest(c, [loop.size for loop in self.reader.loops], step)
        reads = [memories[f"x{i}"] for i in range(len(self.operands))]
        lanes = self.reader.build(c, nest, reads, unit)
        word, full = self._accumulate(c, nest, lanes)
        streams = {0: [c.delay(s, self.writer.lead) for s in word]}
        extras = {i + 1: memories[f"e{i}"] for i in range(len(self.extras))}
        self.writer.build(c, full, streams, extras, memories["y"], engine=unit, first_pair=self.reader.pairs)
        if unit is not None:
            unit.idle()
        return c

    def _accumulate(self, c: Component, nest: Nest, lanes: list[Signal]) -> tuple[list[Signal], Signal]:
        """Words of results and the signal that is 1 when one is complete."""
        value, arrived = self.reader.value, self.reader.latency
        if self.lanes == "folded":
            if self.valid_lanes:
                last = c.delay(nest.carry(len(nest.sizes) - 1), arrived)
                lanes = mask_lanes(c, self.op, value, lanes, self.valid_lanes, last)
            lanes = [fold_lanes(c, self.op, value, lanes, self.valid_lanes > 0)]
            arrived += self.tree
        first = c.delay(nest.first(self.kept), arrived)
        valid = c.delay(nest.step, arrived)
        done = c.delay(nest.carry(self.kept), arrived + 1)
        width = signal_width(self.op, value, self.count)
        sums = []
        for lane in lanes:
            held = c.register(width)
            following = combine(c, self.op, held.q, lane, width)
            sums.append(held.set(c.mux(first, c.resize(lane, width), following), valid))
        if self.lanes == "kept":
            return sums, done
        return assemble(c, sums[0], done, self.out.access.sizes[-1], self.out.layout.lanes)


def reduce(
    op: FoldOp,
    prologue: Expr,
    operands: Sequence[Operand],
    reduced: Sequence[int],
    epilogue: Expr,
    out: Operand,
    extras: Sequence[Operand] = (),
    mul_stages: int = 1,
) -> Reduce:
    """The fastest kernel that folds the dimensions `reduced` of the operands' domain.

    out, extras: accesses over the other dimensions, in their order. epilogue: input 0 is the accumulator,
    whose range `accumulator(op, result of the prologue, count)` tells; then the extras. Equal computations
    give equal specs. Raises KernelParameterError as `Reduce`.
    """
    found: list[Reduce] = []
    problems: list[KernelParameterError] = []
    everything, split = (*operands, *extras, out), len(operands)
    for accesses, kept, other in split_domain(operands, tuple(reduced), (*extras, out)):
        parts = tuple(replace(o, access=a) for o, a in zip(everything, accesses, strict=True))
        for role in _OTHER_ROLES if other else _ROLES:
            try:
                found.append(
                    Reduce(
                        op,
                        prologue,
                        parts[:split],
                        epilogue,
                        parts[split:-1],
                        parts[-1],
                        kept,
                        role,
                        mul_stages,
                    )
                )
            except KernelParameterError as problem:
                problems.append(problem)
    if not found:
        raise problems[-1]
    return min(found, key=Reduce.cycles)


def refusal(
    op: FoldOp,
    prologue: Expr,
    operands: Sequence[Operand],
    reduced: Sequence[int],
    epilogue: Expr,
    out: Operand,
    extras: Sequence[Operand] = (),
) -> str | None:
    """Why `reduce` refuses (None: it does not)."""
    try:
        reduce(op, prologue, operands, reduced, epilogue, out, extras)
    except KernelParameterError as problem:
        return str(problem)
    return None
