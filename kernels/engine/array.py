"""The systolic array of the engine: rows x cols output-stationary processing elements and their operand
feeds.

Ports: `array_a`, `array_b` (one word of `cols` lanes of each operand), `array_flags` (bit 0: the first
product of a tile, bit 1: a product that counts, bit 2: the last one), `array_load` (a new word along k for
row 0 and column 0), `array_row` (which row to show), `array_word` (the finished sums of that row, `cols`
lanes). With both feeds on a side, `array_a_free` and `array_b_free` choose. Timing: with the last operands
of a tile in cycle t, row r is complete from t + `array_latency` + r on and stays so until the next tile's
sums arrive. Row r takes its operands r cycles later than row 0, column c c cycles later than column 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.numerics import index_bits
from ..rtl.hw import Component, Program, Signal, digest
from .spec import ArrayShape, EngineSpec, Feed
from .unit import multiplier

FLAGS = 3


def array_latency(shape: ArrayShape, mul_stages: int) -> int:
    """Cycles from the last operands of a tile to the moment row 0 is complete."""
    return mul_stages + shape.cols


@dataclass(frozen=True, slots=True)
class OtherUse:
    """Operand words that reach a row's multipliers while the array is not in use."""

    a: Signal
    b: Signal


def array_rows(
    c: Component, spec: EngineSpec, array_on: Signal | None, others: list[OtherUse | None]
) -> list[Signal | None]:
    """The whole array inside the engine component.

    others: for each row the other use of its multipliers. Returns the products of each row that has one.
    """
    shape = spec.array
    assert shape is not None
    flags, load = c.input("array_flags", FLAGS), _load_flags(c, shape)
    lefts = _left_feed(c, spec, shape, load)
    right = _right_feed(c, spec, shape, load)
    products: list[Signal | None] = []
    sums = []
    for left, other in zip(lefts, others, strict=True):
        row = c.instance(_row(c.program, spec, shape, other is not None)).drive(a=left, b=right, flags=flags)
        if other is not None:
            assert array_on is not None
            row.drive(on=array_on, other_a=other.a, other_b=other.b)
        products.append(row.get("p") if other is not None else None)
        sums.append(row.get("sums"))
        flags, right = c.delay(flags, 1), c.delay(right, 1)
    index = c.input("array_row", index_bits(shape.rows))
    c.output("array_word", c.select(sums, index))
    return products


def _load_flags(c: Component, shape: ArrayShape) -> list[Signal]:
    """The load flag of each row and column: the same flag, one cycle later each."""
    if "contracted" not in (*shape.left, *shape.right):
        return []
    flags = [c.input("array_load", 1)]
    while len(flags) < max(shape.rows, shape.cols):
        flags.append(c.delay(flags[-1], 1))
    return flags


def _left_feed(c: Component, spec: EngineSpec, shape: ArrayShape, load: list[Signal]) -> list[Signal]:
    """The operand that enters each row."""
    word = c.input("array_a", shape.cols * spec.left)
    return _feeds(c, "array_a_free", shape.left, word, shape.rows, shape.cols, load)


def _right_feed(c: Component, spec: EngineSpec, shape: ArrayShape, load: list[Signal]) -> Signal:
    """The operands that enter all columns of row 0, as one word."""
    word = c.input("array_b", shape.cols * spec.right)
    return c.concat(_feeds(c, "array_b_free", shape.right, word, shape.cols, shape.cols, load))


def _feeds(
    c: Component,
    choice: str,
    kinds: tuple[Feed, ...],
    word: Signal,
    count: int,
    lanes: int,
    load: list[Signal],
) -> list[Signal]:
    free = (
        [c.delay(lane, i) for i, lane in enumerate(c.split(word, lanes)[:count])] if "free" in kinds else []
    )
    if "contracted" not in kinds:
        return free
    unit = _shifter(c.program, lanes, word.width // lanes)
    shifted = [c.instance(unit).drive(word=word, load=load[i]).get("value") for i in range(count)]
    if not free:
        return shifted
    chosen = c.input(choice, 1)
    return [c.mux(chosen, a, b) for a, b in zip(free, shifted, strict=True)]


def _shifter(prog: Program, lanes: int, width: int) -> Component:
    """A word along k, given out lane by lane: lane 0 in the cycle of `load`, lane i in the i-th after it."""
    name = f"shifter_{lanes}x{width}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    word, load = c.input("word", lanes * width), c.input("load", 1)
    if lanes == 1:
        c.output("value", word)
        return c
    rest = (lanes - 1) * width
    waiting = c.register(rest)
    following = c.pad(c.slice(waiting.q, width, rest - width), rest) if lanes > 2 else waiting.q
    waiting.set(c.mux(load, c.slice(word, width, rest), following))
    c.output("value", c.mux(load, c.slice(word, 0, width), c.slice(waiting.q, 0, width)))
    return c


def _chain(c: Component, value: Signal, length: int) -> Signal:
    """A word whose lane i is `value` of i + 1 cycles ago."""
    taps = c.register(value.width * length)
    kept = [c.slice(taps.q, 0, value.width * (length - 1))] if length > 1 else []
    return taps.set(c.concat([value, *kept]))


def _row(prog: Program, spec: EngineSpec, shape: ArrayShape, shared: bool) -> Component:
    """One row: the left operand and the flags walk along it, one column a cycle."""
    name = f"array_row_{digest((spec.left, spec.right, spec.stages, shape.cols, shape.acc, shared))}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    a, b = c.input("a", spec.left), c.input("b", shape.cols * spec.right)
    # The flags meet the products, `stages` cycles behind the operands.
    flags = _chain(c, c.input("flags", FLAGS), shape.cols - 1 + spec.stages)
    word = c.concat([a, _chain(c, a, shape.cols - 1)]) if shape.cols > 1 else a
    if shared:
        on = c.input("on", 1)
        word = c.mux(on, word, c.input("other_a", word.width))
        b = c.mux(on, b, c.input("other_b", b.width))
    element = _element(prog, spec, shape.acc, shared)
    cells = []
    for column, (left, right) in enumerate(
        zip(c.split(word, shape.cols), c.split(b, shape.cols), strict=True)
    ):
        tap = c.slice(flags, (column + spec.stages - 1) * FLAGS, FLAGS)
        cells.append(c.instance(element).drive(a=left, b=right, flags=tap))
    c.output("sums", c.concat([cell.get("sum") for cell in cells]))
    if shared:
        c.output("p", c.concat([cell.get("p") for cell in cells]))
    return c


def _element(prog: Program, spec: EngineSpec, acc: int, shared: bool) -> Component:
    """Multiplier, accumulator and the register that keeps a finished sum while the next tile already runs."""
    name = f"element_{spec.left}x{spec.right}_{spec.stages}_{acc}{'_shared' if shared else ''}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    a, b, flags = c.input("a", spec.left), c.input("b", spec.right), c.input("flags", FLAGS)
    first, counts, last = c.split(flags, FLAGS)
    product = c.instance(multiplier(prog, spec)).drive(a=a, b=b).get("p")
    running = c.register(acc)
    total = c.add(c.mux(first, c.const(0, acc), running.q), product, acc)
    running.set(total, counts)
    c.output("sum", c.hold(total, last))
    if shared:
        c.output("p", product)
    return c
