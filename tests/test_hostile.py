"""No exception of Python, numpy or torch reaches the user: hostile uses work, or are refused by name."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree

import torchcalyx
from tests.hostile import arguments, containers, modules, numbers, operations
from tests.hostile.case import Case, compiled, judge
from torchcalyx.capture.containers import pack

CASES = (*arguments.CASES, *containers.CASES, *modules.CASES, *numbers.CASES, *operations.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.name))
def test_right_or_refused_by_name(case: Case) -> None:
    torch.manual_seed(0)
    judge(case)


@pytest.mark.needs("calyx", "calyx-py", "icarus")
@pytest.mark.parametrize("case", [c for c in CASES if c.hardware], ids=lambda case: ascii(case.name))
def test_hardware_equals_the_software_model(case: Case) -> None:
    torch.manual_seed(0)
    hw = compiled(case, case.module())
    hw._options = torchcalyx.Options.of(hw._options, {"simulator": "icarus"})
    run = hw.simulate(*case.given(), **case.keywords())
    model = hw.emulate(*case.given(), **case.keywords())
    found, spec = pytree.tree_flatten(pack(run.outputs))
    wanted, wanted_spec = pytree.tree_flatten(pack(model))
    assert spec == wanted_spec and run.cycles == hw.cycles
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
