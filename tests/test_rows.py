"""Losses, distances and other folds of rows through the whole compiler and the simulated hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torchcalyx
from tests.models import Function, agree
from torchcalyx.errors import InputError, UnsupportedOpError

pytestmark = pytest.mark.needs("calyx", "calyx-py", "verilator")

Case = tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]], float]

WEIGHT = torch.tensor([0.5, 1.0, 0.25, 2.0, 1.5])


def _classes(count: int) -> torch.Tensor:
    return torch.arange(count).mul(7).remainder(5)


def _unlike(rows: int, size: int) -> torch.Tensor:
    """Rows of unlike scale."""
    return torch.randn(rows, size) * torch.logspace(0, -2, rows)[:, None]


CASES: dict[str, Case] = {
    "cross entropy": (
        lambda x, y: F.cross_entropy(x, y, WEIGHT, label_smoothing=0.1, reduction="none"),
        lambda: (torch.randn(4, 5), _classes(4)),
        5e-4,
    ),
    "nll of planes": (
        lambda x, y: F.nll_loss(x, y, WEIGHT, ignore_index=3),
        lambda: (torch.randn(2, 5, 3), _classes(6).reshape(2, 3)),
        5e-4,
    ),
    "multilabel margin": (
        F.multilabel_margin_loss,
        lambda: (torch.randn(2, 4), torch.tensor([[3, 0, -1, 1], [2, 1, 0, -1]])),
        2e-4,
    ),
    "distances of unlike rows": (torch.cdist, lambda: (_unlike(3, 6), _unlike(4, 6)), 5e-4),
    "running logarithm of sums": (lambda x: x.logcumsumexp(1), lambda: (8 * torch.randn(3, 9),), 4e-3),
    "running product": (lambda x: x.cumprod(0), lambda: (torch.randn(7, 3),), 2e-3),
    "product of many": (lambda x: (1 + x / 32).prod(), lambda: (torch.randn(9, 15),), 2e-3),
    "fake quantisation": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 9),
        lambda: (torch.randint(-30, 31, (5, 9)) / 8,),
        0.0,
    ),
    "batch norm with computed scale": (
        lambda x, w: F.batch_norm(x, WEIGHT, WEIGHT, w, WEIGHT),
        lambda: (torch.randn(3, 5, 2), torch.randn(5)),
        2e-3,
    ),
    "masked extremes": (
        lambda x, m: (torch.masked.amax(x, 1, mask=m), torch.masked.argmin(x, 1, mask=m)),
        lambda: (torch.randn(4, 9), torch.arange(36).reshape(4, 9) % 3 != 1),
        1e-3,
    ),
    "soft margin": (
        lambda x, y: F.soft_margin_loss(x, y, reduction="none"),
        lambda: (torch.tensor([-20.0, -3.0, 0.0, 2.0, 25.0]), torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0])),
        1e-3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name: str) -> None:
    torch.manual_seed(0)
    function, inputs, tolerance = CASES[name]
    agree(function, inputs(), tolerance)


def test_a_row_without_any_element_has_no_extreme() -> None:
    x, mask = torch.randn(2, 4), torch.tensor([[True] * 4, [False, True, True, False]])
    hw = torchcalyx.compile(Function(lambda x, m: torch.masked.amax(x, 1, mask=m)), (x, mask))
    with pytest.raises(InputError, match=r"leaves nothing of row \[1\].*torch gives an infinity there"):
        hw.emulate(x, mask & torch.tensor([[True], [False]]))
    some = torch.tensor([[False], [True]]).expand(2, 4)
    nothing = Function(lambda x: torch.masked.amax(x, 1, mask=some))
    with pytest.raises(UnsupportedOpError, match=r"the mask in front of the extreme .* nothing of row \[0\]"):
        torchcalyx.compile(nothing, x)
