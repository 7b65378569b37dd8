"""Elementwise kernels: a chain of operations over any number of operands as one pipeline, one word a cycle.

Equation: out[i] = expr(operand_0[i], operand_1[i], ...) over a domain of loop indices i, each operand
through its own access (so views and broadcasts cost nothing).
Interface: memories x0, x1, ..., y; the engine when the expression multiplies.
Cycles: words of the domain + 1 to read (without operands 0) + the latency of the expression.
Numbers: exact inside the expression, narrowed where the expression says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .arith.expr import Expr
from .arith.numerics import IntArray, product
from .contract import Cost, Emulated, KernelParameterError, Port
from .engine.engine import engine_ref
from .engine.spec import EngineSpec
from .ports.access import Operand
from .ports.stage import Stage, coalesce, reading_mode, word_loops, writing_refusal
from .rtl.hw import Component, Program, digest
from .rtl.lane import operand_widths


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A chain of operations over a domain whose last dimension runs over the lanes.

    expr: the chain. operands: one per input of it. out: written access.

    Use `elementwise(...)`, which brings equal computations to equal parameters. Raises KernelParameterError
    when an operand cannot be read, or the output not written, a word at a time.
    """

    expr: Expr
    operands: tuple[Operand, ...]
    out: Operand
    mul_stages: int = 1

    def __post_init__(self) -> None:
        if len(self.operands) != len(self.expr.inputs):
            raise KernelParameterError(
                f"expression of {len(self.expr.inputs)} operands given {len(self.operands)} memories"
            )
        problem = refusal(self.operands, self.out)
        if problem:
            raise KernelParameterError(f"elementwise kernel over {self.out.access.sizes}: {problem}")

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "elementwise"

    @property
    def stage(self) -> Stage:
        """The writing end, which is the whole kernel."""
        sizes = self.out.access.sizes
        lanes = self.out.layout.lanes
        return Stage(
            self.expr,
            self.operands,
            self.out,
            len(sizes) - 1,
            word_loops(sizes, len(sizes) - 1, lanes),
            self.mul_stages,
        )

    def ports(self) -> tuple[Port, ...]:
        """x0, x1, ... and y."""
        reads = tuple(Port(f"x{i}", operand, "read") for i, operand in enumerate(self.operands))
        return (*reads, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """One multiplier per multiplication and lane."""
        return vector_need(self.expr, self.out.layout.lanes, self.mul_stages)

    def cycles(self) -> int:
        """Words + pipeline depth."""
        return self.stage.steps + self.stage.depth

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.out.access.sizes)

    def cost(self) -> Cost:
        """Adders, pipeline registers and tables of all lanes."""
        lanes = self.out.layout.lanes
        return Cost(
            self.expr.multiplications * lanes,
            self.expr.adders * lanes,
            self.stage.register_bits,
            self.expr.table_bits * lanes,
        )

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; saturations counted over the elements of the domain."""
        values = [op.access.read(a) for op, a in zip(self.operands, arrays, strict=True)]
        result, saturated = self.expr.emulate(values)
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, np.broadcast_to(result, self.out.access.sizes))
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, x1, ..., y and, for multiplications, engine."""
        key = (self, tuple(sorted(words.items())), engine if self.expr.multiplications else None)
        name = f"elementwise_{digest(key)}"
        found = prog.find(name)
        if found is not None:
            return found
        stage = self.stage
        c = prog.component(name, latency=self.cycles())
        step = c.run(stage.steps, stage.depth)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        unit = None
        if self.expr.multiplications:
            unit = engine_ref(c, prog, engine)
        reads = {i: memories[f"x{i}"] for i in range(len(self.operands))}
        stage.build(c, step, {}, reads, memories["y"], engine=unit)
        if unit is not None:
            unit.idle()
        return c


def vector_need(expr: Expr, lanes: int, mul_stages: int) -> EngineSpec | None:
    """Engine that a vector expression asks for."""
    pairs = operand_widths(expr)
    if not pairs:
        return None
    return EngineSpec(
        max(a for a, _ in pairs), max(b for _, b in pairs), mul_stages, vector=len(pairs) * lanes
    )


def refusal(operands: Sequence[Operand], out: Operand) -> str | None:
    """Why no elementwise kernel fits (None: it does)."""
    sizes = out.access.sizes
    if not sizes:
        return "the domain needs at least one dimension"
    if any(o.access.sizes != sizes for o in operands):
        return f"operands loop over {[o.access.sizes for o in operands]}"
    if len({o.layout.lanes for o in (*operands, out)}) != 1:
        return "operands have different lane counts"
    problem = writing_refusal(out, len(sizes) - 1)
    if problem:
        return f"output: {problem}"
    for number, operand in enumerate(operands):
        mode = reading_mode(operand, len(sizes) - 1)
        if mode.startswith("no: "):
            return f"operand {number}: {mode.removeprefix('no: ')}"
    return None


def elementwise(expr: Expr, operands: Sequence[Operand], out: Operand, mul_stages: int = 1) -> Elementwise:
    """The kernel over the coalesced domain; KernelParameterError as `Elementwise`.

    When the coalesced domain does not fit words, one element a word is tried (a last dimension of size 1).
    """
    merged = coalesce([o.access for o in (*operands, out)])
    parts = [Operand(o.fmt, o.layout, a) for o, a in zip((*operands, out), merged, strict=True)]
    if not merged[0].sizes or refusal(parts[:-1], parts[-1]):
        single = [Operand(p.fmt, p.layout, p.access.unsqueeze()) for p in parts]
        if not merged[0].sizes or not refusal(single[:-1], single[-1]):
            parts = single
    return Elementwise(expr, tuple(parts[:-1]), parts[-1], mul_stages)
