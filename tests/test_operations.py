"""Every operation through the whole compiler and the simulated hardware, on awkward small shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.models import agree

pytestmark = pytest.mark.needs("calyx", "calyx-py", "verilator")


def _real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).clamp(-3, 3)


def _ints(*shape: int) -> torch.Tensor:
    return torch.randint(-100, 100, shape)


def _in_place(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    old = y
    y.relu_()
    y[:, 1:3] += 1
    return old, y - x


Case = tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]

CASES: dict[str, Case] = {
    "add": (lambda x, y: x + y, lambda: (_real(3, 5), _real(3, 5))),
    "add, alpha": (lambda x, y: torch.add(x, y, alpha=0.5), lambda: (_real(3, 5), _real(3, 5))),
    "mul broadcasts columns": (lambda x, y: x * y + 1, lambda: (_real(3, 5), _real(3, 1))),
    "sub broadcasts both": (lambda x, y: x - y, lambda: (_real(3, 1), _real(1, 5))),
    "columns only": (lambda x, y: x * y, lambda: (_real(5, 1), _real(5, 1))),
    "scalars": (lambda x: torch.relu(x * 0.3 - 0.1), lambda: (_real(17),)),
    "scalar on the left": (lambda x: 1 - 2 * x, lambda: (_real(9),)),
    "square": (lambda x: x * x + x.square(), lambda: (_real(4, 4).clamp(-1, 1),)),
    "clamp": (lambda x: x.clamp(-0.5, 0.7), lambda: (_real(5, 6),)),
    "clamp one side": (lambda x: x.clamp(min=0.25), lambda: (_real(5, 6),)),
    "relu6": (lambda x: F.relu6(x * 4), lambda: (_real(5, 6),)),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.1), lambda: (_real(5, 6),)),
    "neg abs sign": (lambda x: -x.abs() + torch.sign(x), lambda: (_real(5, 6),)),
    "minimum maximum": (
        lambda x, y: (torch.minimum(x, y), torch.maximum(x, y)),
        lambda: (_real(2, 7), _real(2, 7)),
    ),
    "compare": (
        lambda x, y: (x > y, x >= y, x < y, x <= y, x == y, x != y),
        lambda: (_real(2, 7), _real(2, 7)),
    ),
    "logic": (lambda x, y: (x > 0) & ~(y > 0) | (x > 1) ^ (y > 1), lambda: (_real(2, 7), _real(2, 7))),
    "where": (lambda x, y: torch.where(x > y, x, -y), lambda: (_real(5, 6), _real(5, 6))),
    "masked fill": (lambda x: x.masked_fill(x > 0.5, -1.0), lambda: (_real(5, 6),)),
    "threshold": (lambda x: F.threshold(x, 0.1, 2.0), lambda: (_real(5, 6),)),
    "prelu": (nn.PReLU(6), lambda: (_real(5, 6),)),
    "div by a constant": (lambda x: x / 3, lambda: (_real(5, 6),)),
    "int arithmetic": (lambda x: x * 3 + 2, lambda: (_ints(11),)),
    "int floor division": (lambda x: (x // 3, x % 4, x // -7), lambda: (_ints(30),)),
    "int bits": (lambda x, y: (x & y, x | y, x ^ y, ~x), lambda: (_ints(9), _ints(9))),
    "casts": (lambda x: ((x * 4).to(torch.int32), x.bool(), (x > 0).float()), lambda: (_real(5, 6),)),
    "permute": (lambda x: torch.relu(x.permute(2, 0, 1)) * 2, lambda: (_real(3, 5, 8),)),
    "transpose and add": (lambda x, y: x.t() + y, lambda: (_real(3, 5), _real(5, 3))),
    "reshape": (lambda x: torch.relu(x.reshape(10, 3)), lambda: (_real(5, 6),)),
    "flatten": (lambda x: torch.relu(x.flatten(1)), lambda: (_real(2, 3, 5),)),
    "slices of one tensor": (lambda x: x[:, 1:] - x[:, :-1], lambda: (_real(3, 6),)),
    "slice steps": (lambda x: x[::2, 1::3] * 2, lambda: (_real(5, 11),)),
    "select": (lambda x: x[1] + x[:, -1].sum(), lambda: (_real(4, 6),)),
    "flip": (lambda x: x.flip(0, 1) + x, lambda: (_real(5, 6),)),
    "roll": (lambda x: x.roll(2, 1) + 0.5, lambda: (_real(5, 6),)),
    "cat": (lambda x, y: torch.cat([x, y], 1), lambda: (_real(6, 3), _real(6, 5))),
    "cat rows": (lambda x, y: torch.cat([x, y, x], 0), lambda: (_real(6, 3), _real(2, 3))),
    "stack": (lambda x, y: torch.stack([x, y], 1), lambda: (_real(6, 3), _real(6, 3))),
    "split": (lambda x: x.split(4, 1)[1] * 2, lambda: (_real(3, 10),)),
    "chunk and unbind": (lambda x: x.chunk(3, 1)[0].unbind(0)[1] + 1, lambda: (_real(3, 10),)),
    "expand": (lambda x: x.expand(4, 3, 5) + 1, lambda: (_real(3, 1),)),
    "repeat": (lambda x: x.repeat(2, 3), lambda: (_real(2, 3),)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), lambda: (_real(5, 6),)),
    "negative pad": (lambda x: F.pad(x, (-1, 2)), lambda: (_real(5, 6),)),
    "squeeze unsqueeze": (lambda x: x.squeeze(1).unsqueeze(0) * 2, lambda: (_real(5, 1, 6),)),
    "matmul": (lambda x, y: x @ y, lambda: (_real(9, 12), _real(12, 10))),
    "matmul transposed right": (lambda x, y: x @ y.t(), lambda: (_real(9, 12), _real(10, 12))),
    "matmul transposed left": (lambda x, y: x.t() @ y, lambda: (_real(12, 9), _real(12, 10))),
    "batched matmul": (lambda x, y: torch.relu(x @ y) + 1, lambda: (_real(2, 3, 12), _real(2, 12, 10))),
    "matmul broadcasts batches": (lambda x, y: x @ y, lambda: (_real(2, 3, 12), _real(12, 10))),
    "matrix with itself": (lambda x: x @ x.t(), lambda: (_real(6, 12),)),
    "matrix times vector": (lambda x, y: x @ y, lambda: (_real(6, 12), _real(12))),
    "dot": (lambda x, y: torch.dot(x, y), lambda: (_real(12), _real(12))),
    "addmm": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5),
        lambda: (_real(3, 5), _real(3, 4), _real(4, 5)),
    ),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), lambda: (_real(2, 3, 4), _real(2, 5, 4))),
    "linear": (nn.Linear(13, 7), lambda: (_real(3, 13),)),
    "linear without bias on 3-D": (nn.Linear(8, 5, bias=False), lambda: (_real(2, 3, 8),)),
    "linear on a vector": (nn.Linear(5, 1), lambda: (_real(5),)),
    "linear of one feature": (
        nn.Sequential(nn.Linear(8, 1), nn.ReLU(), nn.Linear(1, 4)),
        lambda: (_real(5, 8),),
    ),
    "residual linear": (lambda x, w: torch.relu(F.linear(x, w) + x), lambda: (_real(3, 8), _real(8, 8))),
    "sum": (lambda x: x.sum(1), lambda: (_real(5, 6),)),
    "sum of everything": (lambda x: x.sum(), lambda: (_real(5, 6),)),
    "sum of integers": (lambda x: x.sum(0), lambda: (_ints(5, 6),)),
    "mean": (lambda x: x.mean(0, keepdim=True) * 2, lambda: (_real(5, 6),)),
    "mean of squares": (lambda x: (x * x).mean(-1), lambda: (_real(5, 6, 3),)),
    "amax": (lambda x: x.amax((0, 2), keepdim=True), lambda: (_real(5, 6, 3),)),
    "amin": (lambda x: x.amin(1), lambda: (_real(5, 6, 3),)),
    "any all": (lambda x: ((x > 0.5).any(1), (x > -2).all(0)), lambda: (_real(5, 6),)),
    "centred": (lambda x: x - x.mean(1, keepdim=True), lambda: (_real(5, 6),)),
    "0-d": (lambda s, x: s * x + x.sum(), lambda: (_real(1)[0], _real(5))),
    "dict of results": (lambda x, y: {"a": x, "b": (x + y, y.t())}, lambda: (_real(5, 6), _real(5, 6))),
    "constant result": (lambda x: (x + 1, torch.ones(3), 4), lambda: (_real(5, 6),)),
    "input returned": (lambda x: x, lambda: (_real(5, 6),)),
    "argmax argmin": (lambda x: (x.argmax(1), x.argmin(0), x.argmax()), lambda: (_real(5, 6),)),
    "max with indices": (lambda x: x.max(1), lambda: (_real(5, 6),)),
    "prod": (lambda x: x.prod(1), lambda: (_real(5, 4).clamp(-1, 1),)),
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(1) * 0.5), lambda: (_real(5, 6),)),
    "in place on an alias": (_in_place, lambda: (_real(5, 6),)),
    "batch norm": (nn.BatchNorm1d(6), lambda: (_real(5, 6),)),
    "softmax": (lambda x: x.softmax(-1), lambda: (_real(3, 6),)),
    "layer norm": (nn.LayerNorm(6), lambda: (_real(3, 6),)),
    "convolution": (nn.Conv2d(3, 4, 3, 2, 1, dilation=2), lambda: (_real(1, 3, 9, 8),)),
    "grouped convolution": (nn.Conv2d(4, 6, (2, 3), groups=2), lambda: (_real(1, 4, 6, 6),)),
    "depthwise convolution": (nn.Conv2d(4, 4, 3, padding=1, groups=4), lambda: (_real(1, 4, 5, 5),)),
    "transposed convolution": (
        nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        lambda: (_real(1, 3, 4, 4),),
    ),
    "max pool": (nn.MaxPool2d(3, 2, 1, ceil_mode=True), lambda: (_real(1, 3, 6, 6) - 5,)),
    "average pool": (nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), lambda: (_real(1, 3, 7, 7),)),
    "upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), lambda: (_real(1, 3, 4, 3),)),
    "unused input": (lambda x, y: x * 2, lambda: (_real(3), _real(4))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str) -> None:
    torch.manual_seed(7)
    function, make = CASES[name]
    agree(function, make(), atol=4e-3, again=[make()], multipliers=16)


@pytest.mark.parametrize("lanes", [1, 2, 3, 8])
def test_any_lane_count(lanes: int) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3))
    agree(model, (_real(4, 7),), atol=4e-3, lanes=lanes, multipliers=max(lanes * lanes, lanes))


def test_integers_are_exact_to_64_bits() -> None:
    big = torch.tensor([2**31 - 1, -(2**31), 12345])
    agree(lambda x, y: x * y + 1, (big, big.flip(0)), atol=0)
