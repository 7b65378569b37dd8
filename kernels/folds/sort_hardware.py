"""The hardware of the sorting kernel: its first sweep, the sweeps over words inside, the writing ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ports.assemble import assemble
from ..rtl.hw import Component, Memory, Program, Signal
from ..rtl.loops import Nest
from .exchange import through_levels, through_stage
from .sort_parameters import SortParameters
from .sort_plan import merger, network, place_bits


def build_sort(spec: SortParameters, prog: Program, name: str, words: Mapping[str, int]) -> Component:
    """The component of a `SortParameters`."""
    c = prog.component(name, latency=spec.cycles())
    memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in spec.ports()}
    first, others, *_ = gates = _gates(c, spec)
    keys, arrived, place = _first_sweep(c, spec, first, memories["x0"])
    if spec.passes:
        assert len(gates) == 3
        keys, arrived = _sweeps(c, spec, others, (keys, arrived, place))
    _write(c, spec, keys, arrived, memories)
    return c


def _gates(c: Component, spec: SortParameters) -> list[Signal]:
    """1 in the cycles of the first sweep, and of all others."""
    phases = spec.phases
    if spec.passes:
        return c.run_in_turn(*phases) if phases[-1] else [*c.run_in_turn(*phases[:2]), c.const(0, 1)]
    first, rest = c.run_in_turn(*phases[::2]) if phases[-1] else (c.run_in_turn(phases[0])[0], c.const(0, 1))
    return [first, rest]


def _within(c: Component, gate: Signal, trips: int, rest: int) -> tuple[Signal, Signal | None]:
    """(1 in the first `trips` of each trips + rest cycles of a gate, number of the cycle)."""
    nest = Nest(c, [trips + rest], gate)
    count = nest.counters[0]
    return (gate if count is None else c.and_(gate, c.below(count, trips))), count


def _low(c: Component, count: Signal | None, bits: int) -> Signal | None:
    """The lowest bits of a counter; None for no bits."""
    return None if count is None or not bits else c.slice(count, 0, bits)


def _first_sweep(
    c: Component, spec: SortParameters, gate: Signal, memory: Memory
) -> tuple[list[Signal], Signal, Signal | None]:
    """Sorted words of keys, a signal that is 1 while they arrive, and their places (row and word)."""
    step, count = _within(c, gate, spec.sweep, spec.sorted_after)
    word = _low(c, count, spec.place_bits)
    inside = step if word is None else c.and_(step, c.below(word, spec.words))
    nest = Nest(c, [loop.size for loop in spec.reader.loops], inside)
    elements = spec.reader.build(c, nest, [memory])
    late = spec.reader.latency
    here = c.delay(inside, late)
    last = None if word is None else c.delay(c.equals(word, spec.words - 1), late)
    keys = []
    for lane, element in enumerate(elements):
        exists: Signal | None = here
        if lane >= (spec.count - 1) % spec.width + 1:  # behind the row's end in its last word
            exists = None if last is None else c.and_(here, c.not_(last))
        keys.append(_key(c, spec, element, exists, lane, None if word is None else c.delay(word, late)))
    odd = c.const(0, 1) if word is None else c.delay(c.slice(word, 0, 1), late)
    ordered = through_levels(c, keys, network(spec.width), odd, c.const(1, 1))
    place = None if count is None else c.delay(count, spec.sorted_after)
    return ordered, c.delay(step, spec.sorted_after), place


def _key(
    c: Component, spec: SortParameters, element: Signal, exists: Signal | None, lane: int, word: Signal | None
) -> Signal:
    """The element, turned for a descending order, above its index; behind the row the greatest key."""
    bits, width = element.width, spec.index_width
    value = c.not_(element) if spec.descending else element
    most = c.const((1 << (bits - 1)) - 1, bits)
    value = most if exists is None else c.mux(exists, value, most)
    if not width:
        return value
    low = (spec.width - 1).bit_length()
    parts = [] if not low else [c.const(lane, low)]
    if word is not None:
        parts.append(word)
    return c.concat([*(parts or [c.const(0, width)]), value])


def _sweeps(
    c: Component, spec: SortParameters, gate: Signal, start: tuple[Sequence[Signal], Signal, Signal | None]
) -> tuple[list[Signal], Signal]:
    """The sorted words in the last sweep and a signal that is 1 while they arrive."""
    keys, arrived, place = start
    length = spec.sweep + spec.pass_latency
    nest = Nest(c, [len(spec.passes), length], gate)
    number, count = nest.counters
    assert count is not None and place is not None
    step = c.and_(gate, c.below(count, spec.sweep))
    odd = c.const(0, 1) if number is None else c.slice(number, 0, 1)
    plan = _Plan(c, spec, number, count)
    late = spec.pass_latency
    bits = plan.address.width
    address, writing = c.delay(plan.address, late), c.delay(step, late)
    width = keys[0].width * spec.width
    banks = [c.memory_private(f"bank{n}", width, spec.sweep) for n in (0, 1)]
    exchanged: list[Signal] = []
    reads = []
    for n, bank in enumerate(banks):
        mine = odd if n else c.not_(odd)  # sweep p reads bank p % 2 and writes the other
        reading = c.and_(step, mine)
        reads.append((bank, mine, reading))
    word = c.mux(c.delay(odd, 1), *(Signal(f"{b.name}.read_data", width) for b in reversed(banks)))
    row = c.split(word, spec.width)
    after = 1
    for stage in reversed(range(spec.reach)):
        on = c.and_(plan.active(stage), c.slice(count, stage, 1))
        row = through_stage(c, row, 2**stage, c.delay(plan.down, after), c.delay(on, after))
        after += 2**stage + 1
    exchanged = through_levels(
        c, row, merger(spec.width), c.delay(plan.down, after), c.delay(plan.merge, after)
    )
    result = c.concat(exchanged)
    for n, (bank, mine, reading) in enumerate(reads):
        back = c.and_(writing, c.delay(c.not_(mine), late))
        where, data, write = c.mux(back, address, plan.address), result, back
        if n == 0:  # the first sweep fills it
            write = c.or_(back, arrived)
            where = c.mux(arrived, c.slice(place, 0, bits), where)
            data = c.mux(arrived, c.concat(list(keys)), result)
        c.connect(f"{bank.name}.addr0", where)
        c.connect(f"{bank.name}.content_en", c.or_(reading, write))
        c.connect(f"{bank.name}.write_en", write)
        c.connect(f"{bank.name}.write_data", data)
    visible = c.below(c.slice(count, 0, spec.place_bits), spec.words)
    return exchanged, c.delay(c.and_(c.and_(step, plan.last), visible), late)


class _Plan:
    """Control of a sweep: a word of a table for each sweep, places from the counter."""

    def __init__(self, c: Component, spec: SortParameters, number: Signal | None, count: Signal) -> None:
        self.c = c
        bits, reach = spec.place_bits, spec.reach
        bases = sorted({p.base for p in spec.passes})
        words = []
        for i, p in enumerate(spec.passes):
            last = int(i == len(spec.passes) - 1)
            words.append(last | p.merge << 1 | p.active << 2 | bases.index(p.base) << 2 + reach)
        base_bits = max(1, (len(bases) - 1).bit_length())
        width = 2 + reach + base_bits
        table = c.const(words[0], width)
        phase = c.const(0, 1)
        phase_bits = max(1, (bits - 1).bit_length())
        if number is not None:
            index = c.pad(number, number.width + 1)
            table = c.rom(index, words, 0, width)
            phase = c.rom(index, [p.phase - 1 for p in spec.passes], 0, phase_bits)
        self.table = table
        self.last, self.merge = c.slice(table, 0, 1), c.slice(table, 1, 1)
        chosen = c.slice(table, 2 + reach, base_bits)
        address_bits = max(1, (spec.sweep - 1).bit_length())
        bit = [c.slice(count, b, 1) for b in range(address_bits)]
        orders = [[bit[b] for b in place_bits(bits, reach, base)] for base in bases]
        place = [c.select([order[b] for order in orders], chosen) for b in range(bits)]
        self.address = c.concat([*place, *bit[bits:]])
        self.down = c.select([*place[1:], c.const(0, 1)], phase)

    def active(self, stage: int) -> Signal:
        """1 in sweeps in which a stage compares."""
        return self.c.slice(self.table, 2 + stage, 1)


def _write(
    c: Component,
    spec: SortParameters,
    keys: Sequence[Signal],
    arrived: Signal,
    memories: Mapping[str, Memory],
) -> None:
    """Elements and indices of the words that hold some, in the formats of the results."""
    bits = spec.index_width
    lanes = spec.source.layout.lanes
    for name in spec.results:
        parts = []
        for key in keys:
            if name == "y":
                value = c.slice(key, bits, key.width - bits)
                parts.append(c.not_(value) if spec.descending else value)
            else:
                parts.append(c.pad(c.slice(key, 0, bits), bits + 1))
        full = arrived
        if spec.width != lanes:
            parts, full = assemble(c, parts[0], arrived, spec.count, lanes)
        spec.writer(name).build(c, full, {0: parts}, {}, memories[name])
