"""Elements that come one at a time become words: the packing in front of a writing end."""

from __future__ import annotations

from ..arith.numerics import index_bits
from ..rtl.hw import Component, Signal
from ..rtl.loops import Nest


def assemble(
    c: Component, element: Signal, valid: Signal, row: int, lanes: int
) -> tuple[list[Signal], Signal]:
    """Pack the elements of rows of `row` elements into words of `lanes` lanes; a row starts a new word.

    element: taken in each cycle in which `valid` is 1. Returns the lanes of the word and a signal that is 1
    in the cycle in which the last element of a word arrives: the lanes are complete in that very cycle.
    Lanes behind the row's end hold any defined value. After the last element of a row the packing stands at
    its start again.
    """
    slots = min(row, lanes)
    if slots == 1:
        return [element] * lanes, valid
    place = c.register(index_bits(slots))
    at_end = c.equals(place.q, slots - 1)
    rest = row % lanes if row > lanes else 0
    if rest:
        row_end = Nest(c, [row], valid).carry(0)
        full = c.or_(c.and_(valid, at_end), row_end)
    else:
        full = c.and_(valid, at_end)
    bits = place.q.width
    following = c.slice(c.add(place.q, c.const(1, bits), bits), 0, bits)
    place.set(c.mux(full, c.const(0, bits), following), valid)
    word = []
    for lane in range(slots - 1):
        here = c.equals(place.q, lane)
        held = c.hold(element, c.and_(valid, here))
        # Only the last element of a short word is not held yet when the word is complete.
        word.append(c.mux(here, element, held) if lane == rest - 1 else held)
    return word + [element] * (lanes - slots + 1), full
