"""The controller of the systolic kernel: operand addresses, flags, and the drain behind the next tile."""

from __future__ import annotations

from collections.abc import Mapping

from ..arith.numerics import index_bits
from ..engine.engine import engine_ref
from ..engine.spec import EngineSpec
from ..rtl.hw import Component, Instance, Memory, Signal
from ..rtl.loops import Nest
from .contraction import widened
from .drain import RaggedStage, exists, row_steps
from .feed import Reader
from .systolic_parameters import SystolicParameters


def build_controller(
    c: Component, spec: SystolicParameters, words: Mapping[str, int], engine: EngineSpec | None
) -> None:
    """Fill the static component `c`."""
    step = c.run(spec.walk.trips, spec.flush)
    memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in spec.ports()}
    unit = engine_ref(c, c.program, engine)
    assert engine is not None and engine.array is not None
    nest = Nest(c, spec.walk.sizes, step)
    last = _feed(c, spec, nest, memories, unit, engine)
    _drain(c, spec, nest, last, memories, unit, engine)
    unit.idle()


def _feed(
    c: Component,
    spec: SystolicParameters,
    nest: Nest,
    memories: Mapping[str, Memory],
    unit: Instance,
    engine: EngineSpec,
) -> Signal:
    """Read both operands and flag their words; returns the flag of a tile's last k step."""
    dims = len(spec.batch)
    valid, last = _k_flags(c, spec, nest)
    first = nest.first(dims + 2)
    left = Reader(spec.left, spec.left_feed, dims, dims + 1, dims, spec.rows)
    right = Reader(spec.right, spec.right_feed, dims + 1, dims, dims + 1, spec.lanes)
    words = {
        "a": widened(c, spec.left, left.read(c, nest, spec.walk, memories["left"], valid), engine.left),
        "b": widened(c, spec.right, right.read(c, nest, spec.walk, memories["right"], valid), engine.right),
    }
    counts, ends = c.and_(nest.step, valid), c.and_(nest.step, last)
    unit.drive(
        array_a=words["a"],
        array_b=words["b"],
        array_flags=c.concat([c.delay(s, 1) for s in (first, counts, ends)]),
    )
    if engine.array_switch:
        unit.drive(array_on=c.const(1, 1))
    shape = engine.array
    assert shape is not None
    if spec.contracted:
        unit.drive(array_load=c.delay(nest.first(dims + 3), 1))
    for name, feeds, own in (
        ("array_a_free", shape.left, spec.left_feed),
        ("array_b_free", shape.right, spec.right_feed),
    ):
        if len(feeds) > 1:
            unit.drive(**{name: c.const(own == "free", 1)})
    return ends


def _k_flags(c: Component, spec: SystolicParameters, nest: Nest) -> tuple[Signal, Signal]:
    """(k < K, k == K - 1) for the current step."""
    walk, inner = spec.walk, spec.matrix[2]
    one = c.const(1, 1)
    size = spec.lanes if spec.contracted else walk.steps  # steps that count in a word
    remaining = inner - (walk.words - 1) * size  # and in the last one
    word, index = nest.counters[-2], nest.counters[-1]
    valid = exists(c, word, walk.words, index, remaining, size)
    if size < walk.steps and index is not None:  # more rows than lanes: the port refills them longer
        within = c.below(index, size)
        valid = within if valid is None else c.and_(valid, within)
    last = one if index is None else c.equals(index, remaining - 1)
    if word is not None:
        last = c.and_(last, c.equals(word, walk.words - 1))
    return one if valid is None else valid, last


def _drain(
    c: Component,
    spec: SystolicParameters,
    nest: Nest,
    ends: Signal,
    memories: Mapping[str, Memory],
    unit: Instance,
    engine: EngineSpec,
) -> None:
    """One word per row and tile, through the epilogue."""
    dims = len(spec.batch)
    assert engine.array is not None
    stage = RaggedStage(spec.epilogue, (None, *spec.extras), spec.out, dims + 1, spec.drain_loops)
    early = spec.sum_delay - stage.lead
    start = c.delay(ends, early)
    step, row = row_steps(c, start, spec.drained)
    bits = index_bits(engine.array.rows)
    unit.drive(array_row=c.delay(c.pad(row, bits), stage.lead))
    sums = [c.resize(s, spec.total.width) for s in c.split(unit.get("array_word"), spec.lanes)]
    reads = {i + 1: memories[f"x{i}"] for i in range(len(spec.extras))}
    keep = _keep(c, spec, nest, ends, start, row, early)
    stage.build(c, step, {0: sums}, reads, memories["y"], keep)


def _keep(
    c: Component, spec: SystolicParameters, nest: Nest, ends: Signal, start: Signal, row: Signal, early: int
) -> Signal | None:
    """1 for the rows that exist; None when all do."""
    m_tiles = spec.tiles[0]
    remaining = spec.matrix[0] - (m_tiles - 1) * spec.rows
    tile = nest.counters[len(spec.batch)]
    if remaining >= spec.drained or tile is None:
        return None
    # Whether the draining tile is the last along m: known when it ends, kept while its rows leave.
    ending = c.delay(c.and_(ends, c.equals(tile, m_tiles - 1)), early)
    short = c.mux(start, ending, c.hold(ending, start))
    return c.or_(c.not_(short), c.below(row, remaining))
