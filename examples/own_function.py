"""A function of one's own: given as numpy code, it becomes a table in hardware, with its error proved.

python examples/own_function.py
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import torchcalyx

# The first has a kink at 0, where tables start anyway; the pole of the second is told.
bell = torchcalyx.function("bell", lambda x: np.exp(-np.abs(x)) * np.cos(3 * x), symmetry="even")
rest = torchcalyx.function("pole", lambda x: 1 / (x - 1) + x, poles=[1.0])


class Model(nn.Module):
    """Both functions between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 6)."""
        return rest(bell(self.second(bell(self.first(x)))) * 0.5)


def main() -> None:
    """Compile, simulate, compare."""
    torch.manual_seed(0)
    x = torch.randn(5, 6)
    hw = torchcalyx.compile(Model().eval(), x)
    comparison = hw.check(x)
    print(comparison)
    assert comparison.ok, "hardware, software model and predicted cycles must agree"
    assert comparison.max_error < 0.01
    print(f"\n{hw.cycles} cycles, max error against PyTorch {comparison.max_error:.1e}")


if __name__ == "__main__":
    main()
