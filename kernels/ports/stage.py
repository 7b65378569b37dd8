"""The writing end of every kernel: operands read word by word, one expression per lane, one word written a
cycle.

A stream of words arrives in the order of a loop nest. For each step the stage reads the memory operands
(vector: the same lanes as the output; splat: one element for all lanes), evaluates the expression in every
lane and writes the output word. Timing, with the step in cycle t: memory operands appear in t + lead (lead
= 1 when there are any), streams must be given in t + lead, the word is written in t + lead + latency(expr).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..arith.expr import Expr
from ..arith.numerics import bits_for_range, product
from ..rtl.hw import Component, Instance, Memory, Signal
from ..rtl.lane import lane_component, latency, register_bits
from ..rtl.loops import Loop, Nest
from .access import Access, Operand


def positions(operand: Operand) -> tuple[int, tuple[int, ...]]:
    """Element position, counted in padded words, of an access: (offset, step of each loop dimension)."""
    layout, access = operand.layout, operand.access
    row = layout.row_words * layout.lanes
    steps = tuple(row * r + c for r, c in zip(access.steps[0], access.steps[1], strict=True))
    return row * access.offsets[0] + access.offsets[1], steps


def reading_mode(operand: Operand, lane_dim: int) -> str:
    """How a stage can read the operand when `lane_dim` runs over the lanes.

    "vector" (aligned words), "splat" (one element a word), or the reason why neither works, beginning with
    "no: ".
    """
    lanes = operand.layout.lanes
    row_step, column_step, *guard_steps = operand.access.column(lane_dim)
    size = operand.access.sizes[lane_dim]
    if size > 1 and any(guard_steps) and not _pads_whole_words(operand, lane_dim):
        return f"no: it is padded along loop dimension {lane_dim} in the middle of words"
    if size == 1 or (row_step, column_step) == (0, 0):
        base, steps = positions(operand)
        others = [s for d, s in enumerate(steps) if d != lane_dim]
        if size == 1 and base % lanes == 0 and all(s % lanes == 0 for s in others):
            return "vector"
        return "splat"
    if row_step or column_step != 1:
        return (
            f"no: neighbours of loop dimension {lane_dim} lie {column_step} columns and {row_step} rows apart"
        )
    base, steps = positions(operand)
    if base % lanes or any(s % lanes for d, s in enumerate(steps) if d != lane_dim):
        return f"no: rows of loop dimension {lane_dim} do not start at whole words of {lanes} lanes"
    return "vector"


def _pads_whole_words(operand: Operand, lane_dim: int) -> bool:
    """Whether every guard that moves with the lanes changes at word boundaries only."""
    access, lanes = operand.access, operand.layout.lanes
    for offset, steps, limit in zip(access.offsets[2:], access.steps[2:], access.limits, strict=True):
        others = [s for d, s in enumerate(steps) if d != lane_dim]
        moves = steps[lane_dim] != 0
        if moves and (steps[lane_dim] != 1 or any(v % lanes for v in (offset, limit, *others))):
            return False
    return True


def writing_refusal(operand: Operand, lane_dim: int) -> str | None:
    """Why a stage cannot write the operand word by word (None: it can).

    The last word of a row may be written whole only when what lies behind the row is padding or a later
    row's own words.
    """
    size, lanes = operand.access.sizes[lane_dim], operand.layout.lanes
    if operand.access.limits:
        return "an access with padding is not written"
    mode = reading_mode(operand, lane_dim)
    if mode.startswith("no: "):
        return mode.removeprefix("no: ")
    if mode == "splat":
        return "the output word would be written element by element"
    if size % lanes == 0:
        return None
    column_end = operand.access.offsets[1] + sum(
        step * ((operand.access.sizes[d] if d == lane_dim else 1) - 1)
        for d, step in enumerate(operand.access.steps[1])
    )
    moves = any(
        s for d, s in enumerate(operand.access.steps[1]) if d != lane_dim and operand.access.sizes[d] > 1
    )
    if moves or column_end + 1 != operand.layout.cols:
        return f"rows of {size} elements end inside words of {lanes} lanes that hold other elements"
    return None


def strides(operand: Operand, loops: Sequence[Loop | None]) -> tuple[int, list[int]]:
    """Element position offset and step of each loop (None: a loop that the operand does not depend on)."""
    base, steps = positions(operand)
    return base, [steps[loop.dim] * loop.scale if loop else 0 for loop in loops]


@dataclass(frozen=True, slots=True)
class Stage:
    """Parameters of a writing end.

    operands: one entry per expression input, None for a stream. lane_dim: the domain dimension over the
    lanes. loops: order in which the words arrive, outermost first.
    """

    expr: Expr
    operands: tuple[Operand | None, ...]
    out: Operand
    lane_dim: int
    loops: tuple[Loop, ...]
    mul_stages: int = 1

    @property
    def lanes(self) -> int:
        """Elements of a word."""
        return self.out.layout.lanes

    @property
    def lead(self) -> int:
        """Cycles between a step and the moment its streams are needed."""
        return 1 if any(o is not None for o in self.operands) else 0

    @property
    def depth(self) -> int:
        """Cycles from a step to the write of its word."""
        return self.lead + latency(self.expr, self.mul_stages)

    @property
    def register_bits(self) -> int:
        """Bits of the pipelines of all lanes."""
        return self.lanes * register_bits(self.expr, self.mul_stages)

    @property
    def steps(self) -> int:
        """Words written."""
        return product(loop.size for loop in self.loops)

    def build(
        self,
        c: Component,
        step: Signal,
        streams: Mapping[int, Sequence[Signal]],
        memories: Mapping[int, Memory],
        out: Memory,
        keep: Signal | None = None,
        engine: Instance | None = None,
        first_pair: int = 0,
    ) -> None:
        """Make the hardware. streams: lanes of each stream input. memories: memory of each operand input.

        keep: 0 in a step whose word must not be written. engine: where the multiplications go; pairs are
        numbered from `first_pair`, see `drive_pairs`.
        """
        nest = Nest(c, [loop.size for loop in self.loops], step)
        columns: dict[int, Sequence[Signal]] = dict(streams)
        for number, operand in enumerate(self.operands):
            if operand is not None:
                columns[number] = self._read(c, nest, operand, memories[number])
        lanes = [self._lane(c, columns, lane) for lane in range(self.lanes)]
        if engine is not None and self.expr.multiplications:
            connect_pairs(c, engine, lanes, self.expr, first_pair)
        word = c.concat([lane.get("y") for lane in lanes])
        base, steps = strides(self.out, self.loops)
        late = c.delay(step, self.depth)
        writing = c.delay(step if keep is None else c.and_(step, keep), self.depth)
        address = _word_pointer(Nest(c, nest.sizes, late), steps, base, self.lanes, out.address_bits)
        c.write(out, address, word, writing)

    def _read(self, c: Component, nest: Nest, operand: Operand, memory: Memory) -> list[Signal]:
        mode = reading_mode(operand, self.lane_dim)
        return read_operand(c, nest, self.loops, operand, memory, vector=mode == "vector")

    def _lane(self, c: Component, columns: Mapping[int, Sequence[Signal]], lane: int) -> Instance:
        instance = c.instance(lane_component(c.program, self.expr, self.mul_stages))
        return instance.drive(
            **{
                f"i{number}": c.resize(columns[number][lane], value.width)
                for number, value in enumerate(self.expr.inputs)
            }
        )


def read_operand(
    c: Component, nest: Nest, loops: Sequence[Loop | None], operand: Operand, memory: Memory, *, vector: bool
) -> list[Signal]:
    """Lanes of one operand, one cycle after each step of `nest`, whose loops are `loops`.

    vector: the lanes of the word; otherwise the one element that the loops point at, in every lane.
    """
    lanes = operand.layout.lanes
    base, steps = strides(operand, loops)
    inside = inside_guards(c, nest, loops, operand.access)
    # Outside of its guards the pointer may lie beyond the memory: the read is off there.
    enable = nest.step if inside is None else c.and_(nest.step, inside)
    if vector:
        address = _word_pointer(nest, steps, base, lanes, memory.address_bits)
        found = element_lanes(c, operand, c.read(memory, address, enable))
    elif all(s % lanes == 0 for s in steps):  # always the same lane
        address = _word_pointer(nest, steps, base - base % lanes, lanes, memory.address_bits)
        word = element_lanes(c, operand, c.read(memory, address, enable))
        found = [word[base % lanes]] * lanes
    else:
        address, lane = nest.digit_pointer(steps, base, lanes, memory.address_bits)
        word = element_lanes(c, operand, c.read(memory, address, enable))
        found = [c.select(word, c.delay(lane, 1))] * lanes
    if inside is None:
        return found
    late, fill = c.delay(inside, 1), c.const(operand.access.fill, operand.fmt.signed_width)
    if vector:
        return [c.mux(late, lane, fill) for lane in found]
    return [c.mux(late, found[0], fill)] * lanes


def inside_guards(c: Component, nest: Nest, loops: Sequence[Loop | None], access: Access) -> Signal | None:
    """1 in a step whose element lies in memory, not in the padding; None when every element does."""
    result: Signal | None = None
    for offset, steps, limit in zip(access.offsets[2:], access.steps[2:], access.limits, strict=True):
        reach = [s * (n - 1) for s, n in zip(steps, access.sizes, strict=True)]
        low, high = offset + sum(min(r, 0) for r in reach), offset + sum(max(r, 0) for r in reach)
        if low >= 0 and high < limit:
            continue
        strides = [steps[loop.dim] * loop.scale if loop else 0 for loop in loops]
        coordinate = nest.pointer(strides, offset, bits_for_range(low, max(high, limit)))
        valid = c.below(coordinate, limit)  # a negative coordinate is a large unsigned number
        result = valid if result is None else c.and_(result, valid)
    return result


def element_lanes(c: Component, operand: Operand, word: Signal) -> list[Signal]:
    """Lanes of a memory word as two's complement signals (an unsigned element gains a zero bit)."""
    lanes = c.split(word, operand.layout.lanes)
    return lanes if operand.fmt.signed else [c.pad(lane, operand.fmt.width + 1) for lane in lanes]


