"""The handed cases in the shape of public bug reports, judged through the simulated hardware
(tests/cases/judge.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchcalyx
from tests.cases import judge
from torchcalyx.errors import UnsupportedOpError

pytestmark = pytest.mark.needs("calyx", "calyx-py", "verilator")

WAITING = {
    111: "a convolution with computed weights",
}
"""Cases whose operations belong to later issues; they are refused, by name, until then."""

NUMBERS = sorted(int(p.stem.removeprefix("case_")) for p in Path(judge.CASES).glob("case_*.py"))


def build(module: nn.Module, inputs: Any) -> Callable[..., Any]:
    return torchcalyx.compile(module, inputs, precision="fixed32", multipliers=16)


def test_all_cases_are_here() -> None:
    assert len(NUMBERS) == 62


@pytest.mark.parametrize("number", [n for n in NUMBERS if n not in WAITING])
def test_case(number: int) -> None:
    verdict = judge.judge_all(build, {number})[number]
    assert verdict.startswith("OK"), verdict


@pytest.mark.parametrize("number", sorted(WAITING))
def test_waiting_case_is_refused(number: int) -> None:
    case = judge.load(str(Path(judge.CASES) / f"case_{number:02d}.py"))
    module, inputs = case.make()
    with torch.no_grad(), pytest.raises(UnsupportedOpError, match="cannot be compiled|has no kernel"):
        build(module, inputs)
