"""Factors between layers: what the model computes stays, channels of unlike scales are kept, and the hardware
equals its model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.capture import capture
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import normalize
from torchcalyx.quantize.labels import FIXED, label
from torchcalyx.quantize.rescale import rescaled


class Branches(nn.Module):
    """Two layers whose results are added, joined with a third, pooled and flattened."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.c = nn.Conv2d(3, 6, 3, padding=1, groups=3)
        self.last = nn.Linear(10 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat([torch.relu(self.a(x) + self.b(x)), nn.functional.leaky_relu(self.c(x), 0.2)], 1)
        return self.last(nn.functional.max_pool2d(joined, 2).permute(0, 2, 3, 1).flatten(1))


class NormBehindRelu(nn.Module):
    """As in CREPE: the norm cannot be folded into the convolution in front of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.second = nn.ConvTranspose2d(4, 3, 2, stride=2)
        nn.init.uniform_(self.norm.weight, 0.5, 2.0)
        nn.init.uniform_(self.norm.bias, -1.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.norm(torch.relu(self.first(x))).mean(3, keepdim=True))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "branches": (Branches, (1, 3, 4, 4), 10),
    "norm behind ReLU": (NormBehindRelu, (2, 2, 6, 6), 8),
    "perceptron": (perceptron, (3, 6), 8),
    "tied": (lambda: tied(), (3, 6), 0),
}
"""Model, shape of its input, number of free factors."""


def tied() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer)


def normal(net: nn.Module, x: Tensor) -> Graph:
    return normalize(capture(net.eval(), (x,)))


@pytest.mark.parametrize("name", MODELS)
def test_factors_do_not_change_what_the_model_computes(name: str) -> None:
    torch.manual_seed(0)
    make, shape, free = MODELS[name]
    net, x = make().eval(), torch.randn(shape)
    graph = normal(net, x)
    found = label(graph, frozenset())
    used = np.unique(np.concatenate([found.members(n) for n in found.labels]))
    assert len(used) - 1 == free
    factors = np.exp(np.random.default_rng(0).normal(size=found.count))
    factors[FIXED] = 1.0
    scaled = rescaled(graph, found, factors)
    with torch.no_grad():
        wanted = net.double()(x.double()).numpy()
    assert np.allclose(reference(scaled, [x.numpy()])[0], wanted, rtol=1e-5, atol=1e-5)
    inner = [n.name for n in graph.nodes if n.name in found.labels and n.op not in ("input", "constant")]
    old = reference(Graph(graph.nodes, graph.inputs, tuple(inner), graph.constants), [x.numpy()])
    new = reference(Graph(graph.nodes, graph.inputs, tuple(inner), scaled.constants), [x.numpy()])
    for node, before, after in zip(inner, old, new, strict=True):
        assert np.allclose(before * factors[found.labels[node]], after, rtol=1e-4, atol=1e-5), node


def unlike(convolution: bool) -> tuple[nn.Module, Tensor]:
    """Two layers with channels of scales 1e-6 and 1e6 between them, all as important for the result."""
    torch.manual_seed(0)
    scales = torch.tensor([1e-6, 1e6, 1.0, 1e-3] * 2)
    first: nn.Module = nn.Conv2d(6, 8, 1) if convolution else nn.Linear(6, 8)
    last: nn.Module = nn.Conv2d(8, 8, 1) if convolution else nn.Linear(8, 8)
    rest = (1, 1) if convolution else ()
    with torch.no_grad():
        first.weight.mul_(scales.reshape(-1, 1, *rest))
        first.bias.mul_(scales)
        last.weight.div_(scales.reshape(1, -1, *rest))
    shape = (1, 6, 4, 4) if convolution else (4, 6)
    return nn.Sequential(first, nn.ReLU(), last).eval(), torch.randn(shape)


@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize(("precision", "allowed"), [("fixed8", 2e-2), ("fixed16", 2e-4), ("fixed32", 1e-7)])
def test_channels_of_unlike_scales_are_all_kept(convolution: bool, precision: str, allowed: float) -> None:
    net, x = unlike(convolution)
    hw = torchcalyx.compile(net, x, precision=precision, simulator="icarus")
    with torch.no_grad():
        wanted = net.double()(x.double())
    found = hw.emulate(x).double()
    assert float((found - wanted).abs().max() / wanted.abs().max()) < allowed


def test_layers_are_compared_as_they_are_in_hardware() -> None:
    net, x = unlike(False)
    hw = torchcalyx.compile(net, x, simulator="icarus")
    comparison = hw.check(x)
    assert comparison.ok, str(comparison)
    assert "relu" in [layer.name for layer in comparison.layers]
    for layer in comparison.layers:
        assert layer.max_error <= 2e-3 * layer.largest, layer


def test_a_channel_that_was_quiet_in_calibration_keeps_its_room() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(2))
        net[2].weight.fill_(1.0)
    hw = torchcalyx.compile(net, torch.tensor([[1.0, 0.001]]))
    assert float(hw.emulate(torch.tensor([[0.0, 1.0]]))) == pytest.approx(1.0, abs=1e-3)


def test_formats_that_the_user_gives_keep_their_values() -> None:
    net, x = unlike(False)
    plain = torchcalyx.compile(net, x, precision="fixed32.12", on_inaccurate="ignore")
    assert all(
        plain.stages.typed.graph.constants[n] is plain.stages.graph.constants[n]
        for n in plain.stages.graph.constants
    )