def _word_pointer(nest: Nest, steps: Sequence[int], base: int, lanes: int, bits: int) -> Signal:
    """Word address where every element step is a multiple of the lane count."""
    words = [s // lanes if size > 1 else 0 for s, size in zip(steps, nest.sizes, strict=True)]
    return nest.pointer(words, base // lanes, bits)


def connect_pairs(c: Component, engine: Instance, lanes: Sequence[Instance], expr: Expr, first: int) -> None:
    """Wire the multiplications of all lanes to the engine's independent multipliers, from `first` on."""
    left, right = engine.child.port_width("a0"), engine.child.port_width("b0")
    pair = first
    for lane in lanes:
        products = {}
        for j in range(expr.multiplications):
            a, b = c.resize(lane.get(f"a{j}"), left), c.resize(lane.get(f"b{j}"), right)
            engine.drive(**{f"a{pair}": a, f"b{pair}": b})
            products[f"p{j}"] = c.resize(engine.get(f"p{pair}"), lane.child.port_width(f"p{j}"))
            pair += 1
        lane.drive(**products)


def word_loops(sizes: Sequence[int], lane_dim: int, lanes: int) -> tuple[Loop, ...]:
    """The loops over a domain, row-major, with the lane dimension counted in words."""
    return tuple(
        Loop(-(-size // lanes), dim, lanes) if dim == lane_dim else Loop(size, dim)
        for dim, size in enumerate(sizes)
    )


def coalesce(accesses: Sequence[Access]) -> tuple[Access, ...]:
    """Accesses over one domain with size-1 dimensions dropped and neighbours merged where every access
    allows it.
    """
    dims = [d for d, size in enumerate(accesses[0].sizes) if size > 1]
    groups: list[list[int]] = []
    for dim in dims:
        size = accesses[0].sizes[dim]
        if groups and all(
            a.column(groups[-1][-1]) == tuple(step * size for step in a.column(dim)) for a in accesses
        ):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    sizes = tuple(product(accesses[0].sizes[d] for d in group) for group in groups)
    return tuple(
        a.over(sizes, tuple(tuple(steps[group[-1]] for group in groups) for steps in a.steps))
        for a in accesses
    )
