"""Compile a torch module and run it as simulated hardware, checking every call against its models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.errors import ToolNotFound
from torchcalyx.results.report import Report
from torchcalyx.simulate import Simulator
from torchcalyx.tools.toolchain import find_tool


@dataclass(frozen=True)
class Measured:
    """cycles: simulated, the same in each of `calls` calls. report: of the compiled module."""

    cycles: int
    calls: int
    report: Report

    @property
    def useful(self) -> float:
        """Multiply-accumulates in percent of cycles x multipliers."""
        return 100 * self.report.utilisation


def measure(
    module: nn.Module, *inputs: Tensor, simulator: Simulator = "verilator", **options: Any
) -> Measured:
    """Cycles of one call of the hardware, from go to done.

    Asserts that two calls with different inputs, without a reset between them, give the bits of the software
    model and take the predicted number of cycles. options: as of `torchcalyx.compile`.
    """
    hw = torchcalyx.compile(module.eval(), inputs, simulator=simulator, **options)
    vectors = [inputs, tuple(x.flip(0) / 2 for x in inputs)]
    runs = hw.simulate_batch(vectors)
    for vector, result in zip(vectors, runs, strict=True):
        assert torch.equal(result.outputs, hw.emulate(*vector)), "hardware and software model differ"
        assert result.cycles == hw.cycles, f"{result.cycles} cycles simulated, {hw.cycles} predicted"
    return Measured(hw.cycles, len(runs), hw.report())


def quick_simulator() -> Simulator:
    """The simulator for calls of some dozen cycles: Icarus builds in a second, where it is installed."""
    try:
        find_tool("icarus")
    except ToolNotFound:
        return "verilator"
    return "icarus"
