"""The systolic kernel: RTL equals the software model, which equals plain integers; cycles as declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.gemm import (
    ACT,
    WEIGHT,
    epilogue,
    matmul,
    padded,
    turned,
    with_stable_names,
)
from tests.kernels.group import check_all
from tests.kernels.support import check, inputs
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.products.systolic import Systolic, systolic

FEEDS = ("contracted free", "free free", "contracted contracted", "free contracted")
SHAPES: list[tuple[tuple[int, ...], int, int, int]] = [  # batch, m, n, inner
    ((), 1, 1, 1),
    ((), 3, 3, 3),
    ((), 4, 4, 4),
    ((), 5, 5, 5),
    ((), 7, 2, 13),
    ((2,), 2, 11, 3),
    ((), 9, 4, 1),
    ((2, 2), 5, 7, 6),
]


@pytest.mark.parametrize("feeds", [*FEEDS[:1], *(pytest.param(f, marks=pytest.mark.slow) for f in FEEDS[1:])])
def test_every_shape_equals_its_model_on_one_engine(feeds: str) -> None:
    check_all(
        [matmul(*shape, 4, 4, feeds, residual=True) for shape in SHAPES], rounds=2, simulator="verilator"
    )


SLOW_ARRAYS = ((1, 4), (3, 3), (2, 2), (5, 8))


@pytest.mark.parametrize(
    ("rows", "lanes"),
    [(1, 1), (2, 4), (3, 5), *(pytest.param(*a, marks=pytest.mark.slow) for a in SLOW_ARRAYS)],
)
def test_any_array(rows: int, lanes: int) -> None:
    feeds = FEEDS if lanes % rows == 0 else FEEDS[::2]
    shapes = [((), rows, lanes, lanes), ((2,), rows + 1, lanes + 1, lanes + 1), ((), 7, 11, 5), ((), 1, 2, 3)]
    specs = [
        matmul(*shape, rows, lanes, feeds[i % len(feeds)], residual=i > 1) for i, shape in enumerate(shapes)
    ]
    check_all(specs, vectors=1, simulator="verilator")


@pytest.mark.parametrize("stages", [2, 3])
def test_more_multiplier_stages_cost_a_cycle_each(stages: int) -> None:
    specs = [matmul((), 5, 6, 7, 4, 4, feeds, mul_stages=stages) for feeds in FEEDS]
    assert all(s.cycles() == replace(s, mul_stages=1).cycles() + stages - 1 for s in specs)
    check_all(specs, rounds=2, vectors=1, simulator="verilator")


def test_both_simulators_agree() -> None:
    specs = [matmul((2,), 5, 6, 7, 4, 4, feeds, residual=True) for feeds in FEEDS]
    check_all(specs, simulator="icarus", rounds=2, vectors=1)
    check(matmul((), 5, 6, 3, 3, 4), simulator="icarus", calls=2)


@pytest.mark.parametrize(
    ("left", "right", "out"),
    [
        (integer(8, signed=False), integer(8), integer(32)),
        (BOOL, BOOL, integer(8, signed=False)),
        (fixed(8, 7), fixed(16, 14), fixed(8, 5)),
        pytest.param(fixed(32, 16), fixed(32, 28), fixed(32, 16), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_number_formats(left: NumberFormat, right: NumberFormat, out: NumberFormat) -> None:
    check_all(
        [matmul((), 4, 5, 6, 2, 4, feeds, left, right, out) for feeds in FEEDS],
        vectors=1,
        simulator="verilator",
    )


def test_a_batch_broadcasts_over_either_side() -> None:
    domain = (2, 3, 5, 4)
    expr = epilogue(Systolic.accumulator(ACT, WEIGHT, 6), ACT, 0)
    left = padded((2, 1, 5, 6), ACT, 4, (2, 3, 5, 6))
    right = padded((3, 6, 4), WEIGHT, 4, (2, 3, 6, 4))
    spec = systolic(left, right, 4, expr, (), padded(domain, ACT, 4, exact=True))
    check(spec)
    a, b = inputs(spec, np.random.default_rng(0))
    sums = np.matmul(a[:, :6].reshape(2, 1, 5, 6), b[:, :4].reshape(3, 6, 4))
    assert np.array_equal(spec.emulate(a, b).outputs[0].reshape(domain), expr.emulate([sums])[0])


def test_a_batch_with_shared_weights_is_one_loop_over_rows() -> None:
    domain = (2, 3, 8)
    expr = epilogue(Systolic.accumulator(ACT, WEIGHT, 8), ACT, 0)
    left, out = padded((2, 3, 8), ACT, 4), padded(domain, ACT, 4, exact=True)
    spec = systolic(left, padded((8, 8), WEIGHT, 4, (2, 8, 8)), 4, expr, (), out)
    assert spec.matrix == (6, 8, 8) and spec.batch == ()
    check(spec)


def test_the_model_is_integer_arithmetic() -> None:
    spec = matmul((2,), 5, 6, 7, 4, 4, bias=False, out=integer(40), left=integer(9), right=integer(7))
    a, b = inputs(spec, np.random.default_rng(2))
    expected = np.matmul(a[:, :7].reshape(2, 5, 7), b[:, :6].reshape(2, 7, 6)).reshape(10, 6)
    result = spec.emulate(a, b)
    assert np.array_equal(result.outputs[0], expected) and result.saturated == 0


def test_saturations_are_counted() -> None:
    spec = matmul((), 3, 4, 5, 4, 4, bias=False, out=integer(4), left=integer(9), right=integer(7))
    a, b = inputs(spec, np.random.default_rng(2))
    sums = a[:, :5] @ b[:, :4]
    assert spec.emulate(a, b).saturated == np.count_nonzero((sums < -8) | (sums > 7)) > 0


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_one_square_product_takes_3n_plus_2(size: int, stages: int) -> None:
    spec = matmul((), size, size, size, size, size, mul_stages=stages)
    assert spec.cycles() == 3 * size + 1 + stages
    if size == 4:
        check(spec)


@pytest.mark.parametrize(("size", "rows"), [(64, 8), (128, 16)])
@pytest.mark.parametrize("feeds", FEEDS)
def test_streamed_products_keep_99_percent_of_the_multipliers_busy(size: int, rows: int, feeds: str) -> None:
    spec = matmul((), size, size, size, rows, rows, feeds)
    assert spec.useful_operations() >= 0.99 * spec.cycles() * spec.shape.multipliers


def test_a_streamed_product_in_hardware() -> None:
    check(matmul((), 32, 32, 32, 8, 8), vectors=1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rows": 0}, "an array has at least one row, not 0"),
        ({"rows": 3, "left": turned((8, 8), ACT, 4)},
         "left operand: a word holds 4 values along dimension 0, and tiles of 3 rows would cut across"),
        ({"left": padded((8, 6), ACT, 4)}, r"\(8, 6\) times \(8, 8\) does not give \(8, 8\)"),
        ({"right": padded((8, 8), WEIGHT, 2)}, "lanes differ: 4, 2 and 4"),
        ({"right": replace(padded((8, 16), WEIGHT, 4),
                           access=padded((8, 16), WEIGHT, 4).access.slice((0, 0), (1, 2), (8, 8)))},
         r"right operand: words run neither along its free axis nor along k \(dimension 1: .* lie 2 col"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(change: dict[str, object], reason: str) -> None:
    good = matmul((), 8, 8, 8, 4, 4)
    with pytest.raises(KernelParameterError, match=reason):
        replace(good, **change)  # type: ignore[arg-type]


def test_the_smallest_program(golden: Callable[[str], None]) -> None:
    tiny = fixed(4, 2)
    spec = matmul((), 1, 1, 2, 1, 1, left=tiny, right=tiny, out=tiny, bias=False)
    golden(with_stable_names(bench(spec).futil))


@pytest.mark.parametrize(
    ("rows", "lanes", "sizes"),
    [(6, 4, (13, 5, 9)), (5, 2, (7, 3, 5)), (3, 1, (4, 2, 3)), (9, 2, (1, 2, 2)), (8, 4, (8, 4, 8))],
    ids=str,
)
def test_more_rows_than_lanes(rows: int, lanes: int, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    left, out = padded((m, k), ACT, lanes), padded((m, n), ACT, lanes, exact=True)
    narrow = narrowing(Systolic.accumulator(ACT, WEIGHT, k), ACT)
    for right in (padded((k, n), WEIGHT, lanes), turned((k, n), WEIGHT, lanes)):
        check(systolic(left, right, rows, narrow, (), out), simulator="icarus", calls=2)
