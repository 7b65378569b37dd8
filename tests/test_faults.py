"""Faults found by random graphs and hostile use; each keeps a test against torch, through the hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.models import Function, agree
from torchcalyx.errors import UnsupportedOpError

pytestmark = pytest.mark.needs("calyx", "calyx-py", "icarus")


def _real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).clamp(-2, 2)


def holds(function: Callable[..., Any], *inputs: torch.Tensor, atol: float = 0.02, **options: Any) -> None:
    agree(function, inputs, atol, simulator="icarus", **options)


def test_narrow_integers_wrap_between_operations() -> None:
    x = torch.tensor([100, -100, 127], dtype=torch.int8)
    holds(lambda x: ((x + x).float(), (x + x) // 2, x * x > 5, (x + x).sum(), -x), x)
    unsigned = torch.tensor([0, 3, 255], dtype=torch.uint8)
    holds(lambda x: ((x - 1) > 3, x - 1, x * x), unsigned)
    wide = torch.tensor([2**31 - 1, -(2**31), 12345, 7], dtype=torch.int32)
    holds(lambda x: ((x * 3) % 3, x.cumsum(0), x.cumsum(0, dtype=torch.int32)), wide)


def test_a_power_of_two_wraps_as_any_factor_does() -> None:
    holds(lambda x: (x * 2, x * -4, x * 3), torch.tensor([-20000, 30000], dtype=torch.int16))


def test_casts_to_narrow_integers_wrap() -> None:
    x = torch.tensor([300, -129, 70000, 5])
    holds(lambda x: (x.to(torch.int8), x.to(torch.uint8) + 1, x.to(torch.int16).float()), x)


def test_bounds_of_clamp_stay_inside_the_dtype() -> None:
    x = torch.tensor([0, 5, 200], dtype=torch.uint8)
    holds(lambda x: (x.clamp(-1, 1), x.clamp(min=-1), x.clamp(max=300)), x)


def test_scalars_keep_their_digits_whatever_the_result_is() -> None:
    x = torch.tensor([0.298, 1.69, -1.2])
    holds(lambda x: (x > 0.3, x < 1.7, (x * 1.7).bool(), (x * 0.3).to(torch.int8)), x)


def test_scalars_far_outside_the_range() -> None:
    holds(lambda x: (x.clamp(-1e30, 1e30), x.clamp(max=1e9), x > -1e20), _real(5))


def test_reshapes_that_end_in_an_axis_of_one() -> None:
    holds(lambda x: x.reshape(3, 6, 1), _real(9, 2))
    holds(lambda x: torch.einsum("ij,ij->", x, x), _real(2, 2))
    holds(lambda x: x.reshape(2, 1).repeat_interleave(3, 0), _real(1, 2))


def test_one_memory_read_twice_in_a_kernel() -> None:
    holds(lambda y: y[:, 1:4] * y.narrow(1, 1, 3) * y[:, 2:5], _real(7, 5), lanes=4)
    holds(lambda x: x.expand(3, 3, 2).prod(0), _real(3, 2))
    holds(lambda x: x.flatten(0) @ x.flatten(0), _real(2, 2))
    holds(lambda x: x @ x, _real(2, 1, 1, 1))
    holds(lambda x: torch.relu(x @ x.t()) + x @ x.t(), _real(3, 3), atol=0.05)


def test_constants_wider_than_64_bits() -> None:
    holds(lambda x: (x / 5).clamp(-1, 2), torch.tensor([-0.57, 1.5, -6.0]), precision="fixed32", atol=1e-3)
    inputs = (_real(4), _real(9, 9), _real(9, 4))
    holds(lambda b, x, w: torch.addmm(b, x, w).to(torch.int16), *inputs, precision="fixed32")


def test_flattening_behind_an_axis_of_one() -> None:
    model = nn.Sequential(nn.Conv2d(9, 4, (2, 3), 2, (1, 1)), nn.Flatten(), nn.Linear(12, 3))
    holds(model, _real(1, 9, 4, 2))


def test_tensors_without_elements_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedOpError, match=r"without elements.*\n  input \(input, float32\[0, 5\]\)"):
        torchcalyx.compile(nn.Linear(5, 3).eval(), torch.randn(0, 5))


def test_explain_names_every_call_of_a_grouped_convolution() -> None:
    hw = torchcalyx.compile(nn.Conv2d(4, 4, 3, groups=2).eval(), _real(1, 4, 5, 5), multipliers=4)
    assert [call.name for call in hw.stages.selection.calls] == ["k0_dot", "k1_dot"]
    assert "k0_dot, k1_dot" in hw.explain()


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
def test_a_mean_divides_exactly_whatever_follows(scale: float) -> None:
    torch.manual_seed(1)
    x = torch.randn(4, 6) * scale
    for function in (
        lambda x: (x * x).mean(1).rsqrt(),
        lambda x: 1 / (x.abs().mean(1) + 1e-9),
        nn.RMSNorm(6),
    ):
        module = function if isinstance(function, nn.Module) else None
        hw = torchcalyx.compile((module or Function(function)).eval(), x, simulator="icarus")
        with torch.no_grad():
            want = (module or function)(x)
        assert (hw.emulate(x) / want - 1).abs().max() < 5e-3


def test_a_float_outside_its_format_saturates_before_it_becomes_an_integer() -> None:
    model = Function(lambda x: (x * 2.5).to(torch.int32)).eval()
    hw = torchcalyx.compile(
        model, torch.ones(3), precision="fixed16.12", simulator="icarus", on_saturation="ignore"
    )
    x = torch.tensor([1.5, 7.0, -7.0])  # 3.75, and 17.5 beyond the format's 8
    assert hw(x).tolist() == hw.emulate(x).tolist() == [3, 7, -8]


def test_a_linear_layer_on_repeated_elements() -> None:
    weight = torch.randn(2, 6)
    holds(lambda x: nn.functional.linear(x[0].repeat_interleave(3, 0), weight), _real(1, 2))


@pytest.mark.parametrize(
    ("name", "function", "inputs"),
    [
        (
            "an element written twice",
            lambda x: x.index_put((torch.tensor([0, 0]),), torch.ones(3), accumulate=True),
            (torch.tensor([[0.5, -3.0, 8.0], [0.01, 2.0, -7.0]]),),
        ),
        (
            "many runs of constant indices",
            lambda x: x[:, torch.arange(200) * 7 % 11 % 3],
            (torch.tensor([[0.5, -3.0, 8.0], [0.01, 2.0, -7.0]]),),
        ),
        ("one number in buckets", torch.bucketize, (torch.tensor(0.3), torch.tensor([0.1, 0.2, 0.5]))),
    ],
)
def test_indices_once_refused(name: str, function: Any, inputs: tuple[Tensor, ...]) -> None:
    class Of(nn.Module):
        def forward(self, *arguments: Tensor) -> Any:
            return function(*arguments)

    hw = torchcalyx.compile(Of(), inputs)
    got, real = hw.emulate(*inputs), function(*inputs)
    assert got.dtype == real.dtype, name
    assert torch.equal(hw.simulate(*inputs).outputs, got)
    assert torch.allclose(got.double(), real.double(), rtol=0, atol=2.0**-9)
