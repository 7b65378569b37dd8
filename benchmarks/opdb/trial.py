"""One sample of the database through the compiler: what became of it.

Whatever is raised that is no error of ours is a finding ("foreign"), never the end of the run. Warnings are
counted.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import torchcalyx
from benchmarks.opdb.judging import judge
from benchmarks.opdb.reasons import missing, principle
from benchmarks.opdb.samples import Sample
from torchcalyx.errors import ToolError, ToolNotFound, TorchCalyxError

Verdict: TypeAlias = Literal["right", "wrong", "refused", "foreign", "not applicable"]


@dataclass(frozen=True)
class Outcome:
    """What became of a sample. reason: class of it, for groups; message: the whole text. principle: refused
    because static hardware cannot mean it. error: the greatest in units of the allowed one. inputs: as text.
    """

    verdict: Verdict
    reason: str = ""
    message: str = ""
    principle: bool = False
    error: float = 0.0
    cycles: int = 0
    inputs: str = ""
    warned: dict[str, int] = field(default_factory=dict)


def trial(sample: Sample, rtl: bool = False) -> Outcome:
    """Compile a sample, calibrated on itself, and judge its software model; with `rtl` the hardware too."""
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        found = _trial(sample, rtl)
    ours = ("AccuracyWarning", "SaturationWarning")
    counts = Counter(w.category.__name__ for w in caught if w.category.__name__ in ours)
    return Outcome(**{**vars(found), "inputs": _shown(sample), "warned": dict(counts)})


def _trial(sample: Sample, rtl: bool) -> Outcome:
    if not sample.tensors:
        return Outcome("not applicable", "no tensor among the arguments")
    try:
        eager = sample.module()(*sample.tensors)
        repeats = _equal(eager, sample.module()(*sample.tensors)) and _initialised(sample, eager)
    except Exception as error:  # the database also lists what a processor cannot do
        return Outcome("not applicable", "eager raises", _text(error))
    try:
        hw = torchcalyx.compile(sample.module(), sample.tensors)
        got = hw.emulate(*sample.tensors)
    except TorchCalyxError as error:
        return refusal(error)
    except Exception as error:
        return Outcome("foreign", type(error).__name__, _text(error))
    if not repeats:
        return Outcome("not applicable", "eager gives another result in each call")
    judged = judge(got, eager, _run(sample, _wide(sample.tensors), True), list(_ideals(sample, hw)))
    if judged.wrong:
        return Outcome("wrong", "value", judged.wrong, error=judged.error, cycles=hw.cycles)
    if rtl and (fault := _simulated(hw, sample, got)):
        return fault
    return Outcome("right", error=judged.error, cycles=hw.cycles)


def _initialised(sample: Sample, eager: Any) -> bool:
    """Whether no result is memory as it was found: torch can be told to fill that with NaN."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        filled = sample.module()(*sample.tensors)
    finally:
        torch.use_deterministic_algorithms(before)
    pairs = zip(pytree.tree_leaves(eager), pytree.tree_leaves(filled), strict=True)
    return not any(
        isinstance(a, torch.Tensor) and a.is_floating_point() and bool((b.isnan() & ~a.isnan()).any())
        for a, b in pairs
    )


def refusal(error: TorchCalyxError) -> Outcome:
    """The outcome of an error of ours. Tools have no part in compiling, so theirs is a fault."""
    text = str(error)
    if isinstance(error, (ToolError, ToolNotFound)):
        return Outcome("foreign", type(error).__name__, text)
    stated = principle(text)
    return Outcome("refused", stated or missing(text), _text(error), principle=bool(stated))


def _simulated(hw: torchcalyx.CompiledModule, sample: Sample, model: Any) -> Outcome | None:
    """The fault of the hardware, None when it equals its model and is as long as predicted."""
    if not hw.stages.selection.calls:
        return None
    try:
        run = hw.simulate(*sample.tensors)
    except Exception as error:  # the model was right, so no refusal of the hardware is one
        return Outcome("foreign", f"simulation: {type(error).__name__}", _text(error))
    if not _equal(run.outputs, model):
        return Outcome("wrong", "hardware differs from its model", str(run.outputs)[:400])
    if run.cycles != hw.cycles:
        return Outcome("wrong", "cycles", f"predicted {hw.cycles}, simulated {run.cycles}")
    return None


def _ideals(sample: Sample, hw: torchcalyx.CompiledModule) -> Iterator[Any]:
    """Results on the inputs as memory holds them: in float64 and in their own type."""
    formats = [binding.fmt for binding in hw.stages.selection.inputs]
    if len(formats) != len(sample.tensors):
        return
    rounded = [
        _stored(t, fmt.min, fmt.max, 2.0**-fmt.frac) if t.is_floating_point() else t
        for t, fmt in zip(sample.tensors, formats, strict=True)
    ]
    yield _run(sample, _wide(rounded), True)
    yield _run(sample, [r.to(t.dtype).clone() for r, t in zip(rounded, sample.tensors, strict=True)], False)


def _stored(values: Tensor, low: int, high: int, unit: float) -> Tensor:
    """In float64 what a format holds for values: nearest, half to even, saturated."""
    return torch.clamp(torch.round(values.double() / unit), low, high) * unit


def _wide(tensors: Sequence[Tensor]) -> list[Tensor]:
    wide = {True: torch.complex128, False: torch.float64}
    return [t.to(wide[t.is_complex()]) if t.is_complex() or t.is_floating_point() else t for t in tensors]


def _run(sample: Sample, tensors: Sequence[Tensor], wide: bool) -> Any:
    """Eager results on other tensors, None where the operator does not take them."""
    try:
        return sample.module(wide)(*tensors)
    except Exception:  # not every operator has a form in float64
        return None


def _equal(one: Any, other: Any) -> bool:
    """Whether two results are the same to the bit, NaN included."""
    pairs = list(zip(pytree.tree_leaves(one), pytree.tree_leaves(other), strict=True))
    return all(
        bool(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True).all())
        if isinstance(a, Tensor) and isinstance(b, Tensor)
        else a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))
        for a, b in pairs
    )


def _shown(sample: Sample) -> str:
    """The arguments of a call, tensors by dtype and shape."""
    leaves = [
        f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, Tensor) else repr(x)[:40] for x in sample.leaves
    ]
    args, kwargs = pytree.tree_unflatten(leaves, sample.spec)
    return ", ".join([*map(str, args), *(f"{k}={v}" for k, v in kwargs.items())]).replace("'", "")[:300]


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1500]
