"""What is right: results of the software model against eager PyTorch.

`eager` is PyTorch on the inputs as they are, `wide` the same in float64, `ideal` float64 on the inputs
rounded to the formats in which memory holds them. Number of results, shapes and dtypes are eager's. Integers
and bools equal eager's, or where they hang on floats those of `ideal`. A float is right where

    |got - wide| <= 2^-7 largest of its row + 2^-12 largest of the tensor + 2 |ideal - wide|

(row: the last dimension). Where float64 differs from eager by more than 2^-10 of the row, eager is the
reference: such operators ask for the limits of their type. An infinity must be the end of a format: its sign,
and no less than anything finite. NaN is not judged, nor what `ideal` has no finite value for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

ROW, TENSOR, OWN = 2.0**-7, 2.0**-12, 2.0**-10


@dataclass(frozen=True)
class Judgement:
    """error: the greatest one in units of what is allowed; wrong: what is, "" when nothing."""

    error: float = 0.0
    wrong: str = ""


def judge(got: Any, eager: Any, wide: Any, ideal: Sequence[Any]) -> Judgement:
    """All results of a call. wide: None where the operator has no form in float64. ideal: results on rounded
    inputs, in float64 if there is one, and in eager's own type.
    """
    leaves, wanted = pytree.tree_leaves(got), pytree.tree_leaves(eager)
    if len(leaves) != len(wanted):
        return Judgement(math.inf, f"{len(leaves)} results, eager has {len(wanted)}")
    wider = _alike(wide, wanted)
    ideals = [_alike(one, wanted) for one in ideal]
    worst = Judgement()
    for index, (found, want, reference) in enumerate(zip(leaves, wanted, wider or wanted, strict=True)):
        rounded = [one[index] for one in ideals if one is not None]
        judged = _result(found, want, reference, rounded)
        if judged.wrong:
            where = f"result {index}: " if len(wanted) > 1 else ""
            return Judgement(judged.error, where + judged.wrong)
        worst = max(worst, judged, key=lambda j: j.error)
    return worst


def _alike(results: Any, wanted: Sequence[Any]) -> list[Any] | None:
    """The leaves of other results where they are as many and of the same shapes as those that are wanted."""
    leaves = pytree.tree_leaves(results)
    if len(leaves) != len(wanted):
        return None
    pairs = [(a, b) for a, b in zip(leaves, wanted, strict=True) if isinstance(b, Tensor)]
    alike = all(isinstance(a, Tensor) and a.shape == b.shape for a, b in pairs)
    return leaves if alike else None


def _result(got: Any, want: Any, wide: Any, ideals: Sequence[Any]) -> Judgement:
    if not isinstance(want, Tensor):
        same = got == want or (isinstance(want, float) and math.isclose(got, want, rel_tol=ROW))
        return Judgement() if same else Judgement(math.inf, f"{got!r}, eager has {want!r}")
    if not isinstance(got, Tensor):
        return Judgement(math.inf, f"a {type(got).__name__}, eager has a tensor")
    if got.shape != want.shape or got.dtype != want.dtype:
        here, there = (f"{t.dtype}{list(t.shape)}" for t in (got, want))
        return Judgement(math.inf, f"{here}, eager has {there}".replace("torch.", ""))
    if not want.numel():
        return Judgement()
    if want.is_complex() or want.is_floating_point():
        return _floats(_real(got), _real(want), _real(wide), [_real(i) for i in ideals])
    differs = got != want
    for ideal in ideals:
        differs &= got != ideal.to(got.dtype)
    if not differs.any():
        return Judgement()
    first = tuple(int(i) for i in differs.nonzero()[0])
    text = f"{int(differs.sum())} of {got.numel()} differ, first {got[first]} for {want[first]} at {first}"
    return Judgement(math.inf, text)


def _real(tensor: Tensor) -> Tensor:
    """In float64; a complex tensor as pairs."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double()


def _floats(got: Tensor, want: Tensor, wide: Tensor, ideals: Sequence[Tensor]) -> Judgement:
    size = torch.where(want.isfinite(), want.abs(), 0.0)
    row = size.amax(-1, keepdim=True) if size.dim() else size
    own = ~((wide - want).abs() <= OWN * row)
    reference = torch.where(own, want, wide)
    drift, judged = torch.zeros_like(want), reference.isfinite()
    for ideal in ideals[:1]:
        judged = judged & ideal.isfinite()
        drift = torch.where(judged & ~own, (ideal - wide).abs(), drift)
    for ideal in ideals[1:]:  # eager's own type on rounded inputs: all there is where it is the reference
        drift = torch.where(own & ideal.isfinite(), (ideal - want).abs(), drift)
    allowed = ROW * row + TENSOR * size.max() + 2 * drift
    error = torch.where(judged, (got - reference).abs().nan_to_num(nan=math.inf), 0.0)
    share = torch.where(error > 0, error / allowed.clamp(min=1e-300), 0.0)
    worst = float(share.max())
    if worst > 1:
        at = tuple(int(i) for i in torch.unravel_index(share.argmax(), share.shape))
        text = (
            f"{float(got[at]):.6g} for {float(reference[at]):.6g} at {at}, {float(allowed[at]):.2g} allowed"
        )
        return Judgement(worst, text)
    infinite = want.isinf() & ((got.sign() != want.sign()) | (got.abs() < size.max() * (1 - ROW)))
    if infinite.any():
        at = tuple(int(i) for i in infinite.nonzero()[0])
        return Judgement(math.inf, f"{float(got[at]):.6g} for {float(want[at])} at {at}")
    return Judgement(worst)
