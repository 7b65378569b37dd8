"""CPU seconds to turn a systolic engine into a simulator: Calyx, then Verilator and the C++ compiler.

    python benchmarks/engine_build.py [N ...]

For each N, a product of two N x N matrices on an N x N array (N * N multipliers). Counted are child processes
only, in a cache of its own, so nothing is reused; Verilator's C++ runtime, which is compiled once a machine,
stands in a line of its own. The bound of one product is 3N - 2 cycles.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable

import torch
from torch import Tensor, nn

import torchcalyx


class Product(nn.Module):
    """a @ b, both given at run time."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a, b: (N, N)."""
        return a @ b


def child_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of the child processes that `work` starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def build(size: int) -> tuple[float, float, int, int]:
    """CPU seconds in Calyx and in the simulator's build, cycles, multipliers; asserts the result."""
    torch.manual_seed(0)
    inputs = torch.rand(size, size), torch.rand(size, size)
    hw = torchcalyx.compile(Product().eval(), inputs, multipliers=size * size, lanes=size)
    calyx = child_seconds(lambda: hw.verilog)
    runs = []
    simulator = child_seconds(lambda: runs.append(hw.simulate(*inputs)))
    assert runs[0].cycles == hw.cycles
    assert torch.equal(runs[0].outputs, hw.emulate(*inputs))
    return calyx, simulator, runs[0].cycles, hw.report().multipliers


def main(*sizes: int) -> None:
    """Print one line for each size."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHCALYX_CACHE"] = cache
        _, runtime, _, _ = build(1)
        print(f"Verilator's runtime and a 1x1 engine: {runtime:.1f} s CPU")
        for size in sizes or (8, 16):
            calyx, simulator, cycles, multipliers = build(size)
            print(
                f"{size}x{size} engine ({multipliers} multipliers): {calyx + simulator:.1f} s CPU "
                f"(Calyx {calyx:.2f} s, Verilator and C++ {simulator:.1f} s), "
                f"one product {cycles} cycles (3N-2 = {3 * size - 2})"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
