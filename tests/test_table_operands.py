"""A product's result that only a table reads has a bit more than memory would give it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import torchcalyx


class Gate(nn.Module):
    """A layer and a function. shared: the layer's result is an output too."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.shared = nn.Linear(16, 8), shared

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)
        return (nn.functional.gelu(y), y) if self.shared else (nn.functional.gelu(y),)


@pytest.mark.parametrize(("precision", "shared", "width"), [("fixed8", False, 9), ("fixed8", True, 8)])
def test_width(precision: str, shared: bool, width: int) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    hw = torchcalyx.compile(Gate(shared=shared).eval(), x, precision=precision, tolerance=math.inf)
    typed = hw.stages.typed
    assert [typed.formats[n.name].width for n in typed.graph.nodes if n.op == "linear"] == [width]


def test_wider_precisions_keep_theirs() -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    hw = torchcalyx.compile(Gate(shared=False).eval(), x, precision="fixed16", tolerance=math.inf)
    product = next(n for n in hw.stages.typed.graph.nodes if n.op == "linear")
    assert product.name not in hw.stages.typed.stored


@pytest.mark.needs("calyx", "verilator")
def test_hardware_equals_its_model_and_float64() -> None:
    net = Gate(shared=False).eval()
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    hw = torchcalyx.compile(net, x, precision="fixed8", tolerance=math.inf)
    run = hw.simulate(x)
    (found,) = run.outputs
    assert torch.equal(found, hw.emulate(x)[0])
    assert run.cycles == hw.cycles
    (wanted,) = net.double()(x.double())
    assert (found - wanted).abs().max() < 0.03
