"""Order through the whole compiler and the simulated hardware: results are torch's, ties included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchcalyx
from tests.models import Function, agree

pytestmark = pytest.mark.needs("calyx", "calyx-py", "verilator")

Case = tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]


def _few(*shape: int) -> torch.Tensor:
    """So few values that rows hold equal ones; exact in 16 bits."""
    return torch.randint(-4, 5, shape).float() / 2


CASES: dict[str, Case] = {
    "sort": (lambda x: torch.sort(x, stable=True), lambda: (_few(3, 21),)),
    "sort columns, descending": (
        lambda x: torch.sort(x, dim=0, descending=True, stable=True),
        lambda: (_few(19, 3),),
    ),
    "sort the middle": (lambda x: x.sort(1)[0], lambda: (_few(2, 9, 5),)),
    "sort whole numbers": (lambda x: x.sort(stable=True), lambda: (torch.randint(-9, 9, (2, 33)),)),
    "sort a slice of a transposed sum": (
        lambda x: (x + x).t()[1:4, 1:].sort(stable=True)[1],
        lambda: (_few(11, 6),),
    ),
    "topk": (lambda x: (x + torch.arange(9) * 8).topk(3), lambda: (_few(4, 9),)),
    "mode": (lambda x: x.mode(1), lambda: (_few(3, 14),)),
    "cummax and cummin": (lambda x: (*x.cummax(1), *x.cummin(0)), lambda: (_few(4, 11),)),
    "median": (lambda x: (x.median(), x.median(1)[0]), lambda: (_few(4, 11),)),
    "bucketize": (
        lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.0, 1.5])),
        lambda: (_few(4, 11),),
    ),
    "isin": (lambda x, y: torch.isin(x, y), lambda: (torch.randint(9, (3, 5)), torch.randint(9, (3,)))),
    "histogram": (lambda x: torch.histc(x, 4, -2, 2), lambda: (_few(4, 11),)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name: str) -> None:
    torch.manual_seed(0)
    function, inputs = CASES[name]
    agree(function, inputs(), 0.0)


def test_quantiles_are_as_near_as_numbers_allow() -> None:
    torch.manual_seed(0)
    x, q = torch.randn(3, 10), torch.tensor([0.1, 0.5, 0.99])
    for how in ("linear", "midpoint", "nearest"):
        agree(lambda x, how=how: x.quantile(q, 1, interpolation=how), (x,), 2e-4)
    agree(lambda x, q: x.quantile(q, 1), (x, q), 1e-3)


def test_elements_and_indices_are_one_call() -> None:
    hw = torchcalyx.compile(Function(lambda x: x.sort(1)), torch.randn(2, 8))
    assert "k0_sort" in hw.explain()
    assert "k1_" not in hw.explain()


@pytest.mark.parametrize(("count", "cycles"), [(8, 8), (64, 81), (1024, 1839)])
def test_cycles_of_one_row(count: int, cycles: int) -> None:
    assert torchcalyx.compile(Function(lambda x: x.sort()), torch.randn(count)).cycles == cycles
