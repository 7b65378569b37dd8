"""LeNet-5, trained a moment ago on images of handwritten digits, run as simulated hardware.

The network of "Gradient-Based Learning Applied to Document Recognition" (LeCun, Bottou, Bengio, Haffner
1998): 5x5 convolutions, tanh, average pools. scikit-learn's 8x8 digits are enlarged to its 32x32 inputs,
training takes some seconds, then every test image goes through the RTL in 16 bits, which must agree to the
bit with the software model and reach PyTorch's accuracy. Last, the compiler chooses the bits of each tensor
so that no score errs by more than a tolerance.

    python examples/lenet_digits.py

Exit code 1 when hardware and software model differ, or when the accuracy is another one.
"""

from __future__ import annotations

import sys

import torch
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import torchcalyx

TOLERANCES = (2**-5, 0.01, 0.001)


class LeNet5(nn.Sequential):
    """Scores of ten digits for images of (batch, 1, 32, 32)."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(16, 120, 5),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, 10),
        )


def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images, grey values from -1 to 1, then their labels."""
    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(pixels / 8 - 1, labels, test_size=0.25, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = (torch.tensor(part) for part in parts)
    enlarge = nn.Upsample(scale_factor=4, mode="bilinear")
    small = (x.float().reshape(-1, 1, 8, 8) for x in (train_x, test_x))
    return *(enlarge(x) for x in small), train_y, test_y


def train(x: Tensor, y: Tensor, epochs: int = 8) -> nn.Module:
    """A trained network, the same in every run."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = LeNet5()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.002)
    for _ in track(range(epochs), "training", transient=True, disable=not sys.stdout.isatty()):
        for batch in torch.randperm(len(x)).split(32):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def accuracy(scores: Tensor, y: Tensor) -> float:
    """Fraction of the images whose highest score stands at the right digit."""
    return (scores.argmax(dim=1) == y).double().mean().item()


def row(name: str, hw: torchcalyx.CompiledModule, x: Tensor, y: Tensor, expected: Tensor) -> str:
    """Widths, memory, error and accuracy of the software model: a line of the last table."""
    found = hw.report()
    assert found.accuracy is not None
    widths = sorted(tensor.bits for tensor in found.accuracy.tensors) or [16]
    bits = f"{widths[0]} to {widths[-1]}" if widths[0] < widths[-1] else str(widths[0])
    scores = torch.cat([hw.emulate(image) for image in x.split(1)])
    error = (scores - expected).abs().max() / expected.abs().max()
    memory = sum(found.memory_bits.values())
    return f"{name:12} {bits:>8}  {memory:8}  {error.item():9.2%}  {accuracy(scores, y):8.2%}"


def main(test_images: int | None = None) -> int:
    """Run on all test images, or on the first ones; returns the exit code."""
    seen, x, seen_y, y = images()
    x, y = x[:test_images], y[:test_images]
    net = train(seen, seen_y)
    with torch.no_grad():
        expected = net(x)
    hw = torchcalyx.compile(net, x[:1], calibration=seen[:64].split(1))
    runs = hw.simulate_batch(x.split(1))  # one simulator process for all images
    scores = torch.cat([run.outputs for run in runs])
    same_bits = torch.equal(scores, torch.cat([hw.emulate(image) for image in x.split(1)]))
    same_cycles = all(run.cycles == hw.cycles for run in runs)
    reference, found = accuracy(expected, y), accuracy(scores, y)
    print(f"{hw.report()}\n\n{len(x)} images through the RTL")
    print(f"RTL equals its software model to the bit: {'yes' if same_bits else 'NO'}")
    print(f"{hw.cycles} cycles an image, as predicted: {'yes' if same_cycles else 'NO'}")
    print(f"largest error of the scores {(scores - expected).abs().max().item():.1e}")
    print(f"accuracy: torch float32 {reference:.2%}, hardware {found:.2%}")
    print(f"\n{'':12} {'bits':>8}  {'memory':>8}  {'error':>9}  accuracy (software model)")
    print(row("fixed16", hw, x, y, expected))
    for tolerance in TOLERANCES:
        narrow = torchcalyx.compile(
            net,
            x[:1],
            calibration=seen[:64].split(1),
            precision="auto",
            tolerance=tolerance,
            on_saturation="ignore",
        )
        print(row(f"auto {tolerance:.3g}", narrow, x, y, expected))
    return int(not (same_bits and same_cycles and found == reference))


if __name__ == "__main__":
    sys.exit(main())
