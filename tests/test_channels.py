"""Binary points for each output channel of weights, and formats without sign: right values, the bits of the
hardware, no cycle more.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx import quantize as quantize_room
from torchcalyx.compiled import CompiledModule


def spread(layer: nn.Module, step: float = 0.35) -> nn.Module:
    """The layer with channels of unlike scales."""
    weight = layer.weight
    channels = weight.shape[0]
    assert isinstance(weight, Tensor)
    scales = torch.tensor([step ** (i % 4) for i in range(channels)])
    with torch.no_grad():
        weight.mul_(scales.reshape(-1, *[1] * (weight.dim() - 1)))
    return layer


class Added(nn.Module):
    """A layer, its input added, ReLU."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x) + x)


CASES: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "linear": lambda: (nn.Sequential(spread(nn.Linear(16, 12)), nn.ReLU()), (1, 16)),
    "linear without bias": lambda: (spread(nn.Linear(9, 5, bias=False)), (2, 9)),
    "linear on the systolic array": lambda: (nn.Sequential(spread(nn.Linear(16, 12)), nn.ReLU()), (16, 16)),
    "residual": lambda: (Added(spread(nn.Linear(8, 8))), (3, 8)),
    "leaky": lambda: (nn.Sequential(spread(nn.Linear(8, 8)), nn.LeakyReLU(0.1)), (3, 8)),
    "flattened": lambda: (
        nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Flatten(), spread(nn.Linear(72, 10))),
        (1, 2, 5, 5),
    ),
    "convolution": lambda: (nn.Sequential(spread(nn.Conv2d(8, 9, 3, padding=1)), nn.ReLU()), (1, 8, 4, 4)),
    "few channels": lambda: (nn.Sequential(spread(nn.Conv2d(2, 8, 3, padding=1)), nn.ReLU()), (1, 2, 9, 9)),
    "groups": lambda: (spread(nn.Conv2d(16, 16, 3, groups=2)), (1, 16, 5, 5)),
    "groups with zeros": lambda: (spread(nn.Conv2d(6, 6, 3, groups=3)), (1, 6, 5, 5)),
    "depthwise": lambda: (
        nn.Sequential(spread(nn.Conv2d(8, 8, 3, padding=1, groups=8)), nn.ReLU()),
        (1, 8, 5, 5),
    ),
    "long kernel": lambda: (nn.Sequential(spread(nn.Conv1d(1, 8, 16, stride=4)), nn.ReLU()), (1, 1, 140)),
    "transposed": lambda: (nn.ConvTranspose2d(4, 4, 2, stride=2), (1, 4, 3, 3)),
}


def compiled(name: str, precision: str = "fixed8") -> tuple[CompiledModule, nn.Module, Tensor]:
    torch.manual_seed(0)
    net, shape = CASES[name]()
    x = torch.randn(shape)
    hw = torchcalyx.compile(net.eval(), x, precision=precision, lanes=8, simulator="icarus", multipliers=64)
    return hw, net, x


@pytest.mark.parametrize("name", CASES)
def test_channels_cost_no_cycle_and_hardware_equals_the_model(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, net, x = compiled(name)
    run = hw.simulate(x)
    assert torch.equal(run.outputs, hw.emulate(x))
    assert run.cycles == hw.cycles
    shifted = any("(shifts)" in b.name for b in hw.stages.selection.buffers)
    monkeypatch.setattr(quantize_room, "channel_fracs", lambda graph, precisions, formats: {})
    plain, _, _ = compiled(name)
    assert plain.cycles == hw.cycles
    assert not any("(shifts)" in b.name for b in plain.stages.selection.buffers)
    with torch.no_grad():
        wanted = net(x)
    error, before = (float((h.emulate(x) - wanted).square().mean()) for h in (hw, plain))
    assert shifted == (name != "leaky"), "the drain of a leaky ReLU has no level of logic to spare"
    assert error <= 1.1 * before
