"""Products of matrices given at run time, requantised to 16 bits in the drain: cycles and useful work.

    python -m benchmarks.gemm [--quick]

- One N x N x N product on an N x N array with 1, 2 and 3 multiplier stages. Bound: 3N - 2, the last of N
  steps in the corner that data reach after 2N - 2.
- Streamed tiles. Bound: one multiply-accumulate a multiplier and cycle.

--quick leaves out the 16 x 16 array.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from benchmarks.figures import Figure, run
from benchmarks.measure import Measured, measure, quick_simulator

TITLE = "Matrix products"


class Product(nn.Module):
    """a @ b."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a: (M, K), b: (K, N)."""
        return a @ b


def product(rows: int, inner: int, cols: int, stages: int = 1) -> Measured:
    """One tile: (rows x inner) @ (inner x cols) on a rows x cols array."""
    torch.manual_seed(0)
    a, b = torch.rand(rows, inner) - 0.5, torch.rand(inner, cols) - 0.5
    options = {"multipliers": rows * cols, "lanes": cols, "multiplier_stages": stages}
    return measure(Product(), a, b, simulator=quick_simulator(), **options)


def streamed(size: int, array: int) -> Measured:
    """A product of two size x size matrices on an array x array engine."""
    torch.manual_seed(0)
    a, b = torch.rand(size, size) - 0.5, torch.rand(size, size) - 0.5
    return measure(Product(), a, b, multipliers=array * array, lanes=array)


def one_tile(size: int, stages: int) -> Figure:
    """The figure of one N x N x N product; the goal is for one multiplier stage."""
    found = product(size, size, size, stages)
    goal = 3 * size + 2 if stages == 1 else None
    plural = "s" if stages > 1 else ""
    what = f"one {size}x{size}x{size} product, {size}x{size} array, {stages} multiplier stage{plural}"
    return Figure(what, found.cycles, 3 * size - 2, goal, calls=found.calls)


def many_tiles(size: int, array: int) -> list[Figure]:
    """Cycles and useful work of a streamed product."""
    found = streamed(size, array)
    what = f"streamed {size}x{size}x{size}, {array}x{array} array"
    return [
        Figure(what, found.cycles, size**3 // array**2, calls=found.calls),
        Figure(f"{what}: useful multiplier-cycles", found.useful, 100, 99, "%", at_least=True),
    ]


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    sizes = (4, 8) if quick else (4, 8, 16)
    tiles = [one_tile(size, stages) for size in sizes for stages in (1, 2, 3)]
    return tiles + many_tiles(64, 8) + ([] if quick else many_tiles(128, 16))


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
