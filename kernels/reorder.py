"""Reshape copy, one element a cycle: two loop nests of different shape over the same elements, both
row-major.

Equation: the i-th element of `out` (in row-major order of its access) = narrow(i-th element of `source`).
It serves the reshapes that no affine access expresses (rows padded to whole words are cut elsewhere).
Cycles: elements + 1 + latency of the narrowing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .access import Operand
from .assemble import assemble
from .contract import Cost, Emulated, KernelParameterError, Port
from .engine_spec import EngineSpec
from .expr import Expr, narrowing
from .hw import Component, Program, digest
from .lane import lane_component, latency
from .loops import Loop, Nest
from .numerics import IntArray, product
from .stage import Stage, read_operand, word_loops, writing_refusal


@dataclass(frozen=True, slots=True)
class Reorder:
    """source, out: accesses with equally many elements. expr: one input, narrowed to the output's format.

    Raises KernelParameterError when the counts differ or the output cannot be written by whole words.
    """

    source: Operand
    expr: Expr
    out: Operand

    def __post_init__(self) -> None:
        have, want = self.source.access.sizes, self.out.access.sizes
        problem = None
        if product(have) != product(want):
            problem = f"{product(have)} elements of {have} do not fill {want}"
        elif not want:
            problem = "the output needs at least one dimension"
        else:
            problem = writing_refusal(self.out, len(want) - 1)
        if problem:
            raise KernelParameterError(f"reorder kernel: {problem}")

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "reorder"

    def ports(self) -> tuple[Port, ...]:
        """x and y."""
        return (Port("x", self.source, "read"), Port("y", self.out, "write"))

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    @property
    def depth(self) -> int:
        """Cycles from an element's step to its place in a word: one to read, then the narrowing."""
        return 1 + latency(self.expr)

    def cycles(self) -> int:
        """Elements + pipeline depth."""
        return product(self.out.access.sizes) + self.depth

    def useful_operations(self) -> int:
        """Elements written."""
        return product(self.out.access.sizes)

    def cost(self) -> Cost:
        """Four address adders; the word being filled."""
        return Cost(0, 4, self.out.width)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact."""
        result, saturated = self.expr.emulate([self.source.access.read(arrays[0])])
        out = np.zeros((self.out.layout.rows, self.out.layout.cols), dtype=np.int64)
        self.out.access.write(out, np.ascontiguousarray(result).reshape(self.out.access.sizes))
        return Emulated((out,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x, y."""
        name = f"reorder_{digest((self, tuple(sorted(words.items()))))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        sizes, lanes = self.out.access.sizes, self.out.layout.lanes
        step = c.run(product(sizes), self.depth)
        x = c.memory_ref("x", self.source.width, words["x"])
        y = c.memory_ref("y", self.out.width, words["y"])
        loops = [Loop(size, dim) for dim, size in enumerate(self.source.access.sizes)]
        nest = Nest(c, self.source.access.sizes, step)
        raw = read_operand(c, nest, loops, self.source, x, vector=False)[0]
        lane = c.instance(lane_component(prog, self.expr)).drive(i0=c.resize(raw, self.expr.inputs[0].width))
        word, full = assemble(c, lane.get("y"), c.delay(step, self.depth), sizes[-1], lanes)
        stage = Stage(
            narrowing(self.out.fmt, self.out.fmt),
            (None,),
            self.out,
            len(sizes) - 1,
            word_loops(sizes, len(sizes) - 1, lanes),
        )
        stage.build(c, full, {0: word}, {}, y)
        return c
