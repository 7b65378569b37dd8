"""Exact integer arithmetic: rounding, saturation and formats against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchcalyx.kernels.arith.numerics import (
    BOOL,
    NumberFormat,
    as_exact,
    bits_for_range,
    ceil_div,
    fixed,
    index_bits,
    integer,
    narrow,
    parse_format,
    product,
    saturate,
    shift_round,
)

INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def formats(draw: st.DrawFn) -> NumberFormat:
    signed = draw(st.booleans())
    if draw(st.booleans()):
        return integer(draw(st.integers(1, 64 if signed else 63)), signed=signed)
    width = draw(st.integers(2, 64 if signed else 63))
    return fixed(width, draw(st.integers(-70, 80)), signed=signed)


def rounded(value: Fraction) -> int:
    """Nearest integer, ties to even, without Python's round."""
    low = value.numerator // value.denominator
    rest = value - low
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    return low + up


@given(st.lists(INT64, min_size=1), st.integers(0, 80))
def test_right_shift_rounds_half_to_even(values: list[int], shift: int) -> None:
    want = [rounded(Fraction(v, 2**shift)) for v in values]
    assert list(shift_round(np.array(values, dtype=np.int64), shift)) == want
    assert list(shift_round(np.array(values, dtype=object), shift)) == want


@given(st.lists(st.integers(-40, 40), min_size=1), st.integers(1, 4))
def test_ties_go_to_even(values: list[int], shift: int) -> None:
    halves = np.array(values) * 2**shift + 2 ** (shift - 1)
    assert not (shift_round(halves, shift) % 2).any()


@given(st.lists(INT64, min_size=1), st.integers(0, 40))
def test_left_shift_of_python_integers_is_exact(values: list[int], shift: int) -> None:
    assert list(shift_round(np.array(values, dtype=object), -shift)) == [v * 2**shift for v in values]


@given(formats(), st.lists(st.integers(-(2**70), 2**70), min_size=1))
def test_saturation_clips_and_counts(fmt: NumberFormat, values: list[int]) -> None:
    clipped, count = saturate(np.array(values, dtype=object), fmt)
    assert list(clipped) == [min(max(v, fmt.min), fmt.max) for v in values]
    assert clipped.dtype == np.int64
    assert count == sum(not fmt.min <= v <= fmt.max for v in values)


def test_saturation_at_the_edges_of_64_bits() -> None:
    edge = np.array([-(2**63), -1, 0, 2**63 - 1])
    assert saturate(edge, integer(64))[1] == 0
    clipped, count = saturate(edge, integer(63, signed=False))
    assert (list(clipped), count) == ([0, 0, 0, 2**63 - 1], 2)


@given(formats(), st.lists(st.floats(allow_nan=False), min_size=1))
def test_quantize_takes_the_nearest_stored_integer(fmt: NumberFormat, values: list[float]) -> None:
    stored, count = fmt.quantize_counting(values)
    exact = []
    for v in values:
        if np.isinf(v):
            exact.append(2**200 if v > 0 else -(2**200))
        else:
            exact.append(rounded(Fraction(v) * Fraction(2) ** fmt.frac))
    assert list(stored) == [min(max(v, fmt.min), fmt.max) for v in exact]
    assert count == sum(not fmt.min <= v <= fmt.max for v in exact)


@given(formats(), st.lists(INT64, min_size=1))
def test_quantize_of_integers_is_exact(fmt: NumberFormat, values: list[int]) -> None:
    stored = fmt.quantize(np.array(values, dtype=np.int64))
    exact = [rounded(v * Fraction(2) ** fmt.frac) for v in values]
    assert list(stored) == [min(max(v, fmt.min), fmt.max) for v in exact]


def test_quantize_of_bool_and_of_nothing() -> None:
    assert list(BOOL.quantize(np.array([True, False]))) == [1, 0]
    assert list(fixed(8, 4).quantize(np.array([True, False]))) == [16, 0]
    assert fixed(8, 4).quantize(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="^NaN has no fixed-point value$"):
        fixed(8, 4).quantize([1.0, float("nan")])


@given(formats(), st.data())
def test_dequantize_is_exact_up_to_53_bits(fmt: NumberFormat, data: st.DataObject) -> None:
    stored = data.draw(st.integers(max(fmt.min, -(2**53)), min(fmt.max, 2**53)))
    value = float(fmt.dequantize(np.array(stored)))
    assert Fraction(value) == stored * Fraction(2) ** -fmt.frac
    assert Fraction(fmt.resolution) == Fraction(2) ** -fmt.frac
    assert int(fmt.quantize(value)) == stored


@given(formats(), st.data())
def test_images_are_twos_complement_and_come_back(fmt: NumberFormat, data: st.DataObject) -> None:
    stored = np.array([fmt.min, fmt.max, data.draw(st.integers(fmt.min, fmt.max))])
    image = fmt.to_image(stored)
    half = 2 ** (fmt.width - 1)
    assert all(-half <= int(v) < half for v in image)
    assert [int(v) % 2**fmt.width for v in image] == [int(v) % 2**fmt.width for v in stored]
    assert np.array_equal(fmt.from_image(image), stored)


@given(formats())
def test_text_of_a_format_reads_back(fmt: NumberFormat) -> None:
    assert parse_format(str(fmt)) == fmt


def test_texts_of_formats() -> None:
    assert [str(f) for f in (fixed(16, 8), fixed(8, -2, signed=False), integer(32), BOOL)] == [
        "fixed16.8", "ufixed8.-2", "int32", "uint1",
    ]  # fmt: skip
    assert parse_format(" fixed12 ") == fixed(12, 0)
    for text in ("float32", "int8.2", "fixed", "fixed8.", "16.8", "fixed8.4x", ""):
        with pytest.raises(ValueError, match="is not a number format such as fixed16.8, ufixed8.7 or int32"):
            parse_format(text)


def test_impossible_formats_are_refused() -> None:
    cases = [
        (("fixed", 65, 0, True), "a number format has 1 to 64 bits (unsigned: 63), not 65"),
        (("int", 64, 0, False), "a number format has 1 to 64 bits (unsigned: 63), not 64"),
        (("int", 0, 0, True), "a number format has 1 to 64 bits (unsigned: 63), not 0"),
        (("int", 8, 2, True), "an integer format has no fraction bits"),
        (("fixed", 1, 0, True), "a signed fixed-point format needs at least 2 bits"),
        (("float", 32, 0, True), "number kind 'float' is not one of 'fixed', 'int'"),
    ]
    for args, message in cases:
        with pytest.raises(ValueError) as caught:
            NumberFormat(*args)  # type: ignore[arg-type]
        assert str(caught.value) == message


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**70))
def test_bits_for_range_is_the_least_width(low: int, extent: int) -> None:
    high = low + extent
    bits = bits_for_range(low, high)
    assert -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)
    if bits > 1:
        assert low < -(2 ** (bits - 2)) or high >= 2 ** (bits - 2)


def test_exact_arrays_change_their_dtype_only_when_they_must() -> None:
    values = np.array([2**62, -1])
    assert as_exact(values, 63).dtype == np.int64
    wide = as_exact(values, 64) * 4
    assert list(wide) == [2**64, -4]
    assert narrow(wide).dtype == object
    assert narrow(wide // 4).dtype == np.int64
    assert as_exact(np.array([True, False]), 8).dtype == np.int64


def test_small_integer_helpers() -> None:
    assert [index_bits(n) for n in (1, 2, 3, 4, 5, 1024, 1025)] == [1, 1, 2, 2, 3, 10, 11]
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
    assert (product([]), product([3, 4, 5]), product([3, 0])) == (1, 60, 0)
