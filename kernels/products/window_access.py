"""From an access with a sliding dimension to its window: units of its lines and the words that fill it."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..arith.numerics import ceil_div
from ..ports.access import Operand
from ..ports.stage import positions
from .window_plan import Guard, Stream, Window

WIDEST_WINDOW = 1 << 16
"""Most register bits of a window; a kernel that needs more is refused."""


@dataclass(frozen=True, slots=True)
class _Map:
    """The access with rows and columns joined: (element position, guard coordinates) as vectors."""

    sizes: tuple[int, ...]
    offset: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Slide:
    """How the window moves: vectors of one unit and from group to group, the rest as in `Window`."""

    unit: tuple[int, ...]
    pace: tuple[int, ...]
    units: int
    elements: int
    shift: int
    spacing: int
    hold: int


def window_of(left: Operand, contracted: int) -> Window | str:
    """The window of an access over (rows..., output, taps..., channel), or why there is none.

    The last output dimension slides over the last tap dimension; `contracted` counts taps and channel.
    """
    there, lanes = _joined(left), left.layout.lanes
    sizes = there.sizes
    slide, channel = len(sizes) - contracted - 1, len(sizes) - 1
    step, *guarded = there.columns[channel]
    in_word = sizes[channel] == 1 or (step == 1 and not any(guarded) and sizes[channel] <= lanes)
    lines = [*range(slide + 1, channel - 1), *([] if in_word else [channel])]
    for dim in (*range(slide), *lines):
        if sizes[dim] > 1 and there.columns[dim][0] % lanes:
            return f"neighbours of loop dimension {dim} do not lie whole words of {lanes} lanes apart"
    found = _slide(there, slide, sizes[channel] if in_word else 1, lanes)
    if isinstance(found, str):
        return found
    window = _window(there, slide, lines, found, lanes)
    bits = window.register_elements * left.fmt.width
    if bits > WIDEST_WINDOW:
        return f"the window takes {bits} register bits, more than {WIDEST_WINDOW}"
    return window


def _joined(left: Operand) -> _Map:
    """Without the guards that no index of the access violates."""
    base, steps = positions(left)
    access = left.access
    rows = [(base, steps)]
    limits = []
    for offset, guard, limit in zip(access.offsets[2:], access.steps[2:], access.limits, strict=True):
        low, high = Guard(offset, guard, 0, limit).reach(access.sizes, 1)
        if low < 0 or high >= limit:
            rows.append((offset, guard))
            limits.append(limit)
    columns = tuple(tuple(row[1][d] for row in rows) for d in range(len(access.sizes)))
    return _Map(access.sizes, tuple(row[0] for row in rows), columns, tuple(limits))


def _slide(there: _Map, slide: int, elements: int, lanes: int) -> _Slide | str:
    """The movement along loop dimension `slide`, whose taps are the last dimension but one."""
    tap = len(there.sizes) - 2
    taps, base = there.sizes[tap], there.offset[0]
    found = _slope(there, slide, tap)
    if found is None:
        return f"loop dimension {slide} does not slide over loop dimension {tap}"
    shift, spacing, unit = found
    if unit[0] % lanes == 0 and base % lanes == 0:
        if shift >= taps:  # windows share nothing: each loads its own taps
            return _Slide(there.columns[tap], there.columns[slide], 1, elements, taps, 1, 0)
        hold = spacing * (taps - 1) + 1 - shift
        return _Slide(unit, _times(unit, shift), 1, elements, shift, spacing, hold)
    finer, rest = divmod(unit[0], elements)
    if rest or finer < 1 or lanes % elements or base % elements or any(u % finer for u in unit):
        return f"pixels {unit[0]} elements apart neither start words of {lanes} lanes nor fill them"
    shift, spacing, unit = shift * finer, spacing * finer, tuple(u // finer for u in unit)
    units = lanes // elements
    hold = max(spacing * (taps - 1) + 1 - shift, 0)
    hold += -(base // elements + hold) % units  # what follows the held units starts a word
    return _Slide(
        unit, _times(unit, units * shift // gcd(units, shift)), units, elements, shift, spacing, hold
    )


def _slope(there: _Map, slide: int, tap: int) -> tuple[int, int, tuple[int, ...]] | None:
    """(shift, spacing) in units, and the vector of one unit."""
    one, other = there.columns[slide], there.columns[tap]
    if there.sizes[tap] == 1 or there.sizes[slide] == 1:
        return 1, 1, one if there.sizes[tap] == 1 else other
    axis = next((a for a, step in enumerate(other) if step), None)
    if axis is None or one[axis] * other[axis] <= 0:
        return None
    common = gcd(one[axis], other[axis])
    shift, spacing = abs(one[axis]) // common, abs(other[axis]) // common
    if any(a * spacing != b * shift for a, b in zip(one, other, strict=True)):
        return None
    return shift, spacing, tuple(step // spacing for step in other)


def _times(vector: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(factor * v for v in vector)


def _window(there: _Map, slide: int, lines: list[int], move: _Slide, lanes: int) -> Window:
    """The streams of a movement along dimension `slide` in the loop dimensions `lines`."""
    sizes, unit, units = there.sizes, move.unit, move.units
    rows, taps = sizes[:slide], sizes[-2]
    group, group_words = units // gcd(units, move.shift), move.shift // gcd(units, move.shift)
    groups, held = ceil_div(sizes[slide], group), ceil_div(move.hold, units)
    last = (sizes[slide] - 1) * move.shift + move.spacing * (taps - 1)  # the last unit needed
    needed = (last - (move.hold - held * units)) // units + 1  # words of a line that hold needed units

    def stream(start: int, word: int, loops: list[tuple[int, tuple[int, ...], int]]) -> Stream:
        """start, word: first unit and word. loops: trips, step and words, between the rows and the lines."""
        trips = (*rows, *(n for n, _, _ in loops), *(sizes[d] for d in lines))
        steps = [*there.columns[:slide], *(v for _, v, _ in loops), *(there.columns[d] for d in lines)]
        offset = [o + start * u for o, u in zip(there.offset, unit, strict=True)]
        guards = [
            Guard(offset[a], tuple(v[a] for v in steps), unit[a], limit)
            for a, limit in enumerate(there.limits, start=1)
        ]
        counts = (*[0] * slide, *(n for _, _, n in loops), *[0] * len(lines))
        guards.append(Guard(word, counts, 0, needed))
        kept = [g for g in guards if g.reach(trips, units)[0] < 0 or g.reach(trips, units)[1] >= g.limit]
        return Stream(trips, offset[0] // lanes, tuple(v[0] // lanes for v in steps), tuple(kept))

    along = _times(unit, units)
    following = stream(move.hold, held, [(groups, move.pace, group_words), (group_words, along, 1)])
    first = stream(move.hold - held * units, 0, [(held, along, 1)]) if held else None
    return Window(
        rows, sizes[slide], taps, tuple(sizes[d] for d in lines), units, move.elements,
        move.shift, move.spacing, move.hold, following, first,
    )  # fmt: skip
