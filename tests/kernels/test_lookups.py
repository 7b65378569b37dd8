"""Reads and writes at computed indices: RTL equals the software model, which equals numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, random_array, tensor
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.lookups.mode import PutMode, accumulator
from torchcalyx.kernels.lookups.put import Put
from torchcalyx.kernels.lookups.take import Take, take
from torchcalyx.kernels.ports.access import Operand
from torchcalyx.simulate import Simulator

F16 = fixed(16, 8)
NARROW = integer(3, signed=False)
SIGNED = integer(9)
GRIDS: list[tuple[int, Simulator | None]] = [(1, None), (3, "verilator"), (4, None), (8, None)]


def taking(
    shape: Sequence[int], axis: int, count: int, lanes: int, fmt: NumberFormat = NARROW, *, each: bool = False
) -> Take:
    """`count` elements along one axis; each: an index for every element, else one for a row."""
    sizes = tuple(count if d == axis else n for d, n in enumerate(shape))
    index = sizes if each else tuple(count if d == axis else 1 for d in range(len(shape)))
    return take(tensor(shape, F16, lanes), tensor(index, fmt, lanes, sizes), axis, tensor(sizes, F16, lanes))


def putting(
    mode: PutMode,
    shape: Sequence[int],
    source: Sequence[int],
    axis: int,
    lanes: int,
    fmt: NumberFormat = NARROW,
    *,
    each: bool = False,
    element: NumberFormat = F16,
) -> Put:
    index = source if each else tuple(source[axis] if d == axis else 1 for d in range(len(shape)))
    out = accumulator(mode, element, element, source[axis])
    return Put(
        mode,
        tensor(shape, element, lanes),
        tensor(index, fmt, lanes, source),
        tensor(source, element, lanes),
        tensor(shape, out, lanes),
        axis,
    )


def seen(operand: Operand, array: Array) -> Array:
    return np.asarray(operand.access.read(array))


def taken(spec: Take, rng: np.random.Generator) -> tuple[Array, Array]:
    """What the model gives, and what a loop over all elements gives."""
    arrays = [random_array(rng, o) for o in (spec.table, spec.index)]
    table, index = (seen(o, a) for o, a in zip((spec.table, spec.index), arrays, strict=True))
    want = np.zeros(spec.sizes, dtype=np.int64)
    for place in np.ndindex(*spec.sizes):
        at = int(index[place])
        if 0 <= at < table.shape[spec.axis]:
            want[place] = table[(*place[: spec.axis], at, *place[spec.axis + 1 :])]
    return seen(spec.out, spec.emulate(*arrays).outputs[0]), want


def put(spec: Put, arrays: Sequence[Array]) -> Array:
    base, index, source = (
        seen(o, a) for o, a in zip((spec.base, spec.index, spec.source), arrays, strict=True)
    )
    shift = spec.out.fmt.frac - spec.base.fmt.frac
    result: Any = np.array(base) << shift
    for place in np.ndindex(*index.shape):
        at = int(index[place])
        if 0 <= at < result.shape[spec.axis]:
            into = (*place[: spec.axis], at, *place[spec.axis + 1 :])
            new = int(source[place]) << shift
            old = int(result[into])
            result[into] = {"set": new, "add": old + new, "max": max(old, new), "min": min(old, new)}[
                spec.mode
            ]
    return np.asarray(result)


TAKES: list[tuple[tuple[int, ...], int, int, bool]] = [
    ((5,), 0, 1, True), ((1,), 0, 3, True), ((7,), 0, 11, True), ((6, 3), 0, 5, False), ((6, 8), 0, 5, False),
    ((6, 8), 1, 9, False), ((5, 7), 1, 1, True), ((5, 7), 0, 4, True), ((2, 5, 4), 1, 3, False),
    ((2, 5, 9), 1, 1, False), ((3, 2, 5), 2, 4, True), ((4, 1), 0, 6, False), ((200, 5), 0, 7, False),
]  # fmt: skip


@pytest.mark.parametrize(("lanes", "simulator"), GRIDS)
def test_take_equals_numpy_and_hardware(lanes: int, simulator: Simulator | None) -> None:
    rng = np.random.default_rng(lanes)
    specs = []
    for number, (shape, axis, count, each) in enumerate(TAKES):
        for kind, fmt in enumerate((NARROW, SIGNED)):
            spec = taking(shape, axis, count, lanes, fmt, each=each)
            have, want = taken(spec, rng)
            assert np.array_equal(have, want)
            if (number + lanes) % 2 == kind:
                specs.append(spec)
    check_all(specs, simulator=simulator)


def test_rows_are_read_a_word_a_cycle_and_elements_an_element_a_cycle() -> None:
    rows, elements = taking((100, 32), 0, 10, 8), taking((100, 32), 0, 10, 8, each=True)
    assert (rows.rows, elements.rows) == (True, False)
    assert (rows.cycles(), elements.cycles()) == (10 * 32 // 8 + 3, 10 * 32 + 3)
    short = taking((100, 3), 0, 10, 8)
    assert short.cycles() == 10 + 3


PUTS: list[tuple[tuple[int, ...], tuple[int, ...], int, bool]] = [
    ((5,), (1,), 0, True), ((1,), (4,), 0, True), ((7,), (11,), 0, True), ((6, 3), (5, 3), 0, False),
    ((6, 8), (9, 8), 0, False), ((6, 8), (6, 5), 1, True), ((5, 7), (4, 6), 0, True),
    ((2, 5, 4), (2, 3, 4), 1, False), ((2, 5, 9), (1, 6, 9), 1, False), ((3, 2, 5), (3, 2, 7), 2, True),
]  # fmt: skip
MODES: list[PutMode] = ["set", "add", "max", "min"]


@pytest.mark.parametrize(("lanes", "simulator"), GRIDS)
def test_put_equals_numpy_and_hardware(lanes: int, simulator: Simulator | None) -> None:
    rng = np.random.default_rng(lanes)
    specs = []
    for number, (shape, source, axis, each) in enumerate(PUTS):
        for mode in MODES:
            fmt = NARROW if number % 2 else SIGNED
            spec = putting(mode, shape, source, axis, lanes, fmt, each=each)
            arrays = [random_array(rng, o) for o in (spec.base, spec.index, spec.source)]
            assert np.array_equal(seen(spec.out, spec.emulate(*arrays).outputs[0]), put(spec, arrays))
            if mode == MODES[(number + lanes) % 4]:
                specs.append(spec)
    check_all(specs, simulator=simulator)


def test_a_write_costs_two_cycles() -> None:
    rows, elements = (
        putting("add", (100, 32), (10, 32), 0, 8),
        putting("add", (100, 32), (10, 32), 0, 8, each=True),
    )
    assert (rows.rows, elements.rows) == (True, False)
    copy = 100 * 32 // 8
    assert (rows.cycles(), elements.cycles()) == (copy + 2 * 40 + 2, copy + 2 * 320 + 2)


def test_formats_of_every_kind() -> None:
    specs: list[Take | Put] = []
    for element in (BOOL, integer(64), integer(7, signed=False), fixed(30, 12)):
        table = tensor((5, 6), element, 4)
        index = tensor((4, 1), NARROW, 4, (4, 6))
        specs.append(take(table, index, 0, tensor((4, 6), element, 4)))
        if element.width < 60:
            specs += [putting(m, (5, 6), (4, 6), 0, 4, element=element) for m in MODES]
    rounded = putting("set", (5, 6), (4, 6), 0, 4)
    specs.append(replace(rounded, out=tensor((5, 6), fixed(9, 3), 4)))
    check_all(specs)


def test_both_simulators_agree_over_repeated_calls() -> None:
    for spec in (
        taking((5, 6), 0, 7, 4),
        taking((5, 6), 1, 3, 4, each=True),
        putting("add", (5, 6), (7, 6), 0, 4),
    ):
        check(spec, simulator="icarus")
        check(spec, calls=2)


def test_sums_keep_every_bit() -> None:
    """Six writes of the greatest number to one element come out exactly."""
    spec = putting("add", (2,), (6,), 0, 4)
    top = np.full((1, 6), F16.max)
    out = spec.emulate(np.full((1, 2), F16.max), np.zeros((1, 6), dtype=np.int64), top)
    assert list(out.outputs[0].ravel()) == [7 * F16.max, F16.max]
    assert out.saturated == 0
    assert accumulator("add", F16, fixed(40, 35), 1000).width <= 62
    assert str(accumulator("set", BOOL, BOOL, 3)) == "int2"


def test_parameter_errors_say_what_is_wrong() -> None:
    good = taking((5, 6), 0, 4, 4)
    for change, text in [
        ({"axis": 2}, "dimension 2 is none of"),
        ({"index": tensor((4, 6), F16, 4)}, "the index is held as fixed16.8"),
        ({"index": tensor((4, 5), NARROW, 4)}, r"the index loops over \(4, 5\)"),
        ({"table": tensor((5, 7), F16, 4)}, "table and output differ in another dimension"),
        ({"table": tensor((5, 6), fixed(8, 1), 4)}, "the table holds fixed8.1, the output fixed16.8"),
    ]:
        with pytest.raises(KernelParameterError, match=text):
            replace(good, **change)  # type: ignore[arg-type]
    into = putting("add", (5, 6), (4, 6), 0, 4)
    for change, text in [
        ({"mode": "mul"}, "the mode is not one of set, add, max, min"),
        ({"out": tensor((5, 6), F16, 4)}, "sums of 4 elements do not fit fixed16.8"),
        ({"base": tensor((5, 7), F16, 4)}, r"the base loops over \(5, 7\)"),
        (
            {"base": tensor((3, 6), F16, 4), "out": tensor((3, 6), integer(40), 4), "axis": 1},
            "the source passes",
        ),
    ]:
        with pytest.raises(KernelParameterError, match=text):
            replace(into, **change)  # type: ignore[arg-type]
