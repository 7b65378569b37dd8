"""`python -m tests.same_program FOLDER [--reversed]`: compile varied models and write what they became.

Two processes whose string hashes and addresses differ, and which compile in another order, must write the
same bytes (tests/test_same_program.py).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torchcalyx
from tests.models import Function
from tests.networks import ResNet8
from torchcalyx.host import store_inputs
from torchcalyx.plan.images import input_images


class Exponential(nn.Module):
    """`exp` as a module: PyTorch has none."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(x)


def chain() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Many nonlinear functions in one pipeline."""
    layers = (nn.Tanh(), Exponential(), Function(torch.sqrt), Function(torch.log), nn.GELU(), nn.Sigmoid())
    more = (nn.Softplus(), Function(torch.rsqrt), Function(torch.sin), nn.SiLU(), Function(torch.erf))
    return nn.Sequential(*layers, *more), (torch.randn(2, 8),), {}


def branches() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Functions beside each other, several outputs, one constant for two readers."""

    def forward(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        a, b = torch.exp(x) + torch.tanh(y), torch.sigmoid(x) * torch.cos(y)
        return {"sum": a + b, "ratio": a / (b.abs() + 1), "log": torch.log1p(a * a), "most": a.argmax(-1)}

    return Function(forward), (torch.randn(4, 6), torch.randn(4, 6)), {}


def attention() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A transformer's encoder layer with a causal mask."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    mask = torch.full((4, 4), -1e9).triu(1)
    return Function(lambda x: layer(x, src_mask=mask)), (torch.randn(1, 4, 8),), {}


def convolutions() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A small residual network at eight bits: moved factors, a format for each channel."""
    return ResNet8(4), (torch.randn(1, 3, 8, 8),), {"precision": "fixed8"}


def recurrent() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A bidirectional GRU of two layers."""
    return nn.GRU(4, 6, num_layers=2, bidirectional=True), (torch.randn(3, 1, 4),), {}


def norms() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Layer, group and rms norm, and statistics by hand."""

    def forward(x: Tensor) -> Tensor:
        y = F.layer_norm(x, (8,)) + F.rms_norm(x, (8,)) + F.group_norm(x, 2)
        return F.normalize((y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1), dim=-1)

    return Function(forward), (torch.randn(4, 8),), {}


def integers() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Integers, bools, indexing, sums along several axes."""

    def forward(x: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
        kept = torch.where(keep, x * 3, x.roll(1, 0))
        return kept.cumsum(0), kept.sum((0, 1)), kept.amax(1), (kept > 2).any(0), x.prod(-1)

    return Function(forward), (torch.randint(-9, 9, (3, 4)), torch.rand(3, 4) > 0.5), {}


def automatic() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Widths searched tensor by tensor."""
    net = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 8), nn.Softmax(-1))
    return net, (torch.randn(4, 8),), {"precision": "auto"}


MODELS: tuple[Callable[[], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]], ...] = (
    *(chain, branches, attention, convolutions, recurrent, norms, integers, automatic),
)


def main(folder: Path, *flags: str) -> None:
    """Write for each model its program, the images of its memories, and what the user is told."""
    for make in reversed(MODELS) if "--reversed" in flags else MODELS:
        torch.manual_seed(0)
        module, inputs, options = make()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            hw = torchcalyx.compile(module.eval(), inputs, **options)
        write(folder / make.__name__, hw, [str(warning.message) for warning in told])


def write(folder: Path, hw: torchcalyx.CompiledModule, told: list[str]) -> None:
    """One model. told: its warnings."""
    s = hw.stages
    arrays = store_inputs(s.selection, [i.path for i in s.captured.tensor_inputs], s.example).arrays
    images = {**s.design.weights, **input_images(s.selection, s.plan, arrays)}
    texts = {"program.futil": hw.futil, "report.txt": hw.report(), "explain.txt": hw.explain()}
    texts |= {"typed.txt": s.typed, "selection.txt": s.selection, "plan.txt": s.plan}
    texts["order.txt"] = "\n".join([*map(str, s.design.memories), *images, *told])
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    for name, image in images.items():
        (folder / f"{name}.bin").write_bytes(image.tobytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
