"""Checks one program: torch, software model, simulated hardware, cycles, plan, multipliers, refusals."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

import torchcalyx
from tests.fuzz.bounds import error_bounds
from tests.fuzz.multipliers import count_multipliers
from tests.fuzz.program import Vectors
from torchcalyx.emulate import emulate
from torchcalyx.errors import TorchCalyxError, UnsupportedOpError
from torchcalyx.pipeline import arrays_of
from torchcalyx.plan import verify_plan

HONEST_REFUSALS = (
    "may wrap",
    "raise multipliers, lower lanes or choose a narrower precision",
)
"""Texts of refusals that are part of the contract: what they refuse cannot be exact."""


class InvalidProgram(Exception):
    """Torch itself does not run the program: the generator's fault."""


@dataclass(frozen=True)
class Failure:
    """What went wrong. kind: stable while a program is made smaller. text: values or traceback, for a
    reader.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}\n{self.text}"


@dataclass(frozen=True)
class Verdict:
    """failure: None when every check passed. refused: an honest refusal, "" otherwise. vectors, cycles:
    simulated.
    """

    failure: Failure | None = None
    refused: str = ""
    vectors: int = 0
    cycles: int = 0


def judge(
    make_model: Callable[[], nn.Module], make_vectors: Callable[[], Vectors], options: Mapping[str, Any]
) -> Verdict:
    """Run every check. Raises InvalidProgram when torch does not run the module."""
    model, vectors = make_model(), make_vectors()
    try:
        wanted = [_torch_result(model, v) for v in vectors]
    except Exception as error:
        raise InvalidProgram(f"{type(error).__name__}: {error}") from error
    try:
        return Verdict(_checked(model, vectors, wanted, options), "", len(vectors) + 1, len(vectors) + 1)
    except UnsupportedOpError as error:
        reason = next((r for r in HONEST_REFUSALS if r in str(error)), "")
        if reason:
            return Verdict(refused=reason)
        return Verdict(Failure(f"refused: {_stable(str(error))}", str(error)))
    except Exception as error:
        own = "error" if isinstance(error, TorchCalyxError) else "crash"
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{own} {type(error).__name__} at {place.filename.rpartition('/')[2]} {place.name}"
        return Verdict(Failure(f"{kind}: {_stable(str(error))}", "".join(traceback.format_exception(error))))


def _stable(message: str) -> str:
    """The reason of a message without the numbers and names of one program."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    kept = lines[2] if len(lines) > 2 and "no kernel" in lines[0] else lines[0] if lines else ""
    return re.sub(r"[-\d.]+|'[^']*'|%\w+", "#", kept)[:100]


def _torch_result(model: nn.Module, vector: tuple[torch.Tensor, ...]) -> Any:
    with torch.no_grad():
        return model(*[v.clone() for v in vector])


def _checked(
    model: nn.Module, vectors: Vectors, wanted: list[Any], options: Mapping[str, Any]
) -> Failure | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torchcalyx.AccuracyWarning)  # drawn formats and inputs may be poor
        hw = torchcalyx.compile(
            model, vectors[0], calibration=vectors, **{"on_saturation": "ignore", **options}
        )
    stages = hw.stages
    verify_plan(stages.selection, stages.plan)
    found, budget = count_multipliers(hw.futil), options.get("multipliers", 64)
    if found > budget:
        return Failure("multipliers", f"{found} multipliers in the program, the budget is {budget}")
    for number, vector in enumerate(vectors):
        failure = _against_torch(hw, vector, wanted[number])
        if failure is not None:
            return Failure(failure.kind, f"vector {number}: {failure.text}")
    vectors = [*vectors, tuple(map(stressed, vectors[0]))]
    for number, (vector, run) in enumerate(zip(vectors, hw.simulate_batch(vectors), strict=True)):
        if run.cycles != hw.cycles:
            return Failure("cycles", f"{hw.cycles} predicted, {run.cycles} simulated in call {number}")
        for place, (a, b) in enumerate(_leaves(hw.emulate(*vector), run.outputs)):
            if isinstance(a, torch.Tensor) and not torch.equal(a, b):
                return Failure("RTL", f"vector {number}, leaf {place}:\nsoftware model {a}\nhardware {b}")
    return None


def stressed(tensor: torch.Tensor) -> torch.Tensor:
    """Values nobody calibrated for: floats that saturate, the ends of an integer dtype (32 bits at most)."""
    if tensor.dtype.is_floating_point:
        return tensor * 40
    if tensor.dtype == torch.bool:
        return ~tensor
    bits = torch.iinfo(torch.int32 if tensor.dtype == torch.int64 else tensor.dtype)
    return torch.where(tensor % 2 == 0, bits.min, bits.max).to(tensor.dtype)


def _leaves(a: Any, b: Any) -> list[tuple[Any, Any]]:
    return list(zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=True))


def _against_torch(
    hw: torchcalyx.CompiledModule, vector: tuple[torch.Tensor, ...], wanted: Any
) -> Failure | None:
    model = hw.emulate(*vector)
    specs = [pytree.tree_structure(x) for x in (model, wanted)]
    if specs[0] != specs[1]:
        return Failure("structure", f"{specs[0]} instead of {specs[1]}")
    pairs, tensors = _leaves(model, wanted), []
    for place, (a, b) in enumerate(pairs):
        if not isinstance(b, torch.Tensor):
            if a != b:
                return Failure("structure", f"leaf {place}: {a!r} instead of {b!r}")
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return Failure(
                "type", f"leaf {place}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
            )
        tensors.append((place, a, b))
    inputs = arrays_of(hw.stages.captured.flatten_inputs(vector))
    if _saturates(hw, vector):
        return None
    bounds = [error for _, error in error_bounds(hw.stages.graph, hw.stages.typed.formats, inputs)]
    # a graph may return one value twice: its outputs are named for each leaf, in order
    for (place, a, b), bound in zip(tensors, bounds, strict=True):
        distance = np.abs(a.detach().double().numpy() - b.detach().double().numpy())
        wrong = distance > bound * (1 + 1e-6)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            claim = (
                f"{float(a[at])} instead of {float(b[at])}, allowed error {float(np.asarray(bound)[at]):.3g}"
            )
            return Failure("torch", f"leaf {place} {at}: {claim}\nsoftware model {a}\ntorch {b}")
    return None


def _saturates(hw: torchcalyx.CompiledModule, vector: tuple[torch.Tensor, ...]) -> bool:
    """Whether a fixed format, which calibration does not choose, cut a value off: then no bound holds."""
    precision = hw._options.precision
    if precision in ("fixed8", "fixed16", "fixed32"):
        return False
    stored = hw._store(vector, {})
    counts = [*stored.saturated.values(), *hw.stages.selection.saturated_weights.values()]
    return any(counts) or any(emulate(hw.stages.selection, stored.arrays).saturated.values())


def main(
    make_model: Callable[[], nn.Module], make_vectors: Callable[[], Vectors], options: Mapping[str, Any]
) -> None:
    """Entry of a saved program: say what happens, exit status 1 for a failure."""
    verdict = judge(make_model, make_vectors, options)
    click.echo(verdict.failure or verdict.refused or f"all checks passed on {verdict.vectors} vectors")
    sys.exit(verdict.failure is not None)
