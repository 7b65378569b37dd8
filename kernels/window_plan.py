"""How a sliding window reaches its registers: which memory words it needs, and when they are loaded.

The window slides along one line of memory for each combination of the outer taps (a "line"). Along a line, a unit is
the least distance between elements that windows need: `elements` neighbouring elements (the channels of a pixel) lie
at each unit, and a memory word holds `units` of them: 1 when every pixel starts a word, more when pixels are packed.
Successive outputs lie `shift` units apart and taps `spacing` units. `group` outputs consume `group_words` whole words
of each line, so words enter between groups, and in a group the registers shift by whole units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from .access import Operand
from .numerics import ceil_div, product
from .stage import positions

WIDEST_WINDOW = 1 << 16
"""Most register bits of a window; a kernel that needs more is refused."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A coordinate that must lie in 0 .. limit - 1: offset + sum(index * step) + unit * (place in the word)."""

    offset: int
    steps: tuple[int, ...]
    unit: int
    limit: int

    def reach(self, sizes: Sequence[int], units: int) -> tuple[int, int]:
        """Least and largest value of the coordinate."""
        ends = [s * (n - 1) for s, n in zip((*self.steps, self.unit), (*sizes, units), strict=True)]
        return self.offset + sum(min(e, 0) for e in ends), self.offset + sum(max(e, 0) for e in ends)


