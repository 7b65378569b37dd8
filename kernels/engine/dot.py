"""The dot array of the engine: `columns` sums over `depth` products each, accumulated over the words along k.

Ports: `dot_a` (depth lanes of the left operand, shared by all columns), `dot_b` (columns * depth lanes,
column by column), `dot_first` (1 with the first word of a sum), `dot_sum` (columns lanes, one accumulator
each). Timing: the sum that ends with the operands of cycle t is in `dot_sum` during cycle t + `dot_latency`
alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rtl.hw import Component, Program, Signal
from .spec import DotShape, EngineSpec

_LEVELS_PER_STAGE = 2
"""Adder levels between two registers; the accumulator's adder counts as the last level."""


def tree_stages(depth: int) -> int:
    """Registers from the products to the accumulator, which is the last of them."""
    levels = (depth - 1).bit_length() + 1
    return -(-levels // _LEVELS_PER_STAGE)


def dot_latency(shape: DotShape, mul_stages: int) -> int:
    """Cycles from the last operands of a sum to the accumulator that shows it."""
    return mul_stages + tree_stages(shape.depth)


def dot_sums(c: Component, spec: EngineSpec, first: Signal, columns: Sequence[Sequence[Signal]]) -> Signal:
    """`dot_sum` from the products of each column (one word, or lanes): trees and accumulators."""
    shape = spec.dot
    assert shape is not None
    # The flag meets the sum at the accumulator, whose own register is the last stage.
    late = c.delay(first, dot_latency(shape, spec.stages) - 1)
    unit = _column(c.program, shape, spec.left + spec.right)
    sums = [c.instance(unit).drive(p=c.concat(lanes), first=late).get("sum") for lanes in columns]
    return c.concat(sums)


def _column(prog: Program, shape: DotShape, product_bits: int) -> Component:
    """One column: `depth` products in, one accumulator out."""
    name = f"dot_column_{shape.depth}x{product_bits}_{shape.acc}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    level = c.split(c.input("p", shape.depth * product_bits), shape.depth)
    first = c.input("first", 1)
    levels = 0
    while len(level) > 1:
        if levels and levels % _LEVELS_PER_STAGE == 0:
            level = [c.delay(s, 1) for s in level]
        # A sum as wide as the accumulator cannot overflow, so neither can a part of it.
        width = min(level[0].width + 1, max(shape.acc, product_bits))
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [c.add(p[0], p[1], width) if len(p) == 2 else c.resize(p[0], width) for p in pairs]
        levels += 1
    total = c.delay(level[0], 1) if levels and levels % _LEVELS_PER_STAGE == 0 else level[0]
    acc = c.register(shape.acc)
    acc.set(c.add(c.mux(first, c.const(0, shape.acc), acc.q), total, shape.acc))
    c.output("sum", acc.q)
    return c
