"""Linear layers and small networks at batch 1: cycles of the whole program in 16 bits.

Bound: multiply-accumulates / multipliers.

    python -m benchmarks.batch_one [--quick]

--quick leaves out the layer 256 -> 256.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from benchmarks.figures import Figure, run
from benchmarks.measure import measure

TITLE = "Batch 1, whole program"


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers from width to width, ReLU between them."""
    torch.manual_seed(0)
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def figure(what: str, widths: Sequence[int], multipliers: int, goal: float) -> Figure:
    """The figure of one perceptron."""
    found = measure(mlp(*widths), torch.rand(1, widths[0]) - 0.5, multipliers=multipliers)
    macs = sum(a * b for a, b in pairwise(widths))
    assert found.report.macs == macs
    name = f"{what} {'-'.join(map(str, widths))}, {multipliers} multipliers"
    return Figure(name, found.cycles, macs / multipliers, goal, calls=found.calls)


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    rows = [
        figure("FFNN", (64, 48, 4), 16, 250),
        figure("FFNN", (64, 48, 4), 64, 90),
        figure("jet tagger", (16, 64, 32, 32, 5), 64, 130),
    ]
    return rows if quick else [figure("linear", (256, 256), 64, 1.06 * 1024), *rows]


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
