"""Compiles small modules and compares torch, the software model and the simulated hardware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import torchcalyx
from tests import tally


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def agree(
    module: nn.Module | Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    atol: float,
    again: Sequence[Sequence[torch.Tensor]] = (),
    **options: Any,
) -> torchcalyx.CompiledModule:
    """Compile; on the example inputs and on `again` RTL = software model to the bit, cycles as predicted,
    torch within `atol`.

    Structure, shapes and dtypes of the results are torch's; values of integer and bool results are equal to
    torch's.
    """
    if not isinstance(module, nn.Module):
        module = Function(module)
    module = module.eval()
    vectors = [tuple(inputs), *map(tuple, again)]
    hw = torchcalyx.compile(module, vectors[0], calibration=vectors, **options)
    runs = hw.simulate_batch(vectors)
    for vector, run in zip(vectors, runs, strict=True):
        with torch.no_grad():
            expected = module(*[v.clone() for v in vector])
        assert run.cycles == hw.cycles, f"predicted {hw.cycles} cycles, simulated {run.cycles}"
        model, spec = pytree.tree_flatten(hw.emulate(*vector))
        rtl, rtl_spec = pytree.tree_flatten(run.outputs)
        want, want_spec = pytree.tree_flatten(expected)
        assert spec == rtl_spec == want_spec
        for a, b, c in zip(model, rtl, want, strict=True):
            if not isinstance(c, torch.Tensor):
                assert a == b == c
                continue
            assert torch.equal(a, b), f"software model {a}\nhardware {b}"
            assert b.dtype == c.dtype and b.shape == c.shape, (
                f"{b.dtype}{list(b.shape)} for {c.dtype}{list(c.shape)}"
            )
            if c.dtype.is_floating_point:
                error = (b.double() - c.double()).abs().max().item() if c.numel() else 0.0
                assert error <= atol, f"hardware is {error} from torch"
            else:
                assert torch.equal(b, c), f"hardware {b}\ntorch {c}"
    tally.count(vectors=len(vectors), cycles=len(vectors))
    return hw
