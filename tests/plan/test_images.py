"""Tensors to memory images and back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.selections import Sketch, passthrough, ramp, random_inputs, two_results
from torchcalyx.errors import InputError
from torchcalyx.kernels.arith.numerics import BOOL, IntArray, fixed
from torchcalyx.plan import Plan, buffer_array, input_images, output_arrays, plan_memory, schedule
from torchcalyx.selection import Selection


def planned(selection: Selection) -> Plan:
    return plan_memory(selection, schedule(selection, share=True), share=True)


def test_inputs_are_packed_into_words_with_zero_padding() -> None:
    selection = passthrough()
    x = ramp(3, 5)
    images = input_images(selection, planned(selection), [x, np.array([7, -7])])
    assert images["in_x"].tolist() == [word for row in x for word in ([*row[:4]], [row[4], 0, 0, 0])]
    assert images["in_unused"].tolist() == [[7, -7, 0, 0]]
    assert all(image.dtype == np.int64 for image in images.values())


def test_outputs_may_be_inputs_views_parameters_and_constants() -> None:
    selection = passthrough()
    plan = planned(selection)
    x = ramp(3, 5)
    constant, same, turned, weight = output_arrays(
        selection, plan, input_images(selection, plan, [x, np.zeros(2, int)])
    )
    assert constant is None
    for have, want in ((same, x), (turned, x.T), (weight, ramp(4))):
        assert have is not None
        assert np.array_equal(have, want)


def test_unsigned_elements_survive_the_round_trip() -> None:
    s = Sketch()
    flags, counts = s.input("flags", (6,), BOOL), s.input("counts", (6,), fixed(8, 0, signed=False))
    selection = s.build(flags, counts)
    plan = planned(selection)
    inputs: list[IntArray] = [np.array([0, 1, 1, 0, 1, 0]), np.array([0, 1, 127, 128, 200, 255])]
    images = input_images(selection, plan, inputs)
    assert images["in_flags"].min() == -1 and images["in_counts"].min() == -128
    for want, have in zip(inputs, output_arrays(selection, plan, images), strict=True):
        assert have is not None
        assert np.array_equal(have, want)


def test_a_buffer_is_read_from_the_image_of_its_memory() -> None:
    selection = two_results()
    plan = planned(selection)
    image = np.arange(8).reshape(2, 4)
    assert buffer_array(selection, plan, "first", {"out_first": image}).tolist() == [[0, 1, 2, 3, 4, 5]]
    with pytest.raises(InputError) as error:
        buffer_array(selection, plan, "second", {"out_first": image})
    assert str(error.value) == "buffer 'second' lives in memory 'out_second', of which there is no image"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "the program takes 1 inputs, got 0"),
        ([np.zeros((2, 3), int)], "input 'x' has shape (6,), got shape (2, 3)"),
        ([np.zeros(6)], "input 'x' takes stored integers, not float64"),
        (
            [np.array([0, 0, 40000, 0, 0, -1])],
            "input 'x' has stored integers -1..40000 outside of fixed16.8",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[IntArray], message: str) -> None:
    selection = two_results()
    with pytest.raises(InputError) as error:
        input_images(selection, planned(selection), inputs)
    assert str(error.value) == message


def test_random_inputs_of_the_tests_fit() -> None:
    selection = two_results()
    assert set(input_images(selection, planned(selection), random_inputs(selection))) == {"in_x"}
