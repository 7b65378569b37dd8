"""Running folds: RTL equals the software model, which equals numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, random_array, tensor
from torchcalyx.kernels.arith.expr import ExprBuilder, narrowing, value_of
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.folds.fold import FOLD_OPS, FoldOp, accumulator
from torchcalyx.kernels.folds.scan import Scan, refusal, scan
from torchcalyx.kernels.ports.access import Layout, Operand, whole
from torchcalyx.simulate import Simulator

F16 = fixed(16, 8)
FUNCTIONS: dict[FoldOp, Callable[..., Any]] = {
    "add": np.cumsum,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}
GRIDS: list[tuple[int, Simulator | None]] = [(1, None), (3, "verilator"), (4, None), (8, None)]
DOMAINS: list[tuple[tuple[int, ...], int]] = [
    ((1,), 0), ((7,), 0), ((17,), 0), ((5, 11), 1), ((5, 11), 0), ((3, 8), 1), ((8, 4), 0),
    ((2, 3, 7), 0), ((2, 3, 7), 1), ((2, 3, 7), 2), ((3, 1, 5), 1), ((5, 1), 0), ((1, 9), 1),
    ((9, 1), 1), ((1, 1), 0),
]  # fmt: skip


def running(
    op: FoldOp, shape: Sequence[int], dim: int, lanes: int, fmt: NumberFormat = F16, out: NumberFormat = F16
) -> Scan:
    total = accumulator(op, value_of(fmt), shape[dim])
    source, target = tensor(shape, fmt, lanes), tensor(shape, out, lanes)
    return scan(op, narrowing(fmt, fmt), [source], dim, narrowing(total, out), target)


def model(spec: Scan, data: Array) -> Array:
    layout = spec.operands[0].layout
    return np.asarray(spec.emulate(data.reshape(layout.rows, layout.cols)).outputs[0]).ravel()


@pytest.mark.parametrize(("lanes", "simulator"), GRIDS)
def test_equals_numpy_and_hardware(lanes: int, simulator: Simulator | None) -> None:
    specs = []
    rng = np.random.default_rng(lanes)
    for number, (shape, dim) in enumerate(DOMAINS):
        data = rng.integers(F16.min, F16.max + 1, shape)
        for op, function in FUNCTIONS.items():
            spec = running(op, shape, dim, lanes)
            want = np.clip(function(data, axis=dim), F16.min, F16.max)
            assert np.array_equal(model(spec, data), want.ravel())
            if op == FOLD_OPS[number % 3]:
                specs.append(spec)
    check_all(specs, simulator=simulator)


def test_one_word_a_cycle_in_both_directions() -> None:
    across, along = running("add", (16, 24), 0, 8), running("add", (16, 24), 1, 8)
    assert (across.lanes, along.lanes) == ("kept", "folded")
    assert across.cycles() == 48 + 1 + 1 + 1
    assert along.cycles() == 48 + 1 + 1 + 1 + 1


def test_sums_keep_every_bit_until_they_are_narrowed() -> None:
    """A sum that has left the output's range comes back exactly."""
    spec = running("add", (4,), 0, 4)
    result = spec.emulate(np.array([[30000, 10000, -20000, -1]]))
    assert list(result.outputs[0].ravel()) == [30000, 32767, 20000, 19999]
    assert result.saturated == 1


def test_every_format() -> None:
    rng = np.random.default_rng(4)
    specs = []
    for fmt, out in [(BOOL, integer(8)), (integer(64), integer(64)), (fixed(40, 20), fixed(30, 4))]:
        for dim in (0, 1):
            spec = running("add", (5, 7), dim, 4, fmt, out)
            array = random_array(rng, spec.operands[0])
            sums = np.cumsum(array.reshape(5, 7).astype(object), axis=dim)
            shift = Fraction(2) ** (out.frac - fmt.frac)
            want = [min(max(round(int(v) * shift), out.min), out.max) for v in sums.ravel()]
            assert list(spec.emulate(array).outputs[0].ravel()) == want
            specs.append(spec)
        specs.append(running("max", (5, 7), 1, 4, fmt, out))
    check_all(specs)


def test_expressions_multiply_on_both_ends() -> None:
    shape = (3, 10)
    b = ExprBuilder()
    prologue = b.build(b.mul(b.input(F16), b.input(F16)), fixed(30, 14))
    specs = []
    for dim in (0, 1):
        b = ExprBuilder()
        acc = b.input(accumulator("add", prologue.ops[-1].value, shape[dim]))
        epilogue = b.build(b.mul(acc, acc), fixed(20, 2))
        operands = [tensor(shape, F16, 4), tensor((10,), F16, 4, shape)]
        specs.append(scan("add", prologue, operands, dim, epilogue, tensor(shape, fixed(20, 2), 4), 2))
    check_all(specs)


