"""The reading end of a kernel: operands read along a loop nest, one expression per lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..arith.expr import Expr, Value, value_of
from ..engine.spec import EngineSpec
from ..rtl.hw import Component, Instance, Memory, Signal
from ..rtl.lane import lane_component, latency, operand_widths, register_bits
from ..rtl.loops import Loop, Nest
from .access import Operand
from .stage import connect_pairs, read_operand, reading_mode

LaneRole: TypeAlias = Literal["kept", "folded", "single"]
"""What the lanes of a word run over in a fold: the last kept dimension, the last folded one, or nothing."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Parameters of a reading end.

    operands: one per expression input, all over one domain. loops: order of reading, outermost first.
    lane_dim: the domain dimension over the lanes, its loop scaled by the lanes; None reads one element a
    step. The results of a step in cycle t appear in t + `latency`.
    """

    expr: Expr
    operands: tuple[Operand, ...]
    loops: tuple[Loop, ...]
    lane_dim: int | None
    mul_stages: int = 1

    @property
    def width(self) -> int:
        """Elements of a step."""
        return 1 if self.lane_dim is None else self.operands[0].layout.lanes

    @property
    def latency(self) -> int:
        """Cycles from a step to its results."""
        return 1 + latency(self.expr, self.mul_stages)

    @property
    def register_bits(self) -> int:
        """Bits of the pipelines of all elements of a step."""
        return self.width * register_bits(self.expr, self.mul_stages)

    @property
    def value(self) -> Value:
        """Range of the results."""
        return result_value(self.expr)

    @property
    def pairs(self) -> int:
        """Multipliers in use."""
        return self.expr.multiplications * self.width

    def refusal(self) -> str | None:
        """Why the operands cannot be read so (None: they can)."""
        return reading_refusal(self.expr, self.operands, self.lane_dim)

    def build(
        self,
        c: Component,
        nest: Nest,
        memories: Sequence[Memory],
        engine: Instance | None = None,
        first_pair: int = 0,
    ) -> list[Signal]:
        """The hardware; returns the results, two's complement of the result's range."""
        columns = [
            read_operand(c, nest, self.loops, operand, memory, vector=self._is_vector(operand))[: self.width]
            for operand, memory in zip(self.operands, memories, strict=True)
        ]
        lanes = []
        for lane in range(self.width):
            unit = c.instance(lane_component(c.program, self.expr, self.mul_stages))
            ports = {
                f"i{n}": c.resize(columns[n][lane], value.width) for n, value in enumerate(self.expr.inputs)
            }
            lanes.append(unit.drive(**ports))
        if engine is not None and self.expr.multiplications:
            connect_pairs(c, engine, lanes, self.expr, first_pair)
        signed, width = self.expr.out.signed, self.value.width
        results = [lane.get("y") for lane in lanes]
        return [c.resize(r if signed else c.pad(r, r.width + 1), width) for r in results]

    def _is_vector(self, operand: Operand) -> bool:
        return self.lane_dim is not None and reading_mode(operand, self.lane_dim) == "vector"


def two_ends_engine(reader: Reader, epilogue: Expr, lanes: int) -> EngineSpec | None:
    """Multipliers of a reading end and of an epilogue over `lanes` lanes, which run at the same time."""
    widths = (*operand_widths(reader.expr), *operand_widths(epilogue))
    if not widths:
        return None
    pairs = reader.pairs + epilogue.multiplications * lanes
    return EngineSpec(max(a for a, _ in widths), max(b for _, b in widths), reader.mul_stages, vector=pairs)


def result_value(expr: Expr) -> Value:
    """Range of an expression's result."""
    return expr.ops[-1].value


def reading_refusal(expr: Expr, operands: Sequence[Operand], lane_dim: int | None) -> str | None:
    """Why no reading end fits (None: it does)."""
    if len(operands) != len(expr.inputs):
        return f"expression of {len(expr.inputs)} operands given {len(operands)} memories"
    if not operands:
        return "it needs at least one operand"
    if any(o.access.sizes != operands[0].access.sizes for o in operands):
        return f"operands loop over {[o.access.sizes for o in operands]}"
    if len({o.layout.lanes for o in operands}) != 1:
        return "operands have different lane counts"
    for number, (operand, want) in enumerate(zip(operands, expr.inputs, strict=True)):
        have = value_of(operand.fmt)
        if want.frac != have.frac or want.low > have.low or want.high < have.high:
            return f"expression input {number} takes {want}, but the memory holds {operand.fmt}"
        mode = "" if lane_dim is None else reading_mode(operand, lane_dim)
        if mode.startswith("no: "):
            return f"operand {number}: {mode.removeprefix('no: ')}"
    return None
