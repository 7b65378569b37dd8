"""What the matrix products share: exact sums, ranges, merged loops, refused epilogues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.gemm import ACT, BIAS, epilogue, padded
from tests.kernels.support import tensor
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.kernels.products.contraction import accumulator, epilogue_refusal, exact_matmul, merge_leading

FORMATS = (BOOL, integer(1), integer(8, signed=False), fixed(16, 8), fixed(32, 16), fixed(48), integer(63))


def extremes(rng: np.random.Generator, fmt: NumberFormat, shape: tuple[int, ...]) -> np.ndarray:
    values = rng.integers(fmt.min, fmt.max, shape, dtype=np.int64, endpoint=True)
    kind = rng.integers(0, 3, shape)
    return np.where(kind == 0, fmt.min, np.where(kind == 1, fmt.max, values))


@pytest.mark.parametrize("left", FORMATS, ids=str)
@pytest.mark.parametrize("right", FORMATS, ids=str)
def test_sums_of_products_equal_those_of_python_integers(left: NumberFormat, right: NumberFormat) -> None:
    rng = np.random.default_rng(3)
    a, b = extremes(rng, left, (2, 3, 37)), extremes(rng, right, (2, 37, 4))
    expected = np.matmul(a.astype(object), b.astype(object))
    assert np.array_equal(exact_matmul(a, b), expected)


@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 40), st.integers(1, 400))
def test_sums_of_products_of_any_width(seed: int, left_bits: int, right_bits: int, inner: int) -> None:
    rng = np.random.default_rng(seed)
    a = extremes(rng, integer(left_bits), (2, inner))
    b = extremes(rng, integer(right_bits), (inner, 3))
    assert np.array_equal(exact_matmul(a, b), np.matmul(a.astype(object), b.astype(object)))


def test_the_range_of_the_sums_is_reached_and_never_passed() -> None:
    left, right = integer(3), integer(2, signed=False)
    total = accumulator(left, right, 5)
    ends = [np.full(5, v) for v in (left.min, left.max)]
    sums = [int(a @ np.full(5, w)) for a in ends for w in (right.min, right.max)]
    assert (total.low, total.high, total.frac) == (min(sums), max(sums), 0)
    assert accumulator(fixed(8, 3), fixed(8, 5), 1) == Value(8, -(2**7) * (2**7 - 1), 2**14)


@pytest.mark.parametrize("batch", [(), (2,), (1, 3), (2, 3), (2, 1, 3)])
def test_merged_loops_read_and_write_the_same_elements(batch: tuple[int, ...]) -> None:
    left, out = tensor((*batch, 4, 8), ACT, 4), tensor((*batch, 4, 8), ACT, 4)
    shared = tensor((8, 8), ACT, 4, (*batch, 8, 8))
    bias = tensor((8,), BIAS, 4, (*batch, 4, 8))
    parts = merge_leading(left, shared, (bias,), out)
    assert parts[1] is not None
    assert parts[0].access.sizes == parts[3].access.sizes == parts[2][0].access.sizes
    assert len(parts[0].access.sizes) == 2, "weights shared by the batch leave one loop over all rows"
    memory = np.arange(left.layout.rows * left.layout.cols).reshape(left.layout.rows, -1)
    assert np.array_equal(parts[0].access.read(memory).ravel(), left.access.read(memory).ravel())
    weights = np.arange(64).reshape(shared.layout.rows, -1)
    assert np.array_equal(parts[1].access.read(weights), shared.access.read(weights).reshape(-1, 8, 8)[0])


def test_a_batch_of_right_operands_stays_a_loop() -> None:
    left, right, out = (tensor((2, 3, 8, 8), ACT, 4) for _ in range(3))
    parts = merge_leading(left, right, (), out)
    assert parts[1] is not None
    assert parts[0].access.sizes == parts[1].access.sizes == (6, 8, 8)


def test_rows_that_do_not_continue_the_batch_stay_apart() -> None:
    layout = row_major((3, 4, 8), 4)
    turned = Operand(ACT, layout, whole((3, 4, 8), layout).permute((1, 0, 2)))
    parts = merge_leading(turned, None, (), tensor((4, 3, 8), ACT, 4))
    assert parts[0].access.sizes == (4, 3, 8)


def squared(total: Value) -> Expr:
    b = ExprBuilder()
    x = b.input(total)
    return b.build(b.mul(x, x), ACT)


TOTAL = accumulator(ACT, ACT, 4)
OUT = padded((3, 8), ACT, 4, exact=True)
PART = replace(tensor((8,), ACT, 4), access=tensor((8,), ACT, 4).access.slice((0,), (1,), (6,)))


@pytest.mark.parametrize(
    ("expr", "extras", "out", "reason"),
    [
        (squared(TOTAL), (), OUT, "the epilogue multiplies two operands; only constants"),
        (epilogue(TOTAL, ACT, 1), (), OUT, "the epilogue has 2 inputs for the sums and 0 memories"),
        (epilogue(TOTAL, BIAS, 0), (), OUT, "the epilogue gives fixed16.9, the output holds fixed16.8"),
        (epilogue(accumulator(ACT, ACT, 3), ACT, 0), (), OUT, "epilogue input 0 takes Value"),
        (epilogue(TOTAL, ACT, 1), (padded((3, 8), ACT, 4),), OUT, "epilogue input 1 takes Value"),
        (epilogue(TOTAL, ACT, 1), (padded((2, 8), BIAS, 4),), OUT, "epilogue memory 0 loops over (2, 8)"),
        (epilogue(TOTAL, ACT, 1), (padded((3, 8), BIAS, 2),), OUT, "epilogue memory 0 has 2 lanes"),
        (epilogue(TOTAL, ACT, 0), (), PART, "output: rows of 6 elements end inside words of 4 lanes"),
    ],
)  # fmt: skip
def test_an_epilogue_the_drain_cannot_run_is_refused(
    expr: Expr, extras: tuple[Operand, ...], out: Operand, reason: str
) -> None:
    assert (epilogue_refusal(TOTAL, expr, extras, out) or "").startswith(reason)


def test_a_fitting_epilogue_is_accepted() -> None:
    assert epilogue_refusal(TOTAL, epilogue(TOTAL, ACT, 1), (padded((3, 8), BIAS, 4),), OUT) is None
