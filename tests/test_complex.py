"""Complex inputs, outputs and parameters through the whole compiler, and Fourier transforms in hardware."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.normalize.models import Function


def z(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.complex64)


class Mixer(nn.Module):
    """A complex parameter and a result of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(z(4, 4, seed=5) / 2)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = x @ self.weight
        return {"turned": y * 1j, "length": y.abs()}


def error(found: Tensor, wanted: Tensor) -> float:
    """Greatest error relative to the largest value."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    wanted = wanted.to(torch.complex128)
    return float((found.to(torch.complex128) - wanted).abs().max() / wanted.abs().max())


def test_complex_tensors_at_the_border() -> None:
    module, x = Mixer().eval(), z(3, 4)
    hw = torchcalyx.compile(module, x)
    run, model, wanted = hw.simulate(x), hw.emulate(x), module(x)
    for name in ("turned", "length"):
        assert torch.equal(run.outputs[name], model[name])
        assert error(model[name], wanted[name].detach()) < 2**-11
    assert run.cycles == hw.cycles
    comparison = hw.check(x)
    assert comparison.ok and comparison.max_error < 2**-8


def test_conjugated_and_strided_inputs_are_read_as_they_are() -> None:
    x = z(3, 4)
    hw = torchcalyx.compile(Function(lambda a: a + 1), x.conj())
    assert error(hw.emulate(x.conj()), x.conj() + 1) < 2**-12
    assert error(hw.emulate(z(4, 3).T), z(4, 3).T + 1) < 2**-11


def test_an_input_of_another_dtype_is_refused() -> None:
    hw = torchcalyx.compile(Function(lambda a: a * 2), z(3))
    with pytest.raises(torchcalyx.InputError, match="has dtype torch.float32, the model was compiled for"):
        hw.emulate(torch.zeros(3))


def test_not_a_number_is_named() -> None:
    hw = torchcalyx.compile(Function(lambda a: a * 2), z(3))
    with pytest.raises(torchcalyx.InputError, match="is NaN"):
        hw.emulate(torch.full((3,), complex(1.0, float("nan"))))


def test_saved_designs_hold_both_parts(tmp_path: Path) -> None:
    hw = torchcalyx.compile(Function(lambda a: a * a), z(3))
    folder = hw.save(tmp_path / "design")
    assert (folder / "manifest.json").exists()


def test_the_door_of_torch_compile() -> None:
    module, x = Mixer().eval(), z(3, 4)
    compiled = torch.compile(module, backend="torchcalyx", fullgraph=True)
    with torch.no_grad():
        assert error(compiled(x)["turned"], module(x)["turned"]) < 2**-11


TRANSFORMS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "fft": (torch.fft.fft, z(2, 8)),
    "ifft of 72, in two factors": (torch.fft.ifft, z(72)),
    "rfft": (torch.fft.rfft, z(2, 10).real.clone()),
    "irfft": (lambda a: torch.fft.irfft(a, n=9, norm="ortho"), z(2, 5)),
    "fft2": (torch.fft.fft2, z(4, 6)),
    "stft": (
        lambda a: torch.stft(a, 8, 2, window=torch.hann_window(8), return_complex=True),
        z(40).real.clone(),
    ),
    "istft": (lambda a: torch.istft(a, 8, 2, window=torch.hann_window(8)), z(5, 9)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_in_hardware(name: str) -> None:
    function, x = TRANSFORMS[name]
    hw = torchcalyx.compile(Function(function), x)
    run = hw.simulate(x)
    assert torch.equal(run.outputs, hw.emulate(x)) and run.cycles == hw.cycles
    assert error(run.outputs, function(x)) < 2**-10


def test_convolution_of_an_imaginary_image() -> None:
    torch.manual_seed(4)
    weight = torch.randn(3, 2, 3, 3)

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.conv2d(x * 1j, weight.to(torch.complex64))

    x = torch.randn(1, 2, 6, 6)
    hw = torchcalyx.compile(Net(), x)
    got, real = hw.emulate(x), nn.functional.conv2d(x.double() * 1j, weight.to(torch.complex128))
    assert got.dtype == torch.complex64 and (got - real).abs().max() < 2.0**-8 * real.abs().max()
