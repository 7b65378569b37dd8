"""A kernel and a rule of one's own, without touching the package: a running sum over time.

The rules in `Options.rules` are tried before the built-in ones, so this is also how a kernel is replaced by
a better one. The numbers (1) to (6) are the steps of `kernels/README.md`.

    python examples/own_kernel.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Value, narrowing
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.kernels.contract import Cost, Emulated, KernelParameterError, Port
from torchcalyx.kernels.engine.spec import EngineSpec
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.kernels.ports.stage import Stage, read_operand, reading_mode, writing_refusal
from torchcalyx.kernels.rtl.hw import Component, Program, digest
from torchcalyx.kernels.rtl.loops import Loop, Nest
from torchcalyx.match import Match, Reject, Rule


@dataclass(frozen=True)
class RunningSum:  # (1) a frozen dataclass: equal parameters are one component
    """y[t, c] = x[0, c] + ... + x[t, c], summed exactly and narrowed when written."""

    x: Operand
    y: Operand
    family = "running_sum"

    def __post_init__(self) -> None:  # (2) refuse what the hardware below cannot do
        problem = writing_refusal(self.y, 1) or reading_mode(self.x, 1)
        if problem != "vector":
            raise KernelParameterError(f"running sum over {self.x.access.sizes}: {problem}")

    @property
    def total(self) -> Value:
        """The accumulator, so wide that no input overflows it."""
        times = self.x.access.sizes[0]
        return Value(self.x.fmt.frac, times * self.x.fmt.min, times * self.x.fmt.max)

    @property
    def stage(self) -> Stage:
        """The writing end. Loops: words of channels outside, time inside."""
        times, channels = self.y.access.sizes
        loops = (Loop(-(-channels // self.y.layout.lanes), 1, self.y.layout.lanes), Loop(times, 0))
        return Stage(narrowing(self.total, self.y.fmt), (None,), self.y, 1, loops)

    def ports(self) -> tuple[Port, ...]:
        """Memories, the ones that are read first."""
        return (Port("x", self.x, "read"), Port("y", self.y, "write"))

    def engine(self) -> None:
        """Nothing is multiplied."""

    def cycles(self) -> int:  # (3) exact: the simulated count must equal it
        """A cycle a word, one to read the last one, then the writing end."""
        return self.stage.steps + 1 + self.stage.depth

    def useful_operations(self) -> int:
        """Elements, for the utilisation in the report."""
        return self.x.access.sizes[0] * self.x.access.sizes[1]

    def cost(self) -> Cost:
        """One adder and one accumulator a lane."""
        return Cost(adders=self.y.layout.lanes, register_bits=self.y.layout.lanes * self.total.width)

    def emulate(self, *arrays: IntArray) -> Emulated:  # (4) the meaning, to the bit
        """Stored integers (rows, columns) of each memory in and out."""
        sums, saturated = self.stage.expr.emulate([np.cumsum(self.x.access.read(arrays[0]), axis=0)])
        y = np.zeros((self.y.layout.rows, self.y.layout.cols), dtype=np.int64)
        self.y.access.write(y, sums)
        return Emulated((y,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """(5) The hardware: one accumulator a lane, which starts again where time starts again."""
        name = f"running_sum_{digest((self, sorted(words.items())))}"
        if found := prog.find(name):
            return found
        c = prog.component(name, latency=self.cycles())
        x, y = (c.memory_ref(port.name, port.operand.width, words[port.name]) for port in self.ports())
        step = c.run(self.stage.steps, 1 + self.stage.depth)  # 1 while the loops run
        nest = Nest(c, [loop.size for loop in self.stage.loops], step)
        elements = read_operand(c, nest, self.stage.loops, self.x, x, vector=True)
        valid, begins = c.delay(step, 1), c.delay(nest.first(1), 1)  # data come one cycle after their step
        width = self.total.width
        sums = []
        for element in elements:
            total = c.register(width)
            sums.append(c.add(c.mux(begins, c.const(0, width), total.q), element, width))
            total.set(sums[-1], valid)
        self.stage.build(c, valid, {0: sums}, {}, y)
        return c


def running_sum(view: GraphView, node: Node) -> Match | Reject:  # (6) when it applies, what it connects
    """Rule for a running sum over the first of two axes."""
    if node.op != "cumsum" or len(node.shape) != 2 or node.attr("dim") != 0 or node.shape[1] == 1:
        return Reject(f"{node.op} of shape {list(node.shape)} is no running sum over rows of channels")

    def build(builder: SelectionBuilder) -> Located:
        layout = row_major(node.shape, builder.lanes)
        value = builder.value(node.args[0])
        if reading_mode(builder.operand(value), 1) != "vector":
            value = builder.relayout(value, layout, node.shape, "it is read a word of channels a cycle")
        out = Operand(view.formats[node.name], layout, whole(node.shape, layout))
        buffer = builder.buffer(node.name, out.fmt, layout)
        builder.call(RunningSum(builder.operand(value), out), [value.buffer], [buffer])
        return Located(buffer, out.access, out.fmt)

    return Match((node.name,), node.args, build)


class Means(nn.Module):
    """The mean of each channel over all moments so far."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (time, channels)."""
        return torch.cumsum(x, 0) / torch.arange(1, x.shape[0] + 1).unsqueeze(1)


def main() -> None:
    """Compile, simulate, compare."""
    torch.manual_seed(0)
    x = torch.randn(20, 11)
    hw = torchcalyx.compile(Means().eval(), x, rules=(Rule("running sum", running_sum),))
    print(hw.explain())
    comparison = hw.check(x)
    print(f"\n{comparison}")
    assert comparison.ok, "hardware, software model and predicted cycles must agree"
    assert hw.report().calls[0].kernel == "running_sum"
    assert comparison.max_error < 0.01
    print(f"\n{hw.cycles} cycles, max error against PyTorch {comparison.max_error:.1e}")


if __name__ == "__main__":
    main()
