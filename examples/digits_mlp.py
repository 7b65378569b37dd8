"""A network trained on images of handwritten digits a moment ago, run as simulated hardware.

Trains a 64-32-10 ReLU network on scikit-learn's bundled 8x8 digits, compiles it in 16 bits, in 8 bits and
with as few bits as each tensor needs, and sends every test image through the RTL, which must agree to the bit
with the software model and nearly reach PyTorch's accuracy.

    python examples/digits_mlp.py

Exit code 1 when hardware and software model differ, or when an accuracy goal is missed.
"""

from __future__ import annotations

import sys

import torch
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import torchcalyx

ALLOWED = {"fixed16": 0.0, "fixed8": 0.01, "auto": 0.01}  # how far the accuracy may lie from PyTorch's
AUTO = {"tolerance": 0.01}  # of the largest score: how far a score may lie from PyTorch's on the seen images


def images() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images (64 grey values from 0 to 1 each), then their labels."""
    pixels, labels = load_digits(return_X_y=True)
    parts = train_test_split(pixels / 16, labels, test_size=0.25, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = (torch.tensor(part) for part in parts)
    return train_x.float(), test_x.float(), train_y, test_y


def train(x: Tensor, y: Tensor, epochs: int = 30) -> nn.Module:
    """A trained network, the same in every run."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more only get in each other's way with matrices this small
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in track(range(epochs), "training", transient=True, disable=not sys.stdout.isatty()):
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimiser.step()
    return net.eval()


def accuracy(scores: Tensor, y: Tensor) -> float:
    """Fraction of the images whose highest score stands at the right digit."""
    return (scores.argmax(dim=1) == y).double().mean().item()


def run_in_hardware(net: nn.Module, precision: str, seen: Tensor, x: Tensor) -> tuple[Tensor, bool, int]:
    """Scores of the images `x`, one call of the hardware each, whether it did what its models said, and the
    bits of its memories.

    The binary point of every tensor is chosen from the values it takes on the `seen` images.
    """
    more = AUTO if precision == "auto" else {}
    hw = torchcalyx.compile(net, x[:1], precision=precision, calibration=seen.split(1), **more)
    runs = hw.simulate_batch(x.split(1))  # one simulator process for all images
    scores = torch.cat([run.outputs for run in runs])
    same_bits = torch.equal(scores, torch.cat([hw.emulate(image) for image in x.split(1)]))
    same_cycles = all(run.cycles == hw.cycles for run in runs)
    report = hw.report()
    print(f"\n{precision}: {len(x)} images through the RTL\n\n{report}")
    print(f"RTL equals its software model to the bit: {'yes' if same_bits else 'NO'}")
    print(f"{hw.cycles} cycles an image, {report.utilisation:.1%} of the multipliers' time is useful")
    return scores, same_bits and same_cycles, sum(report.memory_bits.values())


def main(test_images: int | None = None) -> int:
    """Run the demo on all test images, or on the first ones; returns the exit code."""
    seen, x, seen_y, y = images()
    x, y = x[:test_images], y[:test_images]
    net = train(seen, seen_y)
    with torch.no_grad():
        expected = net(x)
    reference = accuracy(expected, y)
    runs = {precision: run_in_hardware(net, precision, seen, x) for precision in ALLOWED}
    print(f"\naccuracy on {len(x)} test images\n  torch float32     {reference:.2%}")
    largest = expected.abs().max()
    failed = False
    for precision, (scores, exact, memory) in runs.items():
        found = accuracy(scores, y)
        missed = abs(found - reference) > ALLOWED[precision]
        failed |= missed or not exact
        name, verdict = f"{precision} hardware", "   MISSED" if missed else ""
        error = ((scores - expected).abs().max() / largest).item()
        print(f"  {name:17} {found:.2%}  {memory:6} bits of memory, error {error:.2%}{verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
