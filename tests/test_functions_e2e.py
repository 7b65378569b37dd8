"""Modules of nonlinear functions through the whole compiler: hardware equals the model, the error bound
holds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.kernels.functions.function import ERROR_LIMIT

needs_tools = pytest.mark.needs("calyx", "verilator")


class Each(nn.Module):
    """Several modules of one input, their results by name."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(modules)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: part(x) for name, part in self.parts.items()}


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result = self.function(x)
        assert isinstance(result, Tensor)
        return result


GATES = Each(
    gelu=nn.GELU(), gelu_tanh=nn.GELU("tanh"), silu=nn.SiLU(), mish=nn.Mish(), elu=nn.ELU(0.7), selu=nn.SELU()
)
SIGMOIDS = Each(
    sigmoid=nn.Sigmoid(), tanh=nn.Tanh(), erf=Call(torch.erf),
    softplus=nn.Softplus(), beta=nn.Softplus(2.0, 3.0), celu=nn.CELU(0.5), log_sigmoid=nn.LogSigmoid(),
)  # fmt: skip
WAVES = Each(sin=Call(torch.sin), cos=Call(torch.cos), exp=Call(torch.exp), exp2=Call(torch.exp2))
POSITIVE = Each(
    log=Call(torch.log), log1p=Call(torch.log1p), sqrt=Call(torch.sqrt), rsqrt=Call(torch.rsqrt),
    reciprocal=Call(torch.reciprocal), power=Call(lambda x: x**-0.5),
)  # fmt: skip


def grid(low: float, high: float) -> Tensor:
    """Multiples of 1/64: exact in the formats of these tests."""
    points = torch.linspace(low, high, 96).mul(64).round().div(64)
    return points[torch.randperm(96, generator=torch.Generator().manual_seed(0))].reshape(6, 16)


def units(hw: torchcalyx.CompiledModule, got: dict[str, Tensor], want: dict[str, Tensor]) -> dict[str, float]:
    """Largest error of each output in units in the last place of its format."""
    formats = dict(zip(got, (o.fmt for o in hw.stages.selection.outputs), strict=True))
    return {
        name: float((got[name].double() - want[name].double()).abs().max()) / formats[name].resolution
        for name in got
    }


@needs_tools
@pytest.mark.parametrize(
    ("module", "x"),
    [
        pytest.param(GATES, grid(-7, 7), id="gates"),
        pytest.param(SIGMOIDS, grid(-7, 7), id="sigmoids"),
        pytest.param(WAVES, grid(-5, 5), id="waves"),
        pytest.param(POSITIVE, grid(0.25, 15), id="positive"),
    ],
)
def test_modules_stay_within_the_bound(module: Each, x: Tensor) -> None:
    hw = torchcalyx.compile(module.eval(), (x,), multipliers=16)
    comparison = hw.check(x)
    assert comparison.ok, str(comparison)
    # torch itself computes in float32: a hundredth of a unit in a 16-bit result
    found = units(hw, hw.emulate(x), module(x))
    assert max(found.values()) <= ERROR_LIMIT + 0.01, found
    assert hw.report().multipliers <= 16


@pytest.mark.parametrize("module", [GATES, SIGMOIDS, WAVES])
def test_8_bit_results_are_the_nearest_and_need_no_multiplier(module: Each) -> None:
    x = grid(-1.9, 1.9).mul(32).round().div(32)
    hw = torchcalyx.compile(module.eval(), (x,), precision="fixed8")
    found = units(hw, hw.emulate(x), module(x))
    assert max(found.values()) <= 0.5 + 1e-4, found
    assert hw.report().multipliers == 0


@needs_tools
def test_a_table_ends_a_matrix_product_in_the_same_call() -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(12, 8), nn.Sigmoid()).eval(), torch.randn(4, 12)
    hw = torchcalyx.compile(module, (x,), multipliers=16, precision="fixed8")
    assert [call.kernel for call in hw.report().calls].count("elementwise") == 0
    assert hw.check(x).ok


@needs_tools
def test_attention_written_by_hand_divides_by_a_computed_sum() -> None:
    def softmax(x: Tensor) -> Tensor:
        shifted = torch.exp(x - x.amax(-1, keepdim=True))
        return shifted / shifted.sum(-1, keepdim=True)

    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(3)) * 2
    hw = torchcalyx.compile(Call(softmax), (x,), multipliers=16)
    comparison = hw.check(x)
    assert comparison.ok, str(comparison)
    assert torch.allclose(hw.emulate(x), softmax(x), atol=3e-4)


def test_division_is_within_the_bound() -> None:
    class Quotient(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x / y

    x, y = grid(-9, 9), grid(0.25, 6).flip(0)
    y = torch.where(x > 3, -y, y)
    hw = torchcalyx.compile(Quotient(), (x, y), multipliers=16)
    (fmt,) = [o.fmt for o in hw.stages.selection.outputs]
    error = (hw.emulate(x, y).double() - x.double() / y.double()).abs().max() / fmt.resolution
    assert float(error) <= 0.8


def test_one_multiplier_a_lane_is_enough_for_narrow_formats_only() -> None:
    x = grid(-7, 7)
    hw = torchcalyx.compile(GATES, (x,), multipliers=4, lanes=4)
    assert hw.report().multipliers == 4
    found = units(hw, hw.emulate(x), GATES(x))
    assert max(found.values()) <= ERROR_LIMIT + 0.01, found
    with pytest.raises(
        UnsupportedOpError, match=r"(?s)tanh from .* no table stays within .* raise multipliers, lower lanes"
    ):
        torchcalyx.compile(nn.Tanh(), (x,), multipliers=4, lanes=4, precision="fixed32")


def test_32_bit_functions_are_within_the_bound() -> None:
    x = grid(-7, 7)
    module = Each(sigmoid=nn.Sigmoid(), gelu=nn.GELU(), exp=Call(torch.exp), softplus=nn.Softplus())
    hw = torchcalyx.compile(module.eval(), (x,), precision="fixed32")
    got, want = hw.emulate(x), module(x.double())
    formats = [o.fmt for o in hw.stages.selection.outputs]
    for (name, value), fmt in zip(got.items(), formats, strict=True):
        # results come back as float32, so the bound is its precision here, not the table's
        bound = np.maximum(fmt.resolution, 2.0**-23 * want[name].abs().numpy())
        assert np.all((value.double() - want[name]).abs().numpy() <= bound), name
