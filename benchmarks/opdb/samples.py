"""PyTorch's operator database as modules: each operator with its own samples, a judge nobody here wrote.

In: names and counts. Out: for each sample a module whose inputs are all tensors of the call, in order; what
is no tensor is a constant of the module. Nothing of the compiler is used here.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

LARGEST = 4096
"""Elements that the tensors of a sample may have together."""
LISTED = 400
"""Samples of an operator among which is chosen."""
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
"""The first that an operator has is the one of its samples."""


class OperatorCall(nn.Module):
    """One call of an operator, its tensors taken out of the arguments. wide: types given as arguments (such
    as `dtype=torch.float32`) are replaced by those of twice the width.
    """

    def __init__(
        self, operator: Callable[..., Any], leaves: Sequence[Any], spec: pytree.TreeSpec, wide: bool = False
    ) -> None:
        super().__init__()
        self.operator, self.leaves, self.spec, self.wide = operator, tuple(leaves), spec, wide

    def forward(self, *tensors: Tensor) -> Any:
        """The operator on these tensors and the constants."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, Tensor) else self._constant(leaf) for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.operator(*args, **kwargs)

    def _constant(self, leaf: Any) -> Any:
        return _WIDE.get(leaf, leaf) if self.wide and isinstance(leaf, torch.dtype) else leaf


_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


@dataclass(frozen=True)
class Sample:
    """One call. leaves: its arguments flattened, `tensors` those that are tensors."""

    operator: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Fresh copies of the tensors: an operator may change its arguments."""
        return tuple(leaf.detach().clone() for leaf in self.leaves if isinstance(leaf, Tensor))

    def module(self, wide: bool = False) -> OperatorCall:
        """The call as a module of its tensors."""
        return OperatorCall(self.operator, self.leaves, self.spec, wide).eval()


@cache
def operators() -> dict[str, Any]:
    """Every entry of the database by its name, variants included. Needs the package `expecttest`."""
    from torch.testing._internal.common_methods_invocations import op_db

    named: dict[str, Any] = {}
    for entry in op_db:
        name = entry.name + (f" ({entry.variant_test_name})" if entry.variant_test_name else "")
        assert name not in named, f"two entries named {name}"
        named[name] = entry
    return named


def drawn(names: Sequence[str], count: int) -> list[str]:
    """The first `count` names in the order of their hashes: a choice that nobody makes."""
    return sorted(sorted(names, key=lambda n: hashlib.sha256(n.encode()).digest())[:count])


def samples(name: str, count: int | None = None) -> list[Sample]:
    """Samples of an operator, at most `count` at equal distances; [] where the database has none of them for
    a processor. The same ones at every call.
    """
    entry = operators()[name]
    supported = [d for d in DTYPES if entry.supports_dtype(d, "cpu")]
    if not supported:
        return []
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    _seed(seed)
    found = [_sample(entry.op, s) for s in islice(entry.sample_inputs("cpu", supported[0]), LISTED)]
    small = [s for s in found if sum(t.numel() for t in s.leaves if isinstance(t, Tensor)) <= LARGEST]
    if count is None or len(small) <= count:
        return small
    return [small[i * len(small) // count] for i in range(count)]


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _sample(operator: Callable[..., Any], given: Any) -> Sample:
    leaves, spec = pytree.tree_flatten(((given.input, *given.args), dict(given.kwargs)))
    return Sample(operator, tuple(leaves), spec)
