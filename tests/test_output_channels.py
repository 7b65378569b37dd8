"""Outputs whose channels have unlike scales: each channel is as exact as its own size asks."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx

BITS = {"fixed8": 5, "fixed16": 11, "fixed32": 22}
"""Bits of each channel's largest value that must be right."""


def _scaled(layer: nn.Module, scales: Tensor) -> nn.Module:
    with torch.no_grad():
        weight, bias = layer.weight, layer.bias
        assert isinstance(weight, Tensor) and isinstance(bias, Tensor)
        weight *= scales.reshape(-1, *[1] * (weight.ndim - 1))
        bias *= scales
    return layer.eval()


def _channel_errors(got: Tensor, real: Tensor) -> Tensor:
    """Greatest error of each channel (axis 1) by its largest value."""
    error, size = ((t.transpose(0, 1).flatten(1).abs().amax(1)) for t in (got.double() - real, real))
    return error / size


@pytest.mark.parametrize("precision", BITS)
def test_linear_channels_of_a_millionth_and_a_million(precision: str) -> None:
    torch.manual_seed(0)
    layer = _scaled(nn.Linear(16, 8), torch.tensor([1e-6, 1e6]).repeat(4))
    x = torch.randn(4, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hw = torchcalyx.compile(layer, x, precision=precision)
        got = hw.emulate(x)
    real = layer.double()(x.double()).detach()
    assert _channel_errors(got, real).max() <= 2.0 ** -BITS[precision]
    if precision == "fixed16":
        assert torch.equal(hw.simulate(x).outputs, got)


def test_convolution_with_two_readers() -> None:
    """A rescaled value that the caller and a further layer read is right for both."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = _scaled(nn.Conv2d(2, 4, 3), torch.tensor([1.0, 1e3, 1e-4, 0.3]))
            self.second = nn.Conv2d(4, 2, 1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = torch.relu(self.first(x))
            return y, self.second(y)

    torch.manual_seed(1)
    net, x = Net().eval(), torch.randn(1, 2, 6, 6)
    hw = torchcalyx.compile(net, x)
    first, second = hw.emulate(x)
    run = hw.simulate(x).outputs
    assert torch.equal(run[0], first) and torch.equal(run[1], second)
    real = [y.detach() for y in net.double()(x.double())]
    assert _channel_errors(first, real[0]).max() <= 2.0**-11
    assert (second.double() - real[1]).abs().max() <= 2.0**-11 * real[1].abs().max()


def test_like_channels_have_one_binary_point() -> None:
    torch.manual_seed(2)
    layer = _scaled(nn.Linear(8, 4), torch.tensor([1.0, 0.1, 0.05, 2.0]))  # within 2 ** 6 of each other
    hw = torchcalyx.compile(layer, torch.randn(4, 8))
    assert hw.stages.selection.outputs[0].exponents == ()


def test_saved_design_tells_the_exponents(tmp_path: Path) -> None:
    torch.manual_seed(3)
    layer, x = _scaled(nn.Linear(8, 4), torch.tensor([1.0, 1e-4, 1e3, 1.0])), torch.randn(2, 8)
    hw = torchcalyx.compile(layer, x)
    hw.save(tmp_path / "saved", calls=[x])
    (output,) = json.loads((tmp_path / "saved" / "manifest.json").read_text())["outputs"]
    words = [
        int(w, 16)
        for w in (tmp_path / "saved/data" / f"{output['memory']}.0.expected.hex").read_text().split()
    ]
    width, frac = 16, int(output["format"].split(".")[1])
    lanes = [(word >> width * i) & 0xFFFF for word in words for i in range(output["lanes"])]
    stored = np.array([v - 65536 if v >= 32768 else v for v in lanes]).reshape(2, -1)[:, :4]
    values = np.ldexp(stored.astype(float), np.array(output["exponents"]) - frac)
    real = layer.double()(x.double()).detach().numpy()
    assert output["axis"] == 1
    assert np.abs((values - real) / np.abs(real).max(axis=0)).max() <= 2.0**-11
