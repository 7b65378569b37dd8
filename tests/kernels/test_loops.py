"""Loop nests in hardware against nested Python loops: every signal in every step, over repeated calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests import tally
from tests.kernels.group import quickest
from torchcalyx.design import Design, DesignMemory
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.rtl import hw
from torchcalyx.kernels.rtl.loops import Nest
from torchcalyx.simulate import simulate
from torchcalyx.tools.toolchain import compile_calyx

BITS = 9
FIELD = 12


@dataclass(frozen=True)
class Probe:
    """A nest with a pointer and a digit pointer. every: cycles from one step to the next."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base: int
    lanes: int
    every: int = 1

    @property
    def fields(self) -> int:
        return 3 + 2 * (len(self.sizes) + 1) + len(self.sizes)

    def component(self, prog: hw.Program, name: str) -> hw.Component:
        """Writes all signals of step i to word i."""
        trips = product(self.sizes) * self.every
        c = prog.component(name, latency=trips)
        issue = c.run(trips, 0)
        step = issue
        if self.every > 1:
            step = Nest(c, [self.every], issue).carry(0)
        nest = Nest(c, self.sizes, step)
        assert nest.trips == product(self.sizes)
        word, lane = nest.digit_pointer(self.strides, self.base, self.lanes, BITS)
        signals = [nest.pointer(self.strides, self.base, BITS), word, lane]
        signals += [nest.carry(d) for d in range(len(self.sizes) + 1)]
        signals += [nest.first(d) for d in range(len(self.sizes) + 1)]
        signals += [c.const(0, 1) if count is None else count for count in nest.counters]
        row_major = [product(self.sizes[d + 1 :]) for d in range(len(self.sizes))]
        memory = c.memory_ref("y", FIELD * self.fields, nest.trips)
        address = nest.pointer(row_major, 0, memory.address_bits)
        c.write(memory, address, c.concat([c.pad(s, FIELD) for s in signals]), step)
        return c

    def expected(self) -> list[list[int]]:
        """The same from nested loops."""
        rows, depth = [], len(self.sizes)
        for index in combinations(*(range(n) for n in self.sizes)):
            place = self.base + sum(i * s for i, s in zip(index, self.strides, strict=True))
            row = [place % 2**BITS, (place // self.lanes) % 2**BITS, place % self.lanes]
            row += [
                int(all(index[e] == self.sizes[e] - 1 for e in range(d, depth))) for d in range(depth + 1)
            ]
            row += [int(all(index[e] == 0 for e in range(d, depth))) for d in range(depth + 1)]
            rows.append([*row, *index])
        return rows


def check(probes: Sequence[Probe]) -> None:
    prog = hw.Program()
    main = prog.component("main")
    calls, memories, cycles = [], [], 0
    for number, probe in enumerate(probes):
        name, words = f"m{number}", product(probe.sizes)
        main.memory_external(name, FIELD * probe.fields, words)
        memories.append(DesignMemory(name, words, probe.fields, FIELD, "output"))
        main.instance(probe.component(prog, f"probe{number}"), f"u{number}")
        calls += [main.invoke(f"u{number}", {"y": name})] * 2
        cycles += 2 * words * probe.every
    main.control(hw.sequence(calls))
    design = Design(prog.text(), tuple(memories), cycles)
    result = simulate(design, compile_calyx(design.futil), [{}, {}], simulator=quickest())
    assert set(result.cycles) == {cycles}
    for outputs in result.outputs:
        for number, probe in enumerate(probes):
            assert np.array_equal(outputs[f"m{number}"], probe.expected()), probe
    tally.count(vectors=2 * len(probes), cycles=2)


@st.composite
def probes(draw: st.DrawFn) -> Probe:
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    strides = tuple(draw(st.integers(-20, 20)) for _ in sizes)
    return Probe(
        sizes,
        strides,
        draw(st.integers(-30, 60)),
        draw(st.sampled_from([1, 2, 3, 4, 7, 8])),
        draw(st.sampled_from([1, 1, 2, 3])),
    )


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(probes(), min_size=40, max_size=40))
@settings(max_examples=2, phases=[Phase.generate])
def test_counters_pointers_and_flags_equal_nested_loops(drawn: list[Probe]) -> None:
    check(drawn)


@pytest.mark.parametrize("lanes", [1, 3, 4, 8])
def test_typical_nests(lanes: int) -> None:
    check(
        [
            Probe((1,), (5,), 0, lanes),
            Probe((1, 1, 1), (1, 2, 3), 7, lanes),
            Probe((13,), (1,), 0, lanes),
            Probe((5, 7), (7, 1), 0, lanes),  # row-major: one running counter
            Probe((5, 7), (1, 5), 3, lanes),  # column-major
            Probe((4, 3), (0, 1), 2, lanes),  # a broadcast dimension
            Probe((3, 4), (-4, -1), 11, lanes, 2),  # backwards, with pauses
            Probe((2, 1, 3, 1), (64, 9, -1, 9), -2, lanes),
        ]
    )
