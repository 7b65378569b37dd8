"""The place of an element whose index along one axis comes out of a memory.

A place is counted like an access counts (`positions`): padded elements, or whole words where every step is a
multiple of the lanes. The loops' part of it is a pointer as everywhere; the index adds `index * step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arith.numerics import IntArray, NumberFormat, ceil_div, index_bits
from ..ports.access import Operand
from ..ports.stage import positions, read_operand
from ..rtl.hw import Component, Memory, Signal
from ..rtl.loops import Loop, Nest

LATENCY = 2
"""Cycles from a step to the address that its index makes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one step's element lies, `LATENCY` cycles after the step. lane: None for whole words. inside: 1
    where the index lies on the axis, None where no index of its format can leave it.
    """

    word: Signal
    lane: Signal | None
    inside: Signal | None


def on_axis(index: IntArray, size: int) -> npt.NDArray[np.bool_]:
    """Where indices lie on an axis."""
    return np.asarray((index >= 0) & (index < size), dtype=bool)


def always_inside(fmt: NumberFormat, size: int) -> bool:
    """Whether an axis holds every index of a format."""
    return fmt.min >= 0 and fmt.max < size


def index_refusal(index: Operand, sizes: tuple[int, ...], axis: int) -> str | None:
    """Why an operand is no index for a loop over `sizes` along `axis` (None: it is)."""
    if not sizes or not 0 <= axis < len(sizes):
        return f"dimension {axis} is none of {sizes}"
    if index.fmt.kind != "int":
        return f"the index is held as {index.fmt}"
    if index.access.sizes != sizes:
        return f"the index loops over {index.access.sizes}"
    if index.access.limits:
        return "the index is padded"
    return None


def one_index_a_row(index: Operand, axis: int) -> bool:
    """Whether the index is the same along the last dimension, so that whole words share it."""
    last = len(index.access.sizes) - 1
    return axis != last and not any(index.access.column(last)[:2])


def squeezed(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The dimensions of more than one element, and the axis: in front where it has one, since the last
    dimension runs over the lanes.
    """
    kept = [d for d, size in enumerate(sizes) if size > 1 and d != axis]
    return (axis, *kept) if sizes[axis] == 1 else tuple(sorted((*kept, axis)))


def turned(operand: Operand, order: tuple[int, ...]) -> Operand:
    """The operand over some of its dimensions; the others have one element."""
    access = operand.access
    steps = tuple(tuple(row[d] for d in order) for row in access.steps)
    return replace(operand, access=access.over(tuple(access.sizes[d] for d in order), steps))


def find(
    c: Component,
    nest: Nest,
    loops: Sequence[Loop],
    index: Operand,
    memory: Memory,
    target: Operand,
    axis: int,
    size: int,
    words: int,
    *,
    rows: bool,
) -> Place:
    """The hardware. loops: those of `nest`. target: what the place lies in, its dimension `axis` of `size`
    elements addressed by the index. words: depth of its memory. rows: whether steps are whole words.
    """
    lanes = target.layout.lanes
    found = read_operand(c, nest, loops, index, memory, vector=False)[0]
    inside = None
    if not always_inside(index.fmt, size):
        negative = c.slice(found, found.width - 1, 1)
        inside = c.and_(c.not_(negative), c.below(found, size))
        found = c.mux(inside, found, c.const(0, found.width))
        inside = c.delay(inside, 1)
    unit = lanes if rows else 1
    base, steps = positions(target)
    bits = index_bits(words) if rows else index_bits(words * lanes)
    moved = c.delay(_times(c, found, steps[axis] // unit, bits), 1)
    strides = [0 if loop.dim == axis else steps[loop.dim] * loop.scale // unit for loop in loops]
    start = c.delay(nest.pointer(strides, base // unit, bits), LATENCY)
    place = c.add(start, moved, bits)
    if rows or lanes == 1:
        return Place(place, None if rows else c.const(0, 1), inside)
    return Place(*_digits(c, place, lanes, index_bits(words)), inside)


def _times(c: Component, value: Signal, factor: int, bits: int) -> Signal:
    """value * factor modulo 2**bits by shifts and additions; the value is not negative."""
    total: Signal | None = None
    for place in range(min(abs(factor).bit_length(), bits)):
        if abs(factor) >> place & 1:
            term = c.shift_left(value, place, bits)
            total = term if total is None else c.add(total, term, bits)
    if total is None:
        return c.const(0, bits)
    return c.sub(c.const(0, bits), total, bits) if factor < 0 else total


def _digits(c: Component, place: Signal, lanes: int, word_bits: int) -> tuple[Signal, Signal]:
    """(word, lane) of an element: the quotient by the lanes and what remains.

    Lanes that are no power of two: for 0 <= p < 2**n and m = ceil(2**s / L) with s = n + bits(L),
    floor(p * m / 2**s) is floor(p / L).
    """
    lane_bits = index_bits(lanes)
    if lanes == 1 << lane_bits:
        wide = c.pad(place, max(place.width, lane_bits + word_bits))
        return c.slice(wide, lane_bits, word_bits), c.slice(wide, 0, lane_bits)
    shift = place.width + lanes.bit_length()
    wide = c.pad(place, max(place.width, word_bits) + shift + 1)
    quotient = c.slice(_times(c, wide, ceil_div(1 << shift, lanes), wide.width), shift, word_bits)
    whole = _times(c, c.pad(quotient, word_bits + 1), lanes, place.width + 1)
    return quotient, c.resize(c.sub(c.pad(place, place.width + 1), whole, place.width + 1), lane_bits)
