"""The controller of the window kernel: when words enter, when the window moves, what the dot array sees.

Two things run beside each other. The dot array's loop: rows, outputs, n tile, word of the window. And the
reads, which are always one step ahead: while a group of outputs is computed the words of the next group
enter, and then, in what memory cycles remain, the words that fill the start of the next row. Both wait in
shift registers until the window takes them. All of it happens at fixed times, so nothing is ever asked
whether it is ready: see `Window.stall`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arith.numerics import index_bits
from ..engine.engine import engine_ref
from ..engine.spec import EngineSpec
from ..rtl.hw import Component, Instance, Memory, Signal
from ..rtl.loops import Nest
from .collect import collect
from .contraction import widened
from .window_fill import load
from .window_parameters import LAG, MOVE, WindowParameters


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of the dot array and the moves of the window, each 1 in its cycle.

    beats: loops (n tile, word), stepped with each pair of operands. end: last cycle of an output. take_group,
    take_row: the window takes the words that wait, within a row or at its start. finish: the last of all.
    """

    beats: Nest
    end: Signal
    take_group: Signal
    take_row: Signal
    finish: Signal


def build_controller(
    c: Component, spec: WindowParameters, words: Mapping[str, int], engine: EngineSpec | None
) -> None:
    """Fill the static component `c`."""
    step = c.run(spec.trips, spec.flush)
    memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in spec.ports()}
    unit = engine_ref(c, c.program, engine)
    assert engine is not None and engine.dot is not None
    schedule = _schedule(c, spec, step)
    following, first = load(
        c,
        spec.left,
        spec.window,
        step,
        schedule.take_group,
        schedule.take_row,
        schedule.finish,
        memories["left"],
    )
    window = _window(c, spec, schedule, following, first)
    _feed(c, spec, schedule.beats, window, memories["right"], unit, engine)
    sums = [c.resize(s, spec.total.width) for s in c.split(unit.get("dot_sum"), engine.dot.columns)]
    lanes, complete = collect(c, spec, schedule.beats.carry(1), schedule.beats.carry(0), sums)
    reads = {i + 1: memories[f"x{i}"] for i in range(len(spec.extras))}
    spec.stage.build(c, complete, {0: lanes}, reads, memories["y"])


def _schedule(c: Component, spec: WindowParameters, step: Signal) -> Schedule:
    """The first row's window fills, then rows follow each other, with a stall between if need be."""
    window, stall = spec.window, spec.stall
    started = c.register(1)
    waiting, running = c.and_(step, c.not_(started.q)), c.and_(step, started.q)
    if spec.period > spec.beats:
        cycles = Nest(c, (spec.period,), running)
        place = cycles.counters[0]
        assert place is not None
        beats = Nest(c, (spec.tiles, spec.words), c.and_(running, c.below(place, spec.beats)))
        end = cycles.carry(0)
    else:
        beats = Nest(c, (spec.tiles, spec.words), running)
        end = beats.carry(0)
    outputs = Nest(c, (*window.rows, window.outputs), end)
    row_end, finish = outputs.carry(len(window.rows)), outputs.carry(0)
    begin = _wait(c, spec, waiting, c.and_(row_end, c.not_(finish)))
    leave = row_end if stall else finish
    started.set(begin, c.or_(begin, leave))
    group_end = c.and_(_last_of_group(c, window.group, end, row_end), c.not_(row_end))
    return Schedule(beats, end, group_end, begin if stall else c.or_(begin, row_end), finish)


def _wait(c: Component, spec: WindowParameters, waiting: Signal, row_end: Signal) -> Signal:
    """1 in the last cycle before a row begins that had to wait for its words."""
    bits = index_bits(spec.window.fill)
    count = c.register(bits)
    begin = c.and_(waiting, c.equals(count.q, spec.window.fill - 1))
    following = c.mux(begin, c.const(0, bits), c.slice(c.add(count.q, c.const(1, bits), bits), 0, bits))
    if not spec.stall:
        count.set(following, waiting)
        return begin
    shorter = c.const(spec.window.fill - spec.stall, bits)
    count.set(c.mux(row_end, shorter, following), c.or_(waiting, row_end))
    return begin


def _last_of_group(c: Component, group: int, end: Signal, row_end: Signal) -> Signal:
    """1 when the last output of a group ends; a row may end within a group."""
    if group == 1:
        return end
    bits = index_bits(group)
    count = c.register(bits)
    last = c.equals(count.q, group - 1)
    following = c.slice(c.add(count.q, c.const(1, bits), bits), 0, bits)
    count.set(c.mux(c.or_(last, row_end), c.const(0, bits), following), end)
    return c.and_(end, last)


def _window(
    c: Component, spec: WindowParameters, schedule: Schedule, following: Signal, first: Signal | None
) -> Signal:
    """The window's register, unit by unit along the lines.

    It moves by the shift after each output; with the last of a group the words that wait fill up what moved.
    """
    w = spec.window
    bits = w.line_count * w.elements * spec.left.fmt.width  # of one unit of all lines
    register = c.register(w.length * bits)
    take_group, take_row = c.delay(schedule.take_group, MOVE), c.delay(schedule.take_row, MOVE)
    upper = following
    if w.group > 1:
        kept = (w.group - 1) * w.shift
        moved = c.slice(register.q, (w.length - kept) * bits, kept * bits)
        rest = c.slice(register.q, (w.length - w.shift) * bits, w.shift * bits)  # not looked at any more
        upper = c.mux(c.or_(take_group, take_row), following, c.concat([moved, rest]))
    value = upper
    if first is not None:
        held = c.slice(register.q, w.shift * bits, w.hold * bits)
        value = c.concat([c.mux(take_row, first, held), upper])
    register.set(value, c.or_(c.delay(schedule.end, MOVE), take_row))
    return register.q


def _feed(
    c: Component,
    spec: WindowParameters,
    beats: Nest,
    window: Signal,
    weights: Memory,
    unit: Instance,
    engine: EngineSpec,
) -> None:
    """Both operands reach the engine LAG cycles after the step."""
    elements = _elements(c, spec, window)
    width = spec.left.fmt.width
    rest = (spec.words * spec.depth - spec.inner) * width
    parts = c.split(c.concat([elements, c.const(0, rest)]) if rest else elements, spec.words)
    place = beats.counters[1]
    word = parts[0] if place is None else c.select(parts, c.delay(place, MOVE))
    address = beats.pointer([spec.words, 1], 0, weights.address_bits)
    right = c.read(weights, c.delay(address, MOVE), c.delay(beats.step, MOVE))
    unit.drive(
        dot_a=widened(c, spec.left, c.delay(word, LAG - MOVE), engine.left),
        dot_b=widened(c, spec.right, right, engine.right),
        dot_first=c.delay(beats.first(1), LAG),
    )
    if engine.dot_switch:
        unit.drive(dot_on=c.const(1, 1))
    unit.idle()


def _elements(c: Component, spec: WindowParameters, window: Signal) -> Signal:
    """The K elements of the current output in the order (last tap, other taps, channel)."""
    w = spec.window
    bits = w.line_count * w.elements * spec.left.fmt.width
    if w.spacing == 1:
        return c.slice(window, 0, w.taps * bits)
    return c.concat([c.slice(window, tap * w.spacing * bits, bits) for tap in range(w.taps)])
