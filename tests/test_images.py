"""Memory images as hexadecimal text, against Python's own integers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchcalyx.design import DesignMemory, Image
from torchcalyx.errors import InputError, ToolError
from torchcalyx.simulate.images import check_image, decode_image, encode_image, hex_digits


def memory(words: int, lanes: int, width: int) -> DesignMemory:
    return DesignMemory("m", words, lanes, width, "input")


def words_of(image: Image, width: int) -> list[int]:
    """Each word as one integer, lane 0 lowest."""
    mask = (1 << width) - 1
    return [sum((int(x) & mask) << (lane * width) for lane, x in enumerate(row)) for row in image]


@st.composite
def images(draw: st.DrawFn) -> tuple[DesignMemory, Image]:
    where = memory(draw(st.integers(1, 6)), draw(st.integers(1, 9)), draw(st.integers(1, 64)))
    low, high = -(1 << (where.element_width - 1)), (1 << (where.element_width - 1)) - 1
    size = where.words * where.lanes
    values = draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
    return where, np.array(values, np.int64).reshape(where.words, where.lanes)


@given(images())
def test_text_is_one_hexadecimal_word_a_line_and_reads_back(case: tuple[DesignMemory, Image]) -> None:
    where, image = case
    text = encode_image(where, image)
    lines = text.decode().splitlines()
    assert {len(line) for line in lines} == {hex_digits(where)}
    assert [int(line, 16) for line in lines] == words_of(image, where.element_width)
    back, undefined = decode_image(where, text)
    assert back.dtype == np.int64
    np.testing.assert_array_equal(back, image)
    assert undefined.size == 0


@pytest.mark.parametrize("width", range(1, 65))
def test_both_ends_of_every_width_survive(width: int) -> None:
    where = memory(2, 3, width)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    image = np.array([[low, high, -1], [0, low, high]], np.int64)
    np.testing.assert_array_equal(decode_image(where, encode_image(where, image))[0], image)


def test_more_elements_than_one_block() -> None:
    where = memory(100_003, 7, 11)
    image = np.random.default_rng(0).integers(-1024, 1024, (where.words, where.lanes))
    np.testing.assert_array_equal(decode_image(where, encode_image(where, image))[0], image)


def test_a_one_bit_element_reads_as_zero_or_minus_one() -> None:
    where = memory(2, 3, 1)
    np.testing.assert_array_equal(decode_image(where, b"5\n2\n")[0], [[-1, 0, -1], [0, -1, 0]])


def test_text_with_comments_blanks_and_short_words_is_read() -> None:
    where = memory(3, 2, 8)
    image, undefined = decode_image(where, b"// 0x00000000\n01FF\n 2\n80fe // last\n")
    np.testing.assert_array_equal(image, [[-1, 1], [2, 0], [-2, -128]])
    assert undefined.size == 0


def test_undefined_digits_are_reported_by_word() -> None:
    where = memory(4, 2, 8)
    image, undefined = decode_image(where, b"0102\nxxxx\n03Z4\n0506\n")
    assert undefined.tolist() == [1, 2]
    np.testing.assert_array_equal(image[[0, 3]], [[2, 1], [6, 5]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"01\n", "The image of memory m has 1 words, not 2."),
        (b"01\n02\n03\n", "The image of memory m has 3 words, not 2."),
        (b"01\n0002\n", "The image of memory m has words of more than 2 digits."),
        (b"01\n0g\n", "Word 1 in the image of memory m is not a hexadecimal number."),
        (b"", "The image of memory m has 0 words, not 2."),
    ],
)
def test_text_that_is_no_image_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(ToolError, match=f"^{re.escape(message)}$"):
        decode_image(memory(2, 1, 8), text)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((2, 2), np.int32), "The image of memory m must be int64[2, 2], not int32[2, 2]."),
        (np.zeros((2, 3), np.int64), "The image of memory m must be int64[2, 2], not int64[2, 3]."),
        ([[0, 0], [0, 0]], "The image of memory m must be int64[2, 2], not list."),
        (
            np.array([[0, 0], [0, 8]]),
            "Element 8 in word 1, lane 1 of memory m does not fit 4 bits in two's complement (-8..7).",
        ),
        (
            np.array([[-9, 0], [0, 0]]),
            "Element -9 in word 0, lane 0 of memory m does not fit 4 bits in two's complement (-8..7).",
        ),
    ],
)
def test_an_image_that_does_not_fit_is_refused(image: Image, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        check_image(memory(2, 2, 4), image)
