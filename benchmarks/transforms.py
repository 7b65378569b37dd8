"""Fourier transforms of complex vectors on 64 multipliers: cycles. Bound: N log2 N / (2 x 64), the
butterflies of a radix-2 transform with a multiplier each.

    python -m benchmarks.transforms [--quick]

Lengths beyond 64 are two products with constant matrices each. --quick measures the shortest only. The
second figure of each length is the error relative to the largest result, in units of 2^-11.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import torchcalyx
from benchmarks.figures import Figure, run
from benchmarks.measure import measure

TITLE = "Fourier transforms, 64 multipliers"
SIZES, MULTIPLIERS = (64, 256, 1024), 64
UNIT = 2.0**-11


class Transform(nn.Module):
    """torch.fft.fft."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (N,) complex."""
        result: Tensor = torch.fft.fft(x)
        return result


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    rows = []
    for size in SIZES[:1] if quick else SIZES:
        x = torch.randn(size, dtype=torch.complex64, generator=torch.Generator().manual_seed(size))
        found = measure(Transform(), x, multipliers=MULTIPLIERS)
        bound = size * (size.bit_length() - 1) / (2 * MULTIPLIERS)
        rows.append(Figure(f"fft of {size}", found.cycles, bound, calls=found.calls))
        rows.append(Figure(f"fft of {size}: error / 2^-11", error(x) / UNIT, None, 1, "count"))
    return rows


def error(x: Tensor) -> float:
    """Of the software model, relative to the largest result in double precision."""
    hw = torchcalyx.compile(Transform(), (x,), multipliers=MULTIPLIERS)
    wanted = torch.fft.fft(x.to(torch.complex128))
    return float((hw.emulate(x) - wanted).abs().max() / wanted.abs().max())


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
