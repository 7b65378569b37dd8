"""One hostile case and its judge: torch in float64 on the same values, or the error that is expected."""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import torchcalyx
from tests.models import Function
from torchcalyx.errors import TorchCalyxError


@dataclasses.dataclass(frozen=True)
class Case:
    """module, given: made anew for each run; `given` holds the arguments. refused: text of its error.

    keywords: arguments by keyword. call: arguments of the call where they differ from the example's. first:
    the first call compiles. error: largest error of a float, of the greatest magnitude of its output.
    wanted: the right outputs where torch in float64 is no reference. hardware: simulated as well.
    """

    name: str
    module: Callable[[], Any]
    given: Callable[[], Any]
    refused: str = ""
    error_class: type[TorchCalyxError] = TorchCalyxError
    keywords: Callable[[], dict[str, Any]] = dict
    call: Callable[[], tuple[Any, ...]] | None = None
    first: bool = False
    error: float = 2.0**-11
    wanted: Callable[[], Any] | None = None
    hardware: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def works(name: str, module: Any, *given: Any, **more: Any) -> Case:
    """A case that is right. module: a function of tensors, or a callable without arguments if `made`."""
    return Case(name, _maker(module, more.pop("made", False)), lambda: given, **more)


def refused(name: str, module: Any, *given: Any, says: str, by: type[TorchCalyxError], **more: Any) -> Case:
    """A case that is refused by an error of class `by` whose text holds `says`."""
    made = _maker(module, more.pop("made", False))
    return Case(name, made, lambda: given, refused=says, error_class=by, **more)


def _maker(module: Any, made: bool) -> Callable[[], Any]:
    return module if made else lambda: Function(module)


def compiled(case: Case, module: Any) -> torchcalyx.CompiledModule:
    """The case's module, compiled for its arguments unless its first call does that."""
    if isinstance(module, nn.Module) and not case.options.get("train"):
        module = module.eval() if not isinstance(module, nn.DataParallel) else module
    options = {k: v for k, v in case.options.items() if k != "train"}
    if case.first:
        return torchcalyx.compile(module, **options)
    return torchcalyx.compile(module, case.given(), example_keywords=case.keywords() or None, **options)


def judge(case: Case) -> None:
    """Assert that a case ends as its table says."""
    module = case.module()
    call = case.call or case.given
    if case.refused:
        with pytest.raises(case.error_class) as caught:
            compiled(case, module).emulate(*call(), **case.keywords())
        assert case.refused in str(caught.value), f"{caught.value}\ndoes not say {case.refused!r}"
        return
    hw = compiled(case, module)
    found = hw.emulate(*call(), **case.keywords())
    for text in (hw.futil, str(hw.report()), hw.report().to_html(), hw.explain(), repr(hw)):
        text.encode()  # nothing that no file can hold
    with torch.no_grad():
        torchs = _run(module, call(), case.keywords())
        right = case.wanted() if case.wanted else _run(*_in_float64(module, call(), case.keywords()))
    compare(found, torchs, right, case.error)


def _run(module: Any, args: Any, kwargs: Any) -> Any:
    copies = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    return module(*copies[0], **copies[1])


def _in_float64(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    wide = copy.deepcopy(module).double() if isinstance(module, nn.Module) else module
    floats = pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, (args, kwargs)
    )
    return wide, *floats


def compare(found: Any, torchs: Any, right: Any, error: float) -> None:
    """Assert the types of torch's result and the values of the right one."""
    ours, theirs, exact = _leaves(found), _leaves(torchs), _leaves(right)
    assert len(ours) == len(theirs) == len(exact), f"{found}\nfor {torchs}"
    for a, b, c in zip(ours, theirs, exact, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a is b or a == b, f"{a!r} for {b!r}"
            continue
        assert isinstance(a, torch.Tensor), f"{a!r} for a tensor"
        assert (a.dtype, a.shape) == (b.dtype, b.shape), (
            f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
        )
        if not b.is_floating_point() or not b.numel():
            assert torch.equal(a, b), f"{a}\nfor {b}"
            continue
        a, c = a.double(), c.to(b.dtype).double()
        if not torch.isfinite(c).all():
            assert torch.equal(a.isinf(), c.isinf()), f"{a}\nfor {c}"
            continue
        size = c.abs().max().item()
        off = (a - c).abs().max().item()
        assert off <= size * (error + torch.finfo(b.dtype).eps), (
            f"{off / max(size, 1e-300):.2e} off:\n{a}\nfor {c}"
        )


def _leaves(value: Any) -> list[Any]:
    """Types of containers and leaves, in order."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in dataclasses.fields(value)]
        return [type(value), *(leaf for part in parts for leaf in _leaves(part))]
    if isinstance(value, dict):
        return [type(value), *(leaf for key, part in value.items() for leaf in (key, *_leaves(part)))]
    if isinstance(value, (list, tuple, deque)):
        return [type(value), *(leaf for part in value for leaf in _leaves(part))]
    return [value]