def test_misaligned_rows_are_read_element_by_element() -> None:
    source = tensor((6, 10), F16, 4)
    cut = replace(source, access=source.access.slice((0, 2), (1, 1), (6, 7)))
    total = narrowing(accumulator("add", value_of(F16), 7), F16)
    spec = scan("add", narrowing(F16, F16), [cut], 1, total, tensor((6, 7), F16, 4))
    assert (spec.lanes, spec.steps) == ("single", 42)
    data = np.random.default_rng(0).integers(-9, 9, (6, 10))
    assert np.array_equal(model(spec, data), data[:, 2:9].cumsum(1).ravel())
    check(spec)


def test_both_simulators_agree_over_repeated_calls() -> None:
    for dim in (0, 1):
        spec = running("add", (5, 6), dim, 4)
        check(spec, simulator="icarus")
        check(spec, calls=2)


def test_rows_of_one_element_each() -> None:
    layout = Layout(5, 1, 4)
    out = Operand(F16, layout, whole((5, 1), layout))
    keep = narrowing(F16, F16)
    check(scan("max", keep, [tensor((5, 1), F16, 4)], 0, keep, out))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Scan, Array, Array]:
    """A scan of some rows of a tensor with flipped or repeated leading dimensions."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    lanes = draw(st.sampled_from([1, 2, 3, 4, 8]))
    dim = draw(st.integers(0, len(shape) - 1))
    op = draw(st.sampled_from(FOLD_OPS))
    source = tensor(shape, F16, lanes)
    data = np.arange(np.prod(shape)).reshape(shape) * 37 % 101 - 50
    access, seen = source.access, data
    if len(shape) > 1 and shape[dim] > 1 and draw(st.booleans()):
        access = access.slice((shape[0] - 1, *(0,) * (len(shape) - 1)), (-1, *(1,) * (len(shape) - 1)), shape)
        seen = data[::-1]
    total = accumulator(op, value_of(F16), shape[dim])
    spec = scan(
        op, narrowing(F16, F16), [replace(source, access=access)], dim, narrowing(total, F16),
        tensor(shape, F16, lanes),
    )  # fmt: skip
    return spec, data, np.asarray(FUNCTIONS[op](seen, axis=dim)).ravel()


@given(cases())
@settings(max_examples=150)
def test_random_cases_in_the_model(case: tuple[Scan, Array, Array]) -> None:
    spec, data, want = case
    assert np.array_equal(model(spec, data), want)


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(cases(), min_size=20, max_size=20))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_cases_in_hardware(drawn: list[tuple[Scan, Array, Array]]) -> None:
    check_all([spec for spec, _, _ in drawn])


def test_parameter_errors_say_what_is_wrong() -> None:
    keep, x, y = narrowing(F16, F16), tensor((4, 6), F16, 4), tensor((4, 6), F16, 4)
    where = "scan kernel (max) along dimension 1 of (4, 6): "
    assert refusal("max", keep, [x], 1, keep, y) is None
    assert refusal("max", keep, [x], 2, keep, y) == "cannot scan dimension 2 of [(4, 6), (4, 6)]"
    assert refusal("max", keep, [x], 1, keep, tensor((4, 5), F16, 4)) == (
        "cannot scan dimension 1 of [(4, 6), (4, 5)]"
    )
    assert refusal("max", keep, [x], 1, keep, tensor((4, 6), fixed(8, 1), 4)) == (
        where + "the epilogue gives fixed16.8, the output holds fixed8.1"
    )
    assert refusal("max", keep, [x, x], 1, keep, y) == where + "expression of 1 operands given 2 memories"
    nothing = "scan kernel (max) along dimension 1 of (): it needs at least one operand"
    assert refusal("max", keep, [], 1, keep, y) == nothing
    turned = replace(x, access=x.access.permute((1, 0)))
    assert refusal("max", keep, [turned], 0, keep, tensor((6, 4), F16, 4)) == (
        "scan kernel (max) along dimension 0 of (6, 4): "
        "operand 0: neighbours of loop dimension 1 lie 0 columns and 1 rows apart"
    )
    with pytest.raises(KernelParameterError, match="epilogue input 0 takes"):
        scan("add", keep, [x], 1, keep, y)
