"""`precision="auto"` against every uniform width, with torch as the only judge, and what registers cost."""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx import options

WIDTHS = (*range(4, 17), 20, 24, 32)
TOLERANCES = (2.0**-5, 0.01, 1e-3)


def trained_mlp() -> tuple[nn.Module, list[Tensor]]:
    """Hidden units of unlike scale, as training leaves them."""
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 12), nn.Tanh(), nn.Linear(12, 10)).eval()
    with torch.no_grad():
        net[0].weight.mul_(torch.logspace(-1, 1, 24)[:, None])  # type: ignore[operator]
    return net, [torch.randn(1, 16) for _ in range(24)]


def trained_cnn() -> tuple[nn.Module, list[Tensor]]:
    """Convolutions, batch norm, pools, a linear layer."""
    torch.manual_seed(3)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 2 * 2, 10),
    ).eval()
    with torch.no_grad():
        net[1].running_var.uniform_(0.2, 3)  # type: ignore[union-attr,operator]
    return net, [torch.rand(1, 1, 12, 12) for _ in range(12)]


MODELS = {"mlp": trained_mlp, "cnn": trained_cnn}


def error(net: nn.Module, hw: torchcalyx.CompiledModule, inputs: Sequence[Tensor]) -> float:
    """Greatest error of the software model against float64, relative to the largest output."""
    exact = copy.deepcopy(net).double()
    with torch.no_grad():
        wanted = torch.cat([exact(x.double()) for x in inputs])
    found = torch.cat([hw.emulate(x).double() for x in inputs])
    return ((found - wanted).abs().max() / wanted.abs().max()).item()


def memory(hw: torchcalyx.CompiledModule) -> int:
    """Bits of all memories of the program, as the text of the program declares them."""
    found = re.findall(r"seq_mem_d1\((\d+), (\d+), \d+\)", hw.futil)
    return sum(int(width) * int(words) for width, words in found)


@pytest.mark.parametrize("model", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
def test_auto_takes_no_more_memory_than_any_uniform_width(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "PRECISIONS", {f"fixed{w}": w for w in WIDTHS})
    net, inputs = MODELS[model]()
    with torch.no_grad():
        assert torch.cat([net(x) for x in inputs]).std() > 0
    common = {"calibration": inputs, "on_saturation": "ignore"}
    uniform = {
        w: torchcalyx.compile(net, inputs[0], precision=f"fixed{w}", tolerance=math.inf, **common)
        for w in WIDTHS
    }
    errors = {w: error(net, hw, inputs) for w, hw in uniform.items()}
    assert {hw.stages.typed.formats[n].width for hw in (uniform[5],) for n in hw.stages.graph.inputs} == {5}
    for tolerance in TOLERANCES:
        hw = torchcalyx.compile(net, inputs[0], precision="auto", tolerance=tolerance, **common)
        accuracy = hw.report().accuracy
        assert accuracy is not None and accuracy.trials <= 12
        assert error(net, hw, inputs) <= tolerance
        keeping = {w: memory(uniform[w]) for w in WIDTHS if errors[w] <= tolerance}
        assert keeping and memory(hw) < min(keeping.values()), (tolerance, keeping)
        assert accuracy.memory_bits[1] == sum(hw.report().memory_bits.values())
        widths = {hw.stages.typed.formats[t.name].width for t in accuracy.tensors}
        assert len(widths) > 1 and min(widths) >= 4 and max(widths) <= 32


def pipeline_bits(hw: torchcalyx.CompiledModule) -> int:
    """Bits of the registers in the lanes of all kernels, counted in the text of the program."""
    components = re.split(r"\n(?=(?:static(?:<\d+>)? |comb )?component )", hw.futil)
    lanes, total = {}, 0
    for text in components:
        name = re.search(r"component (\w+)", text)
        if name is not None and name[1].startswith("lane_"):
            lanes[name[1]] = sum(int(w) * int(n) for w, n in re.findall(r"= pipe\((\d+), (\d+)\)", text))
    for text in components:
        used = Counter(re.findall(r"= (lane_\w+)\(\)", text))
        total += sum(lanes[lane] * count for lane, count in used.items())
    return total


class Wide(nn.Module):
    """An elementwise chain whose intermediates are wider than what memory holds."""

    def forward(self, x: Tensor) -> Tensor:
        """x: any shape."""
        y = (x * x + 0.001) * x
        return y * torch.rsqrt(y * y + 0.5)


def test_registers_are_those_of_the_program() -> None:
    x = torch.randn(4, 16)
    hw = torchcalyx.compile(Wide().eval(), x, share=True)
    (call,) = hw.report().calls
    assert call.register_bits == hw.report().register_bits == pipeline_bits(hw) > 0
    values = hw.report().to_json()
    assert f'"register_bits": {call.register_bits}' in values


def test_wider_tensors_show_what_their_intermediates_cost() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    narrow, wide = (
        torchcalyx.compile(Wide().eval(), x, precision=p, tolerance=math.inf) for p in ("fixed8", "fixed16")
    )
    assert narrow.report().register_bits == pipeline_bits(narrow)
    assert narrow.report().register_bits < wide.report().register_bits
    widened = torchcalyx.compile(Wide().eval(), x, precision="fixed8", tolerance=1e-3)
    accuracy = widened.report().accuracy
    assert accuracy is not None
    assert accuracy.register_bits == (pipeline_bits(narrow), pipeline_bits(widened))
