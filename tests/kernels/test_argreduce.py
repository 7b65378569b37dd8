"""argmax and argmin: RTL equals the software model, which equals numpy; the first of equal elements wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, tensor
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.folds.argreduce import ArgOp, ArgReduce, arg_reduce, refusal
from torchcalyx.simulate import Simulator

F16 = fixed(16, 8)
NARROW = fixed(2, 1)
INT32 = integer(32)
FUNCTIONS: dict[ArgOp, Callable[..., Any]] = {"max": np.argmax, "min": np.argmin}
GRIDS: list[tuple[int, Simulator | None]] = [(1, None), (3, "verilator"), (4, None), (8, None)]
DOMAINS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)), ((7,), (0,)), ((17,), (0,)), ((5, 11), (1,)), ((5, 11), (0,)), ((5, 11), (0, 1)),
    ((3, 8), (1,)),
    ((2, 3, 7), (1, 2)), ((2, 3, 7), (1,)), ((2, 3, 8), (0, 2)), ((3, 1, 5), (1,)),
]  # fmt: skip


def best(
    op: ArgOp,
    shape: Sequence[int],
    reduced: Sequence[int],
    lanes: int,
    fmt: NumberFormat = F16,
    out_fmt: NumberFormat = INT32,
) -> ArgReduce:
    kept = [n for d, n in enumerate(shape) if d not in reduced] or [1]
    return arg_reduce(op, tensor(shape, fmt, lanes), reduced, tensor(kept, out_fmt, lanes))


def expected(op: ArgOp, data: Array, reduced: Sequence[int]) -> Array:
    kept = [d for d in range(data.ndim) if d not in reduced]
    moved = data.transpose(*kept, *reduced)
    flat = moved.reshape(*(data.shape[d] for d in kept), -1)
    return np.asarray(FUNCTIONS[op](flat, axis=-1)).ravel()


def model(spec: ArgReduce, data: Array) -> Array:
    layout = spec.source.layout
    return np.asarray(spec.emulate(data.reshape(layout.rows, layout.cols)).outputs[0]).ravel()


@pytest.mark.parametrize(("lanes", "simulator"), GRIDS)
def test_equals_numpy_and_hardware(lanes: int, simulator: Simulator | None) -> None:
    """A 2-bit format makes ties the rule."""
    specs = []
    rng = np.random.default_rng(lanes)
    for number, (shape, reduced) in enumerate(DOMAINS):
        fmt = (F16, NARROW)[number % 2]
        data = rng.integers(fmt.min, fmt.max + 1, shape)
        for op in FUNCTIONS:
            spec = best(op, shape, reduced, lanes, fmt)
            assert np.array_equal(model(spec, data), expected(op, data, reduced))
            specs.append(spec)
    check_all(specs, simulator=simulator)


def test_ties_take_the_first_index_in_every_role() -> None:
    """All elements equal, at the end of the range where masked lanes tie too."""
    for op, value in (("max", NARROW.min), ("min", NARROW.max)):
        for shape, reduced in (((5, 6), (1,)), ((5, 6), (0,)), ((5, 6), (0, 1))):
            spec = best(op, shape, reduced, 4, NARROW)  # type: ignore[arg-type]
            assert not model(spec, np.full(shape, value)).any()
    assert {best("max", (5, 6), r, 4).lanes for r in ((1,), (0,))} == {"folded", "kept"}


def test_one_bit_elements_tie_in_hardware() -> None:
    specs = [best(op, s, r, n, BOOL) for op in FUNCTIONS for n in (3, 4) for s, r in DOMAINS[:6]]
    check_all(specs, vectors=4)


def test_formats() -> None:
    formats, out = [integer(9, signed=False), integer(33), fixed(64, 40)], integer(3, signed=False)
    check_all([best(op, (6, 7), (d,), 4, fmt, out) for fmt in formats for op in FUNCTIONS for d in (0, 1)])


def test_misaligned_rows_are_read_element_by_element() -> None:
    source = tensor((6, 10), F16, 4)
    cut = replace(source, access=source.access.slice((0, 2), (1, 1), (6, 7)))
    spec = arg_reduce("max", cut, (1,), tensor((6,), integer(8), 4))
    assert (spec.lanes, spec.steps, spec.cycles()) == ("single", 42, 44)
    data = np.random.default_rng(0).integers(-9, 9, (6, 10))
    assert np.array_equal(model(spec, data), data[:, 2:9].argmax(1))
    check(spec)


def test_both_simulators_agree_over_repeated_calls() -> None:
    spec = best("min", (3, 9), (1,), 4, NARROW)
    assert spec.cycles() == 9 + 2 + 1
    check(spec, simulator="icarus")
    check(spec, calls=2)


@st.composite
def cases(draw: st.DrawFn) -> tuple[ArgReduce, Array, Array]:
    """A permuted slice of a tensor with many ties: kernel, data, what numpy makes of it."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    lanes = draw(st.sampled_from([1, 2, 3, 4, 8]))
    order = tuple(draw(st.permutations(range(len(shape)))))
    starts = tuple(draw(st.integers(0, shape[d] - 1)) for d in order)
    sizes = tuple(draw(st.integers(1, shape[d] - s)) for d, s in zip(order, starts, strict=True))
    reduced = tuple(sorted(draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))))
    op: ArgOp = draw(st.sampled_from(["max", "min"]))
    source = tensor(shape, F16, lanes)
    data = np.arange(np.prod(shape)).reshape(shape) * 37 % 5
    cut = data.transpose(order)[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]
    access = source.access.permute(order).slice(starts, (1,) * len(order), sizes)
    kept = [n for d, n in enumerate(sizes) if d not in reduced] or [1]
    out = tensor(kept, integer(16), lanes)
    return arg_reduce(op, replace(source, access=access), reduced, out), data, expected(op, cut, reduced)


@given(cases())
@settings(max_examples=150)
def test_random_cases_in_the_model(case: tuple[ArgReduce, Array, Array]) -> None:
    spec, data, want = case
    assert np.array_equal(model(spec, data), want)


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(cases(), min_size=20, max_size=20))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_cases_in_hardware(drawn: list[tuple[ArgReduce, Array, Array]]) -> None:
    check_all([spec for spec, _, _ in drawn])


def test_parameter_errors_say_what_is_wrong() -> None:
    x = tensor((4, 6), F16, 4)
    where = "argmax kernel over (4,), folding (6,): "
    assert refusal("max", x, (1,), tensor((4,), integer(3, signed=False), 4)) is None
    for fmt in (integer(3), F16):
        problem = refusal("max", x, (1,), tensor((4,), fmt, 4))
        assert problem == where + f"{fmt} does not hold the indices 0 to 5"
    assert refusal("max", x, (1,), tensor((4,), integer(8), 3)) == where + "4 lanes, the output has 3"
    assert refusal("max", x, (1,), tensor((5,), integer(8), 4)) == (
        "folding dimensions (1,) of (4, 6) leaves (4,), a result has (5,)"
    )
    assert refusal("sum", x, (1,), tensor((4,), integer(8), 4)) == (  # type: ignore[arg-type]
        "argsum kernel over (4,), folding (6,): the operation is not one of max, min"
    )
