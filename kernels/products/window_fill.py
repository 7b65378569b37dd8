"""Reading the words of a window: two streams over one memory port, masked where the padding is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ..arith.numerics import bits_for_range
from ..ports.access import Operand
from ..rtl.hw import Component, Memory, Signal
from ..rtl.loops import Nest
from .window_plan import Stream, Window


@dataclass(frozen=True, slots=True)
class _Request:
    """A read in the cycles of `nest.step`. inside: whether each unit is in memory (None: all are)."""

    nest: Nest
    address: Signal
    enable: Signal
    inside: list[Signal] | None


def load(
    c: Component,
    left: Operand,
    window: Window,
    step: Signal,
    take_group: Signal,
    take_row: Signal,
    finish: Signal,
    memory: Memory,
) -> tuple[Signal, Signal | None]:
    """The words of the next group and of the next row's start, unit by unit along the lines.

    They are complete two cycles after the step in which the window takes them. The group's are read first.
    """
    rows = len(window.rows)
    taken = c.or_(take_group, take_row)
    requests = [_request(c, window, window.next_words, rows + 2, step, taken, finish, memory)]
    if window.first_words is not None:
        free = c.and_(step, c.not_(requests[0].nest.step))
        requests.append(_request(c, window, window.first_words, rows + 1, free, take_row, finish, memory))
    word = _read(c, left, window, requests, memory)
    following = _chain(c, word, requests[0].nest.step, window.loads)
    following = _by_unit(c, window, following, window.group_words)
    if window.first_words is None:
        return following, None
    first = _by_unit(c, window, _chain(c, word, requests[1].nest.step, window.first_loads), window.held_words)
    bits = first.width // (window.held_words * window.units)
    dropped = window.held_words * window.units - window.hold
    return following, c.slice(first, dropped * bits, window.hold * bits)


def _request(
    c: Component,
    window: Window,
    stream: Stream,
    depth: int,
    allowed: Signal,
    taken: Signal,
    finish: Signal,
    memory: Memory,
) -> _Request:
    """Reads whenever it may until the burst is complete; the burst ends with loop `depth` - 1 of the stream.

    The next burst begins when the window has taken this one, unless it was the last of the call.
    """
    complete, over = c.register(1), c.register(1)
    wanted = c.not_(c.or_(complete.q, over.q))
    nest = Nest(c, stream.sizes, c.and_(allowed, wanted))
    burst_end, last = nest.carry(depth - 1), nest.carry(0)
    # A burst never ends in the very cycle of a take that does not include it, so the take wins.
    complete.set(c.and_(burst_end, c.not_(taken)), c.or_(burst_end, taken))
    over.set(c.and_(last, c.not_(finish)), c.or_(last, finish))
    inside = _inside(c, nest, window, stream)
    enable = nest.step
    if inside is not None:
        enable = c.and_(enable, reduce(c.or_, inside))
    return _Request(nest, nest.pointer(stream.steps, stream.base, memory.address_bits), enable, inside)


def _inside(c: Component, nest: Nest, window: Window, stream: Stream) -> list[Signal] | None:
    """For each unit of the word whether all guards hold; one flag when it is the same for all units."""
    whole: Signal | None = None
    single: list[Signal] | None = None
    for guard in stream.guards:
        low, high = guard.reach(stream.sizes, window.units)
        bits = bits_for_range(low, max(high, guard.limit))
        place = nest.pointer(guard.steps, guard.offset, bits)
        if window.units == 1 or guard.unit == 0:
            holds = c.below(place, guard.limit)  # a negative coordinate is a large unsigned number
            whole = holds if whole is None else c.and_(whole, holds)
            continue
        places = [c.add(place, c.const(guard.unit * u, bits), bits) for u in range(window.units)]
        flags = [c.below(p, guard.limit) for p in places]
        single = flags if single is None else [c.and_(a, b) for a, b in zip(single, flags, strict=True)]
    if single is None:
        return None if whole is None else [whole]
    return single if whole is None else [c.and_(flag, whole) for flag in single]


def _read(
    c: Component, left: Operand, window: Window, requests: Sequence[_Request], memory: Memory
) -> Signal:
    """The useful lanes of the word in the cycle after its request, the padding's value in place."""
    address, enable, flags = requests[0].address, requests[0].enable, requests[0].inside
    if len(requests) > 1:
        second = requests[1]
        grouped = requests[0].nest.step
        address, enable = c.mux(grouped, address, second.address), c.or_(enable, second.enable)
        flags = _either(c, grouped, flags, second.inside)
    width = left.fmt.width * window.elements
    word = c.slice(c.read(memory, address, enable), 0, width * window.units)
    if flags is None:
        return word
    value = left.access.fill
    fill = c.concat([c.const(value, left.fmt.width)] * window.elements) if value else c.const(0, width)
    if len(flags) == 1:
        return c.mux(c.delay(flags[0], 1), word, c.concat([fill] * window.units))
    late = [c.delay(flag, 1) for flag in flags]
    return c.concat([c.mux(f, u, fill) for f, u in zip(late, c.split(word, window.units), strict=True)])


def _either(
    c: Component, first: Signal, one: list[Signal] | None, other: list[Signal] | None
) -> list[Signal] | None:
    """The flags of the request that is active."""
    if one is None and other is None:
        return None
    yes = [c.const(1, 1)]
    one, other = one or yes, other or yes
    count = max(len(one), len(other))
    one, other = (f * count if len(f) == 1 else f for f in (one, other))
    return [c.mux(first, a, b) for a, b in zip(one, other, strict=True)]


def _chain(c: Component, word: Signal, step: Signal, count: int) -> Signal:
    """The last `count` words, the oldest lowest."""
    chain = c.register(count * word.width)
    older = [c.slice(chain.q, word.width, (count - 1) * word.width)] if count > 1 else []
    return chain.set(c.concat([*older, word]), c.delay(step, 1))


def _by_unit(c: Component, window: Window, words: Signal, count: int) -> Signal:
    """`count` words of each line, line by line in each, turned to units: the lines side by side in each
    unit."""
    if window.units == 1 or window.line_count == 1:
        return words
    parts = c.split(words, count * window.line_count * window.units)
    return c.concat(
        [
            parts[(place * window.line_count + line) * window.units + unit]
            for place in range(count)
            for unit in range(window.units)
            for line in range(window.line_count)
        ]
    )
