"""The controller of the dot kernel: operand addresses, flags, and the collection of an output word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arith.numerics import product
from ..engine.engine import engine_ref
from ..engine.spec import EngineSpec
from ..ports.stage import read_operand
from ..rtl.hw import Component, Instance, Memory
from ..rtl.loops import Loop, Nest
from .collect import collect
from .contraction import widened
from .dot_parameters import DotParameters


def build_controller(
    c: Component, spec: DotParameters, words: Mapping[str, int], engine: EngineSpec | None
) -> None:
    """Fill the static component `c`."""
    step = c.run(product(spec.sizes), spec.flush)
    memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in spec.ports()}
    unit = engine_ref(c, c.program, engine)
    assert engine is not None and engine.dot is not None
    nest = Nest(c, spec.sizes, step)
    _feed(c, spec, nest, memories, unit, engine)
    sums = [c.resize(s, spec.total.width) for s in c.split(unit.get("dot_sum"), engine.dot.columns)]
    k_loop = len(spec.sizes) - spec.contracted
    lanes, complete = collect(c, spec, nest.carry(k_loop), nest.carry(k_loop - 1), sums)
    reads = {i + 1: memories[f"x{i}"] for i in range(len(spec.extras))}
    spec.stage.build(c, complete, {0: lanes}, reads, memories["y"])


def _feed(
    c: Component,
    spec: DotParameters,
    nest: Nest,
    memories: Mapping[str, Memory],
    unit: Instance,
    engine: EngineSpec,
) -> None:
    """Address both operands; their words reach the engine in the cycle after the step."""
    outer = len(spec.sizes) - 1 - spec.contracted
    lanes = read_operand(c, nest, _left_loops(spec, outer), spec.left, memories["left"], vector=True)
    strides = [*[0] * outer, spec.words, *_row_major(spec.inner_loops)]
    address = nest.pointer(strides, 0, memories["right"].address_bits)
    right = c.read(memories["right"], address, nest.step)
    unit.drive(
        dot_a=c.concat([c.resize(lane, engine.left) for lane in lanes]),
        dot_b=widened(c, spec.right, right, engine.right),
        dot_first=c.delay(nest.first(outer + 1), 1),
    )
    if engine.dot_switch:
        unit.drive(dot_on=c.const(1, 1))
    unit.idle()


def _left_loops(spec: DotParameters, outer: int) -> list[Loop | None]:
    """The nest's loops over the left operand; it does not depend on the n tile."""
    dims = range(len(spec.left.access.sizes))
    loops: list[Loop | None] = [Loop(spec.sizes[d], d) for d in dims[:outer]]
    loops.append(None)
    loops += [Loop(size, d) for size, d in zip(spec.inner_loops[:-1], dims[outer:], strict=False)]
    return [*loops, Loop(spec.inner_loops[-1], dims[-1], spec.depth)]


def _row_major(sizes: Sequence[int]) -> list[int]:
    """Strides of dense loops."""
    return [product(sizes[d + 1 :]) for d in range(len(sizes))]
