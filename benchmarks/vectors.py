"""Elementwise work on 1024 elements and 8 lanes: cycles. Bound: 1024 / 8, one word a cycle.

    python -m benchmarks.vectors [--quick]

--quick measures the longest chain only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.figures import Figure, run
from benchmarks.measure import measure

TITLE = "Elementwise, 1024 elements, 8 lanes"
SIZE, LANES = 1024, 8


class Elementwise(nn.Module):
    """A function of two vectors."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """x, y: (SIZE,)."""
        return self.function(x, y)


FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu(x + y)": lambda x, y: torch.relu(x + y),
    "x * y": lambda x, y: x * y,
    "where(x > y, x * y + x, clamp(y, -0.25, 0.25))": lambda x, y: torch.where(
        x > y, x * y + x, torch.clamp(y, -0.25, 0.25)
    ),
}


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    torch.manual_seed(0)
    x, y = torch.rand(SIZE) - 0.5, torch.rand(SIZE) - 0.5
    bound = SIZE // LANES
    rows = []
    for name in list(FUNCTIONS)[-1:] if quick else FUNCTIONS:
        found = measure(Elementwise(FUNCTIONS[name]), x, y, multipliers=LANES, lanes=LANES)
        rows.append(Figure(name, found.cycles, bound, bound + 12, calls=found.calls))
    return rows


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
