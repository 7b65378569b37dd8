"""Assertions: of values known at compile time they are checked there, of computed values they are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder

aten = torch.ops.aten

ASSERTIONS = (aten._assert_async.default, aten._assert_async.msg)
"""Operations without result that are not dead code."""


def _computed(b: Builder, a: Args) -> Result:
    said = f" {a['assert_msg']!r}" if "assert_msg" in a else ""
    return Reject(
        f"the assertion{said} depends on tensor values and hardware cannot stop the caller; check the inputs "
        "outside of the model, or return the condition as an output"
    )


LOWERINGS: Mapping[Any, Lowering] = dict.fromkeys(ASSERTIONS, _computed)
