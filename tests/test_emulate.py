"""The software model of whole programs against plain arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.selections import Sketch, branches, concatenation, multiplications, passthrough, ramp, two_results
from torchcalyx.emulate import emulate
from torchcalyx.errors import InputError, PlanError
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.kernels.contract import Emulated
from torchcalyx.kernels.elementwise import Elementwise


def clip(values: IntArray) -> IntArray:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def scaled(products: IntArray) -> IntArray:
    """Products of two fixed16.8 numbers as fixed16.8: round half to even, saturate."""
    return clip(np.rint(products / 256).astype(np.int64))


def test_chains_and_their_sum() -> None:
    a, b = ramp(4, 6) * 9, ramp(4, 6)[::-1] * 5
    (result,) = emulate(branches(), [a, b]).outputs
    left = clip(clip(clip(a * 2) * 2) * 2)
    right = scaled(clip(np.maximum(b, 0) * 3) ** 2)
    assert result is not None
    assert np.array_equal(result, clip(left + right))


def test_parameters_are_broadcast() -> None:
    a, b = ramp(2, 7) * 3, ramp(2, 7)
    first, second = emulate(multiplications(), [a, b]).outputs
    assert first is not None and second is not None
    assert np.array_equal(first, np.maximum(scaled(a * ramp(7)), 0))
    assert np.array_equal(second, scaled(b * b) * 2)


def test_calls_that_write_parts_of_one_buffer() -> None:
    a, b = ramp(2, 8), ramp(3, 8)
    result = emulate(concatenation(), [a, b])
    joined = np.concatenate([a * 2, np.maximum(b, 0)])
    everything, returned = result.outputs
    assert everything is not None and returned is not None
    assert np.array_equal(returned, joined)
    assert np.array_equal(everything, joined * 3)
    assert np.array_equal(result.buffers["joined"].reshape(5, 8), joined)


def test_outputs_that_are_no_calls_results() -> None:
    x = ramp(3, 5)
    constant, same, turned, weight = emulate(passthrough(), [x, np.zeros(2, int)]).outputs
    assert constant is None
    assert same is not None and turned is not None and weight is not None
    assert np.array_equal(same, x) and np.array_equal(turned, x.T) and np.array_equal(weight, ramp(4))


def test_saturations_are_counted_for_each_call() -> None:
    x = np.array([20000, -20000, 1, 2, 3, 16384])
    result = emulate(two_results(), [x])
    assert result.saturated == {"first": 3, "second": 3}
    assert result.buffers["first"].ravel().tolist() == [32767, -32768, 2, 4, 6, 32767]


def test_inputs_are_left_alone_and_runs_do_not_disturb_each_other() -> None:
    x = ramp(6)
    before = x.copy()
    one = emulate(two_results(), [x])
    emulate(two_results(), [x + 1])
    assert np.array_equal(x, before)
    assert one.outputs[2] is not None and np.array_equal(one.outputs[2], before)


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="the program takes 2 inputs, got 1"):
        emulate(branches(), [ramp(4, 6)])


@dataclass(frozen=True)
class WrongModel(Elementwise):
    """A kernel whose software model forgets its result, or its shape."""

    results: int = 0

    def emulate(self, *arrays: IntArray) -> Emulated:
        return Emulated((np.zeros((1, 1), int),) * self.results, 0)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (0, "the model of call 'y' returns 0 arrays, its kernel writes 1"),
        (
            1,
            "the model of call 'y' returns shape (1, 1), buffer 'y' of port 'y' has (1, 8)",
        ),
    ],
)
def test_a_model_that_breaks_its_contract_is_named(results: int, message: str) -> None:
    s = Sketch()
    selection = s.build(s.call("double", "y", s.input("x", (8,))))
    spec = selection.calls[0].spec
    assert isinstance(spec, Elementwise)
    wrong = WrongModel(spec.expr, spec.operands, spec.out, results=results)
    with pytest.raises(PlanError) as error:
        emulate(replace(selection, calls=(replace(selection.calls[0], spec=wrong),)), [ramp(8)])
    assert str(error.value) == message
