"""Functions of two variables and chains of sampled ones through the compiler, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torchcalyx
from torchcalyx.errors import InputError, KernelParameterError, UnsupportedOpError


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Tensor:
        result = self.function(*tensors)
        assert isinstance(result, Tensor)
        return result


def draws(seed: int, scale: float, positive: bool = False) -> Tensor:
    """Exact in 16 bits, so that eager in float64 sees what hardware sees."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(4, 12, generator=generator) * 2 - 1
    x = (x.abs() + 2.0**-6 if positive else x) * 2.0**10
    return x.round().clamp(-1023, 1023) * 2.0**-10 * scale


CASES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "atan2": (torch.atan2, (draws(0, 4), draws(1, 0.25))),
    "hypot": (torch.hypot, (draws(0, 64), draws(1, 0.5))),
    "power_of_tensors": (torch.pow, (draws(0, 4, True), draws(1, 2))),
    "power_of_negative_numbers": (torch.pow, (draws(0, 2), torch.tensor([0.0, 1, 2, 3] * 12).reshape(4, 12))),
    "power_third": (lambda x: x ** (1 / 3), (draws(0, 1024, True),)),
    "power_minus_1_7": (lambda x: x**-1.7, (draws(0, 8, True) + 0.25,)),
    "float_power": (lambda x: torch.float_power(x, 2.3), (draws(0, 2, True),)),
    "xlogy": (torch.xlogy, (draws(0, 4) * (draws(3, 1) > 0), draws(1, 64, True))),
    "logaddexp": (torch.logaddexp, (draws(0, 256), draws(1, 256))),
    "logaddexp2": (torch.logaddexp2, (draws(0, 4), draws(1, 8))),
    "fmod": (lambda x: torch.fmod(x, 0.75), (draws(0, 16),)),
    "fmod_of_tensors": (torch.fmod, (draws(0, 16), draws(1, 2) + 3)),
    "remainder": (lambda x: torch.remainder(x, -0.75), (draws(0, 16),)),
    "remainder_of_multiples": (
        lambda x: torch.remainder(x, 3.0), (draws(0, 16).round() * 3 + (draws(1, 1) > 0),)),
    "trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (draws(0, 16), draws(1, 1) - 2)),
    "floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (draws(0, 16), draws(1, 1) - 2)),
    "copysign": (torch.copysign, (draws(0, 4), draws(1, 1))),
    "ldexp": (torch.ldexp, (draws(0, 4), draws(1, 3).round())),
    "addcdiv": (
        lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), (draws(0, 1), draws(1, 4), draws(2, 1) + 2)),
    "lerp": (torch.lerp, (draws(0, 4), draws(1, 4), draws(2, 1))),
    "softplus_backward": (
        lambda g, x: torch.ops.aten.softplus_backward(g, x, 2.0, 5.0), (draws(0, 1), draws(1, 64))),
    "logit_backward": (
        lambda g, x: torch.ops.aten.logit_backward(g, x, 0.05), (draws(0, 1), draws(1, 1).abs())),
    "soft_margin": (F.soft_margin_loss, (draws(0, 16), draws(1, 1).sign())),
    "acos_of_cos": (lambda x: torch.acos(torch.cos(x) * 0.999), (draws(0, 3),)),
    "log_of_small_tails": (lambda x: torch.log(torch.erfc(x)), (draws(0, 4).abs(),)),
    "lgamma_difference": (lambda x: torch.lgamma(x + 1) - torch.lgamma(x), (draws(0, 16, True),)),
    "erfinv_of_erf": (lambda x: torch.erfinv(torch.erf(x)), (draws(0, 1.5),)),
    "tan_of_atan": (lambda x: torch.tan(torch.atan(x)), (draws(0, 8),)),
}  # fmt: skip


def error(got: Tensor, want: Tensor) -> float:
    """Largest error relative to the largest value."""
    return float((got.double() - want).abs().max() / want.abs().max())


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch(name: str) -> None:
    function, inputs = CASES[name]
    hw = torchcalyx.compile(Call(function).eval(), inputs)
    want = function(*(x.double() for x in inputs))
    got = hw.emulate(*inputs)
    assert got.dtype == function(*inputs).dtype
    assert error(got, want) < 2.0**-9


@pytest.mark.needs("calyx", "verilator")
@pytest.mark.parametrize("name", ["atan2", "power_of_tensors", "fmod_of_tensors", "log_of_small_tails"])
def test_hardware_equals_the_model(name: str) -> None:
    function, inputs = CASES[name]
    hw = torchcalyx.compile(Call(function).eval(), inputs, multipliers=16)
    comparison = hw.check(*inputs)
    assert comparison.ok, str(comparison)


@pytest.mark.parametrize(
    ("function", "x", "kind", "says"),
    [
        (torch.asin, torch.tensor([0.5, 2.0]), InputError, r"makes asin \(node 'asin'\) infinite or NaN"),
        (torch.lgamma, torch.tensor([0.5, -1.0]), InputError, "makes lgamma"),
        (lambda x: x**0.3, torch.tensor([0.5, -1.0]), InputError, "makes power of aten.pow"),
        (
            lambda x: torch.nextafter(x, x + 1),
            torch.ones(3),
            UnsupportedOpError,
            "neighbour in fixed point",
        ),
    ],
)
def test_what_has_no_value_is_refused(function: Any, x: Tensor, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        torchcalyx.compile(Call(function).eval(), (x,))


def test_a_function_of_the_users_own() -> None:
    swirl = torchcalyx.function("test_swirl", lambda x: np.sin(x) / (1 + x * x), symmetry="odd")
    x = draws(0, 8)
    hw = torchcalyx.compile(Call(lambda x: swirl(x) * 2 + x).eval(), x)
    assert error(hw.emulate(x), torch.sin(x.double()) / (1 + x.double() ** 2) * 2 + x) < 2.0**-12
    with pytest.raises(KernelParameterError, match="function 'test_swirl' exists already"):
        torchcalyx.function("test_swirl", np.cos)
    with pytest.raises(KernelParameterError, match="the name must be a Python identifier"):
        torchcalyx.function("a b", np.cos)
    with pytest.raises(UnsupportedOpError, match="takes floating-point tensors, not int64"):
        torchcalyx.compile(Call(swirl).eval(), torch.arange(4))