@dataclass(frozen=True, slots=True)
class Stream:
    """Words read in the order of a loop nest: address (in words) and the guards that some element violates."""

    sizes: tuple[int, ...]
    base: int
    steps: tuple[int, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window of `taps` x `lines` x `elements`; see the module's text.

    rows, outputs: trips of the leading dimensions and of the dimension that slides. units, elements: of a word. hold:
    units of a line that stay when a group's words enter. next_words: the words that a group needs beyond those held.
    first_words: the words that fill the held part at the start of a row (None: nothing is held).
    """

    rows: tuple[int, ...]
    outputs: int
    taps: int
    lines: tuple[int, ...]
    units: int
    elements: int
    shift: int
    spacing: int
    hold: int
    next_words: Stream
    first_words: Stream | None

    @property
    def group(self) -> int:
        """Outputs that share the words of one group."""
        return self.units // gcd(self.units, self.shift)

    @property
    def group_words(self) -> int:
        """Words of each line that a group takes."""
        return self.shift // gcd(self.units, self.shift)

    @property
    def held_words(self) -> int:
        """Words of each line that the held units touch."""
        return ceil_div(self.hold, self.units)

    @property
    def line_count(self) -> int:
        """Lines of the window."""
        return product(self.lines)

    @property
    def length(self) -> int:
        """Units of each line in registers: those of one group of outputs."""
        return self.hold + self.group * self.shift

    @property
    def loads(self) -> int:
        """Words loaded for a group."""
        return self.group_words * self.line_count

    @property
    def first_loads(self) -> int:
        """Words loaded for the held part at the start of a row."""
        return self.held_words * self.line_count

    @property
    def register_elements(self) -> int:
        """Elements in registers: the window and the words that wait beside it."""
        waiting = (self.loads + self.first_loads) * self.units * self.elements
        return self.length * self.line_count * self.elements + waiting

    def period(self, beats: int) -> int:
        """Cycles from one output to the next when each takes `beats` cycles of the dot array."""
        return max(beats, ceil_div(self.loads, self.group))

    def stall(self, beats: int) -> int:
        """Cycles between two rows in which the dot array waits for words.

        The words of the next row's start enter beside the current row wherever the array leaves memory cycles free.
        """
        period, groups = self.period(beats), ceil_div(self.outputs, self.group)
        late = max(0, self.first_loads - (groups - 1) * (self.group * period - self.loads))
        last = self.outputs - (groups - 1) * self.group
        return max(0, self.loads + late - last * period)


@dataclass(frozen=True, slots=True)
class _Map:
    """The access with rows and columns joined: (element position, guard coordinates) as vectors."""

    offset: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]


def window_of(left: Operand, contracted: int) -> Window | str:
    """The window of an access over (rows..., output, taps..., channel), or why there is none.

    The last output dimension slides over the last tap dimension; `contracted` counts taps and channel.
    """
    sizes, lanes = left.access.sizes, left.layout.lanes
    there = _joined(left)
    slide, tap, channel = len(sizes) - contracted - 1, len(sizes) - 2, len(sizes) - 1
    found = _slope(there, sizes, slide, tap)
    if isinstance(found, str):
        return found
    shift, spacing, unit = found
    channels = sizes[channel]
    step, *guarded = there.columns[channel]
    in_word = channels == 1 or (step == 1 and not any(guarded) and channels <= lanes)
    elements = channels if in_word else 1
    lines = [*range(slide + 1, tap), *([] if in_word else [channel])]
    for dim in (*range(slide), *lines):
        if sizes[dim] > 1 and there.columns[dim][0] % lanes:
            return f"neighbours of loop dimension {dim} do not lie whole words of {lanes} lanes apart"
    units = _units(there.offset[0], unit[0], elements, lanes)
    if isinstance(units, str):
        return units
    if units == 1 and shift >= sizes[tap]:  # windows share nothing: each loads its own taps
        shift, spacing, hold = sizes[tap], 1, 0
        pace, unit = there.columns[slide], there.columns[tap]
    else:
        hold = max(spacing * (sizes[tap] - 1) + 1 - shift, 0)
        if units > 1:
            hold += -(there.offset[0] // elements + hold) % units
        pace = _times(unit, units * shift // gcd(units, shift))
    window = _window(there, sizes, (slide, lines), (units, elements, lanes), (shift, spacing, hold), (pace, unit))
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
    return _Map(tuple(row[0] for row in rows), columns, tuple(limits))


def _slope(
    there: _Map, sizes: Sequence[int], slide: int, tap: int
) -> tuple[int, int, tuple[int, ...]] | str:
    """(shift, spacing) in units, and the vector of one unit."""
    one, other = there.columns[slide], there.columns[tap]
    if sizes[tap] == 1 or sizes[slide] == 1:
        return 1, 1, one if sizes[tap] == 1 else other
    apart = f"loop dimension {slide} does not slide over loop dimension {tap}"
    axis = next((a for a, step in enumerate(other) if step), None)
    if axis is None or one[axis] * other[axis] <= 0:
        return apart
    common = gcd(one[axis], other[axis])
    shift, spacing = abs(one[axis]) // common, abs(other[axis]) // common
    if any(a * spacing != b * shift for a, b in zip(one, other, strict=True)):
        return apart
    return shift, spacing, tuple(step // spacing for step in other)


def _units(base: int, unit: int, elements: int, lanes: int) -> int | str:
    """Units of a word."""
    if unit % lanes == 0 and base % lanes == 0:
        return 1
    if unit == elements and lanes % elements == 0 and base % elements == 0:
        return lanes // elements
    return f"pixels {unit} elements apart neither start words of {lanes} lanes nor fill them"


def _times(vector: tuple[int, ...], factor: int) -> tuple[int, ...]:
    return tuple(factor * v for v in vector)


def _window(
    there: _Map,
    sizes: Sequence[int],
    dims: tuple[int, list[int]],
    word: tuple[int, int, int],
    geometry: tuple[int, int, int],
    vectors: tuple[tuple[int, ...], tuple[int, ...]],
) -> Window:
    """dims: the sliding dimension and the lines. word: units, elements, lanes. geometry: shift, spacing, hold.

    vectors: from group to group, and of one unit.
    """
    slide, lines = dims
    units, elements, lanes = word
    shift, spacing, hold = geometry
    pace, unit = vectors
    rows, taps = tuple(sizes[:slide]), sizes[-2]
    group, group_words = units // gcd(units, shift), shift // gcd(units, shift)
    groups, held = ceil_div(sizes[slide], group), ceil_div(hold, units)
    last = (sizes[slide] - 1) * shift + spacing * (taps - 1)  # the last unit needed, counted from the first
    needed = (last - (hold - held * units)) // units + 1  # words of a line that hold needed units

    def stream(start: int, loops: list[tuple[int, tuple[int, ...], int]], word: int) -> Stream:
        """start: first unit. loops: trips, step and words between the rows and the lines. word: number of the first."""
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
    following = stream(hold, [(groups, pace, group_words), (group_words, along, 1)], held)
    first = stream(hold - held * units, [(held, along, 1)], 0) if held else None
    sliding = (sizes[slide], taps, tuple(sizes[d] for d in lines))
    return Window(rows, *sliding, units, elements, shift, spacing, hold, following, first)
