"""Convolutional networks and pooling: cycles.

    python -m benchmarks.convolution [--quick]

Bound of a network: multiply-accumulates / multipliers, those of depthwise convolutions / lanes (a depthwise
convolution contracts nothing an array could share). Bound of a pool: words read. Weights are random: no cycle
depends on them; CREPE with its own is `examples/crepe_pitch.py`. Simulators of 256 multipliers take half a
minute each to build: --quick leaves them out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.figures import Figure, run
from benchmarks.measure import measure
from examples.crepe_pitch import FRAME, Crepe
from tests.networks import InvertedResidual, KeywordSpotter, PaperCnn, ResNet8, UNet, example, trained_like

TITLE = "Convolutional networks, 16 bits"


@dataclass(frozen=True)
class Network:
    """What is measured. ratio: cycles / bound to reach, None for a figure that is only stated."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    multipliers: int
    ratio: float | None = None

    @property
    def lanes(self) -> int:
        """Elements of a memory word: those of the compiler's own choice for these budgets."""
        return int(self.multipliers**0.5)

    def bound(self) -> int:
        """Cycles that no hardware of this size and these lanes can pass."""
        dense, depthwise = operations(self.make(), torch.zeros(self.shape))
        return -(-dense // self.multipliers) + -(-depthwise // self.lanes)


NETWORKS = (
    Network("paper's CNN, 64 multipliers", PaperCnn, (1, 3, 80, 60), 64, 1.25),
    Network("CREPE tiny, 256 multipliers", Crepe, (1, 1, FRAME, 1), 256, 1.2),
    Network("ResNet-8 32x32, 256 multipliers", ResNet8, (1, 3, 32, 32), 256, 1.2),
    Network("MobileNetV2 block 14x14x64, 256 multipliers", InvertedResidual, (1, 64, 14, 14), 256, 1.25),
    Network("DS-CNN 49x10, 256 multipliers", KeywordSpotter, (1, 1, 49, 10), 256),
    Network("U-Net 32x32, 64 multipliers", UNet, (1, 1, 32, 32), 64),
)
POOLS: dict[str, nn.Module] = {"max": nn.MaxPool2d(2), "average": nn.AvgPool2d(2)}
POOLED, POOL_LANES, POOL_RATIO = (1, 16, 32, 32), 8, 1.1


def operations(module: nn.Module, x: Tensor) -> tuple[int, int]:
    """Multiply-accumulates of one call by convolutions and linear layers: dense ones, depthwise ones."""
    found = [0, 0]

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        weight: Any = layer.weight
        if isinstance(layer, nn.ConvTranspose2d):  # each input element meets every weight of its channel
            found[0] += inputs[0].numel() * prod(weight.shape[1:])
        else:
            depthwise = isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels > 1
            found[depthwise] += output.numel() * prod(weight.shape[1:])

    layers = (m for m in module.modules() if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)))
    handles = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        module.eval()(x)
    for handle in handles:
        handle.remove()
    return found[0], found[1]


def network_figure(network: Network) -> Figure:
    """One network, simulated and compared."""
    found = measure(trained_like(network.make), example(network.shape), multipliers=network.multipliers)
    bound = network.bound()
    goal = None if network.ratio is None else int(bound * network.ratio)
    return Figure(network.name, found.cycles, bound, goal, calls=found.calls)


def pool_figure(name: str) -> Figure:
    """One 2x2 pool, simulated and compared."""
    found = measure(POOLS[name], example(POOLED), multipliers=POOL_LANES, lanes=POOL_LANES)
    bound = prod(POOLED) // POOL_LANES
    what = f"{name} pool 2x2, {POOLED[2]}x{POOLED[3]}x{POOLED[1]}, {POOL_LANES} lanes"
    return Figure(what, found.cycles, bound, int(bound * POOL_RATIO), calls=found.calls)


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    pools = [pool_figure(name) for name in POOLS]
    return [*pools, *(network_figure(n) for n in NETWORKS[: 1 if quick else None])]


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
