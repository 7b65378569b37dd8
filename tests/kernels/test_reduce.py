"""Reductions: RTL equals the software model, which equals numpy and rational arithmetic."""

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
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value, narrowing, value_of
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.folds.fold import FOLD_OPS, FoldOp
from torchcalyx.kernels.folds.reduce import Reduce, accumulator, mean_constant, reduce, refusal
from torchcalyx.kernels.ports.access import Layout, Operand, whole
from torchcalyx.simulate import Simulator

F16 = fixed(16, 8)
LANES = [1, 3, 4, 8]
FUNCTIONS: dict[FoldOp, Callable[..., Any]] = {"add": np.sum, "max": np.max, "min": np.min}
GRIDS: list[tuple[int, Simulator | None]] = [(1, None), (3, "verilator"), (4, None), (8, None)]
DOMAINS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)), ((7,), (0,)), ((1, 1), (1,)), ((5, 11), (1,)), ((5, 11), (0,)), ((5, 11), (0, 1)),
    ((3, 8), (1,)), ((9, 4), (0,)), ((2, 3, 7), (0, 2)), ((2, 3, 7), (1,)), ((2, 4, 8), (0, 1)),
    ((3, 1, 5), (2,)), ((4, 9), (1,)),
]  # fmt: skip


def folding(
    op: FoldOp,
    shape: Sequence[int],
    reduced: Sequence[int],
    lanes: int,
    fmt: NumberFormat = F16,
    out_fmt: NumberFormat | None = None,
) -> Reduce:
    """A plain reduction of one tensor; the result has the kept shape."""
    keep = narrowing(fmt, fmt)
    count = int(np.prod([shape[d] for d in reduced]))
    total = accumulator(op, value_of(fmt), count)
    result = out_fmt or fmt
    kept = [n for d, n in enumerate(shape) if d not in reduced] or [1]
    return reduce(
        op, keep, [tensor(shape, fmt, lanes)], reduced, narrowing(total, result), tensor(kept, result, lanes)
    )


def model(spec: Reduce, *tensors: Array) -> Array:
    """The software model on tensors, result as a flat array."""
    reads = [p.operand.layout for p in spec.ports() if p.access == "read"]
    arrays = [t.reshape(layout.rows, layout.cols) for t, layout in zip(tensors, reads, strict=True)]
    return np.asarray(spec.emulate(*arrays).outputs[0]).ravel()


def saturated(values: Array, fmt: NumberFormat) -> Array:
    return np.asarray(np.clip(values, fmt.min, fmt.max))


@pytest.mark.parametrize(("lanes", "simulator"), GRIDS)
def test_folds_equal_numpy_and_hardware(lanes: int, simulator: Simulator | None) -> None:
    specs = []
    rng = np.random.default_rng(lanes)
    for number, (shape, reduced) in enumerate(DOMAINS):
        data = rng.integers(F16.min, F16.max + 1, shape)
        for op, function in FUNCTIONS.items():
            spec = folding(op, shape, reduced, lanes)
            want = saturated(function(data, axis=reduced), F16)
            assert np.array_equal(model(spec, data), want.ravel())
            if op == FOLD_OPS[number % 3]:
                specs.append(spec)
    check_all(specs, simulator=simulator)


def test_lanes_take_the_fastest_role() -> None:
    def role(shape: tuple[int, ...], reduced: tuple[int, ...], lanes: int = 4) -> tuple[str, int]:
        spec = folding("add", shape, reduced, lanes)
        return spec.lanes, spec.steps

    assert role((64, 8), (0,), 8) == ("kept", 64)
    assert role((8, 64), (1,), 8) == ("folded", 64)
    assert role((8, 64), (0, 1), 8) == ("folded", 64)
    assert role((7, 5), (1,)) == ("folded", 14)
    assert role((7, 5), (0,)) == ("kept", 14)
    assert role((2, 8, 3, 4), (1, 2)) == ("kept", 48)


def test_cycles_are_steps_and_pipeline() -> None:
    """1 cycle to read, 1 to accumulate, the tree and the narrowing of the result."""
    assert folding("max", (64, 8), (0,), 8).cycles() == 64 + 2
    assert folding("max", (8, 64), (1,), 8).cycles() == 64 + 2 + 1
    assert folding("add", (64, 8), (0,), 8).cycles() == 64 + 2 + 1


