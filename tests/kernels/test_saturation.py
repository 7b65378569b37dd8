"""Measured saturation: counts, and the bits that would have been enough, against Python's exact numbers."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.test_numerics import formats, rounded
from torchcalyx.kernels.arith.expr import ExprBuilder, value_of
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed, integer
from torchcalyx.kernels.arith.saturation import Saturation, saturate_measured, store_measured
from torchcalyx.kernels.functions.function import Function, function_expr


def widened(fmt: NumberFormat, bits: int) -> range:
    """The stored integers of a signed format with `bits` more integer bits (a sign bit before, if none)."""
    half = 1 << (fmt.signed_width - 1 + bits)
    return range(-half, half)


def least_bits(values: list[int], fmt: NumberFormat) -> int:
    """The first number of bits that holds all values, by trying."""
    return next(b for b in range(1, 3000) if all(v in widened(fmt, b) for v in values))


@given(formats(), st.lists(st.integers(-(2**70), 2**70), min_size=1))
def test_the_bits_are_the_first_that_hold_every_value(fmt: NumberFormat, values: list[int]) -> None:
    clipped, found = saturate_measured(np.array(values, dtype=object), fmt)
    assert list(clipped) == [min(max(v, fmt.min), fmt.max) for v in values]
    outside = [v for v in values if not fmt.min <= v <= fmt.max]
    assert found == len(outside) and found.of == len(values)
    assert found.bits == (least_bits(values, fmt) if outside else 0)
    assert found.fmt == (fmt if outside else None)


@given(formats(), st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_the_bits_of_real_values_count_rounding(fmt: NumberFormat, values: list[float]) -> None:
    stored, found = store_measured(np.array(values), fmt)
    exact = [rounded(Fraction(v) * Fraction(2) ** fmt.frac) for v in values]
    assert list(stored) == [min(max(v, fmt.min), fmt.max) for v in exact]
    assert found.bits == (least_bits(exact, fmt) if found else 0)


def test_examples_at_the_ends() -> None:
    fmt = fixed(8, 4)  # -8 to 7.9375
    wanted = {7.9375: (0, 0), 7.97: (1, 1), 8.0: (1, 1), 15.9: (1, 1), 16.0: (1, 2), 1e30: (1, 97),
              -8.0: (0, 0), -16.0: (1, 1), -17.0: (1, 2),
              math.inf: (1, None), -math.inf: (1, None)}  # fmt: skip
    for value, (count, bits) in wanted.items():
        found = store_measured([0.5, value], fmt)[1]
        assert (found, found.bits) == (count, bits), value


def test_sums_add_counts_and_keep_the_greatest_need() -> None:
    a = Saturation(2, 1, of=10, fmt=fixed(8, 4))
    b = Saturation(1, 5, at_least=True, of=4, fmt=fixed(16, 8))
    for total in (a + b, b + a, sum([a, b]), 0 + a + b):
        assert isinstance(total, Saturation)
        assert (total, total.bits, total.at_least, total.of, total.fmt) == (3, 5, True, 14, fixed(16, 8))
    unknown = a + 3  # a plain count says nothing of the need
    assert (unknown, unknown.bits) == (5, None)
    assert (a + 0).bits == (0 + a).bits == 1
    assert (Saturation(0, 7) + a).bits == 1


def test_it_is_an_int_for_whoever_counts() -> None:
    found = Saturation(3, 2)
    assert found == 3 and f"{found}" == "3" and json.dumps({"x": found}) == '{"x": 3}' and not Saturation()


def test_an_expression_adds_up_its_narrowings() -> None:
    x = fixed(8)
    b = ExprBuilder()
    first = b.quant(b.mul(b.input(x), b.const(4)), fixed(8))
    expr = b.build(b.mul(first, first), fixed(12))
    found = expr.emulate([np.array([1, 31, 32, 127])])[1]
    # 128 and 508 leave fixed8 (up to 127), by 1 and 2 bits; 124**2 and 127**2 leave fixed12 (2047) by 3.
    assert (found, found.bits, found.of, found.at_least) == (2 + 3, 3, 8, False)
    assert found.fmt == fixed(12)


def test_behind_a_table_the_need_is_a_lower_bound() -> None:
    x, out = fixed(8, 4), fixed(8, 4)
    found = function_expr(Function("exp"), x, out).emulate([np.arange(x.min, x.max + 1)])[1]
    wanted = np.exp(np.arange(x.min, x.max + 1) / 16) * 16 > out.max + 0.5
    assert found == np.count_nonzero(wanted) and found.at_least and found.bits == 1  # exp(7.9) needs 8


@pytest.mark.parametrize("fmt", [fixed(8, 4), integer(8, signed=False)], ids=str)
def test_a_plain_count_is_taken_with_unknown_need(fmt: NumberFormat) -> None:
    plain = Saturation.measured(np.int64(4), 9, fmt)
    assert (plain, plain.bits, plain.of, plain.fmt) == (4, None, 9, fmt)
    measured = saturate_measured(np.array([value_of(fmt).high + 1]), fmt)[1]
    assert Saturation.measured(measured, 99, fixed(4)) is measured