@pytest.mark.parametrize("lanes", [3, 4])
def test_permuted_misaligned_and_flipped_operands(lanes: int) -> None:
    keep, rng = narrowing(F16, F16), np.random.default_rng(3)
    data = rng.integers(-99, 99, (6, 10))
    source = tensor((6, 10), F16, lanes)
    total = narrowing(accumulator("add", value_of(F16), 7), F16)
    cut = replace(source, access=source.access.slice((0, 2), (1, 1), (6, 7)))
    back = replace(source, access=source.access.slice((5, 8), (-1, -1), (6, 7)))
    out = tensor((6,), F16, lanes)
    misaligned = reduce("add", keep, [cut], (1,), total, out)
    flipped = reduce("add", keep, [back], (1,), total, out)
    turned_out = tensor((10,), F16, lanes)
    turned = replace(source, access=source.access.permute((1, 0)))
    whole_total = narrowing(accumulator("add", value_of(F16), 6), F16)
    transposed = reduce("add", keep, [turned], (1,), whole_total, turned_out)
    assert (misaligned.lanes, misaligned.steps) == ("single", 42)
    assert transposed.lanes == "kept"
    assert np.array_equal(model(misaligned, data), data[:, 2:9].sum(1))
    assert np.array_equal(model(flipped, data), data[::-1, 8:1:-1].sum(1))
    assert np.array_equal(model(transposed, data), data.sum(0))
    check_all([misaligned, flipped, transposed])


def dot_expressions(count: int) -> tuple[Expr, Expr]:
    """Sum of x * y; then the sum times z, minus half of w."""
    b = ExprBuilder()
    prologue = b.build(b.mul(b.input(F16), b.input(F16)), fixed(32, 16))
    total = accumulator("add", prologue.ops[-1].value, count)
    b = ExprBuilder()
    acc, z, w = b.input(total), b.input(fixed(8, 4)), b.input(fixed(12, 2))
    return prologue, b.build(b.sub(b.mul(acc, z), b.scale_by(w, 1, 1)), fixed(24, 4))


def dot(reduced: int, lanes: int, stages: int) -> Reduce:
    """`dot_expressions` over 5 x 6 elements."""
    shape = (5, 6)
    kept = shape[1 - reduced]
    prologue, epilogue = dot_expressions(shape[reduced])
    operands = [tensor(shape, F16, lanes), tensor((6,), F16, lanes, shape)]
    extras = [tensor((kept,), fixed(8, 4), lanes), tensor((1,), fixed(12, 2), lanes, (kept,))]
    out = tensor((kept,), fixed(24, 4), lanes)
    return reduce("add", prologue, operands, (reduced,), epilogue, out, extras, stages)


@pytest.mark.parametrize(("stages", "lanes"), [(1, [1, 3, 8]), (3, [4])])
def test_expressions_multiply_and_take_extra_memories(stages: int, lanes: list[int]) -> None:
    rng = np.random.default_rng(0)
    specs = [dot(d, n, stages) for d in (0, 1) for n in lanes]
    for spec in specs:
        arrays = [random_array(rng, p.operand) for p in spec.ports()[:-1]]
        x, y, z, w = (a.ravel().astype(object) for a in arrays)
        products = [
            [Fraction(int(v), 256) * Fraction(int(y[j]), 256) for j, v in enumerate(r)]
            for r in x.reshape(5, 6)
        ]
        sums = np.array(products).sum(axis=0 if spec.count == 5 else 1)
        half = Fraction(int(w[0]), 8)
        want = [round((s * Fraction(int(a), 16) - half) * 16) for s, a in zip(sums, z, strict=True)]
        got = spec.emulate(*arrays).outputs[0].ravel()
        assert list(got) == list(saturated(np.array(want), fixed(24, 4)))
    check_all(specs)


def test_every_format_folds_without_overflow() -> None:
    """Sums keep all bits (sums of 64-bit numbers pass 64 bits); any and all are max and min of bool."""
    rng = np.random.default_rng(2)
    specs = []
    for fmt in [BOOL, integer(7, signed=False), fixed(40, 20), integer(64), fixed(2, 1)]:
        for op, function in FUNCTIONS.items():
            for shape, reduced in [((9, 5), (1,)), ((9, 5), (0,)), ((45,), (0,))]:
                spec = folding(op, shape, reduced, 4, fmt)
                array = random_array(rng, spec.operands[0])
                exact = np.asarray(function(array.reshape(shape).astype(object), axis=reduced), dtype=object)
                assert list(spec.emulate(array).outputs[0].ravel()) == list(saturated(exact, fmt).ravel())
                specs.append(spec)
    check_all(specs[::2])


def test_windows_over_padding() -> None:
    """Maxima of 3x3 windows, stride 2, over a channels-last image padded by the least value."""
    specs = []
    for lanes in LANES:
        image = tensor((7, 6, 5), F16, lanes)
        padded = image.access.pad((1, 1, 0), (1, 1, 0), F16.min)
        assert padded is not None
        windows = padded.window(0, 3, 2).window(1, 3, 2)  # (rows, columns, channels, taps, taps)
        rows, columns = windows.sizes[:2]
        keep, out = narrowing(F16, F16), tensor((rows, columns, 5), F16, lanes)
        spec = reduce("max", keep, [replace(image, access=windows)], (3, 4), keep, out)
        assert spec.lanes == "kept"
        data = np.random.default_rng(lanes).integers(-99, 99, (7, 6, 5))
        wide = np.pad(data, ((1, 1), (1, 1), (0, 0)), constant_values=F16.min)
        want = [
            [wide[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((0, 1)) for j in range(columns)]
            for i in range(rows)
        ]
        assert np.array_equal(model(spec, data), np.array(want).ravel())
        specs.append(spec)
    check_all(specs)


def test_saturations_are_counted() -> None:
    spec = folding("add", (4, 3), (1,), 4)
    data = np.array([[30000, 30000, 0], [1, 2, 3], [-30000, -30000, -1], [32767, 0, 0]])
    result = spec.emulate(data.reshape(spec.operands[0].layout.rows, -1))
    assert list(result.outputs[0].ravel()) == [32767, 6, -32768, 32767]
    assert result.saturated == 2


def test_both_simulators_agree_over_repeated_calls() -> None:
    for role, spec in [
        ("kept", folding("add", (5, 6), (0,), 4)),
        ("folded", folding("min", (5, 6), (1,), 4)),
        ("single", cut_rows(4)),
    ]:
        assert spec.lanes == role
        check(spec, simulator="icarus")
        check(spec, calls=2, vectors=1)


def cut_rows(lanes: int) -> Reduce:
    """Maximum of each row between its columns 1 and 4."""
    source = tensor((7, 5), F16, lanes)
    cut = replace(source, access=source.access.slice((0, 1), (1, 1), (7, 3)))
    keep = narrowing(F16, F16)
    return reduce("max", keep, [cut], (1,), keep, tensor((7,), F16, lanes))


def test_rows_of_one_element_each() -> None:
    layout = Layout(5, 1, 4)
    out = Operand(F16, layout, whole((5, 1), layout))
    keep = narrowing(F16, F16)
    source = tensor((5, 1, 6), F16, 4)
    spec = reduce("max", keep, [source], (2,), keep, out)
    check(spec)


def test_equal_computations_are_equal_specs() -> None:
    keep = narrowing(F16, F16)
    a = reduce("max", keep, [tensor((4, 1, 3, 8), F16, 4)], (0, 2), keep, tensor((1, 8), F16, 4))
    turned = tensor((4, 3, 8), F16, 4)
    turned = replace(turned, access=turned.access.permute((1, 0, 2)))
    b = reduce("max", keep, [turned], (1, 0), keep, tensor((8,), F16, 4))
    c = reduce("max", keep, [tensor((12, 8), F16, 4)], (0,), keep, tensor((8,), F16, 4))
    assert a == b == c
    assert c.sizes == (8, 12)


def mean(reduced: int, lanes: int, fmt: NumberFormat, out: NumberFormat) -> Reduce:
    """Means of a 5 x 7 tensor over one dimension."""
    shape = (5, 7)
    total = accumulator("add", value_of(fmt), shape[reduced])
    b = ExprBuilder()
    epilogue = b.build(b.scale_by(b.input(total), *mean_constant(shape[reduced], total, out)), out)
    source, target = tensor(shape, fmt, lanes), tensor((shape[1 - reduced],), out, lanes)
    return reduce("add", narrowing(fmt, fmt), [source], (reduced,), epilogue, target)


@given(
    st.integers(1, 5000),
    st.integers(2, 32),
    st.integers(-8, 40),
    st.integers(2, 32),
    st.integers(-8, 40),
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=20),
)
@settings(max_examples=300)
def test_mean_constant_is_within_one_unit(
    count: int, width: int, frac: int, out_width: int, out_frac: int, picks: list[int]
) -> None:
    """Over sums of the whole range, the rounded product is the correctly rounded mean or its neighbour."""
    total = accumulator("add", value_of(fixed(width, frac)), count)
    constant, shift = mean_constant(count, total, fixed(out_width, out_frac))
    for pick in [*picks, -1000, 1000]:
        acc = Fraction(pick * total.high // 1000) / Fraction(2) ** frac
        unit = Fraction(2) ** out_frac
        exact, got = acc / count * unit, acc * constant / 2**shift * unit
        assert abs(got - exact) <= Fraction(1, 16)
        assert abs(round(got) - round(exact)) <= 1
        if count & (count - 1) == 0:
            assert got == exact


@pytest.mark.parametrize(("count", "expected"), [(1, (1, 0)), (2, (1, 1)), (64, (1, 6))])
def test_mean_of_a_power_of_two_is_a_shift(count: int, expected: tuple[int, int]) -> None:
    assert mean_constant(count, accumulator("add", value_of(F16), count), F16) == expected


def test_mean_in_hardware() -> None:
    check_all([mean(d, lanes, F16, fixed(12, 6)) for lanes in (1, 4) for d in (0, 1)])


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Reduce, Array, Array]:
    """A reduction of a permuted slice: kernel, data, what numpy makes of it."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    lanes = draw(st.sampled_from([1, 2, 3, 4, 8]))
    order = tuple(draw(st.permutations(range(len(shape)))))
    starts = tuple(draw(st.integers(0, shape[d] - 1)) for d in order)
    sizes = tuple(draw(st.integers(1, shape[d] - s)) for d, s in zip(order, starts, strict=True))
    reduced = tuple(sorted(draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))))
    source = tensor(shape, F16, lanes)
    data = np.arange(np.prod(shape)).reshape(shape) * 37 % 101 - 50
    cut = data.transpose(order)[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]
    access = source.access.permute(order).slice(starts, (1,) * len(order), sizes)
    total = accumulator("add", value_of(F16), int(np.prod([sizes[d] for d in reduced])))
    want = cut.sum(axis=reduced)
    spec = reduce(
        "add", narrowing(F16, F16), [replace(source, access=access)], reduced, narrowing(total, F16),
        tensor(want.shape or (1,), F16, lanes),
    )  # fmt: skip
    return spec, data, want


@given(reductions())
@settings(max_examples=150)
def test_random_reductions_in_the_model(case: tuple[Reduce, Array, Array]) -> None:
    spec, data, want = case
    assert np.array_equal(model(spec, data), saturated(want, F16).ravel())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(reductions(), min_size=20, max_size=20))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_reductions_in_hardware(cases: list[tuple[Reduce, Array, Array]]) -> None:
    check_all([spec for spec, _, _ in cases])


def test_parameter_errors_say_what_is_wrong() -> None:
    keep, x, y = narrowing(F16, F16), tensor((4, 6), F16, 4), tensor((4,), F16, 4)
    where = "reduce kernel (max) over (4,), folding (6,): "
    assert refusal("max", keep, [x], (1,), keep, y) is None
    assert refusal("max", keep, [x], (1,), keep, tensor((5,), F16, 4)) == (
        "folding dimensions (1,) of (4, 6) leaves (4,), a result has (5,)"
    )
    assert refusal("max", keep, [x], (2,), keep, y) == "cannot fold dimensions (2,) of (4, 6)"
    assert refusal("max", keep, [], (0,), keep, y) == "operands to fold loop over []"
    assert refusal("max", keep, [x, y], (0,), keep, y) == "operands to fold loop over [(4, 6), (4,)]"
    assert refusal("prod", keep, [x], (1,), keep, y) == (  # type: ignore[arg-type]
        "reduce kernel (prod) over (4,), folding (6,): the operation is not one of add, max, min"
    )
    assert refusal("max", keep, [x, x], (1,), keep, y) == where + "expression of 1 operands given 2 memories"
    assert refusal("max", keep, [x], (1,), keep, tensor((4,), F16, 3)) == where + "4 lanes, the output has 3"
    assert refusal("max", keep, [x], (1,), keep, tensor((4,), fixed(9, 1), 4)) == (
        where + "the epilogue gives fixed16.8, the output holds fixed9.1"
    )
    assert refusal("max", keep, [x], (1,), keep, y, [y]) == (
        where + "the epilogue has 1 inputs for the sums and 1 memories"
    )
    wide = tensor((4, 6), fixed(20, 8), 4)
    assert refusal("max", keep, [wide], (1,), keep, y) == where + (
        "expression input 0 takes Value(frac=8, low=-32768, high=32767), but the memory holds fixed20.8"
    )
    assert refusal("add", keep, [x], (1,), keep, y) == where.replace("max", "add") + (
        f"epilogue input 0 takes {value_of(F16)}, but is given {Value(8, -196608, 196602)}"
    )


def test_a_partial_word_is_never_written() -> None:
    target = tensor((8,), F16, 4)
    part = replace(target, access=target.access.slice((0,), (1,), (6,)))
    keep = narrowing(F16, F16)
    with pytest.raises(KernelParameterError, match="output: rows of 6 elements end inside words of 4 lanes"):
        reduce("max", keep, [tensor((6, 3), F16, 4)], (1,), keep, part)
