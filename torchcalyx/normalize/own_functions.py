"""A user's own function of one variable: an operator for torch, and its lowering to the sampled function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch

from torchcalyx.errors import KernelParameterError
from torchcalyx.ir.typerules import FLOATS
from torchcalyx.kernels.functions.known import register_function
from torchcalyx.kernels.functions.values import RealFunction
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder
from torchcalyx.normalize.sampled import function as sampled

NAMESPACE = "torchcalyx_functions"


def function(
    name: str,
    real: RealFunction,
    *,
    symmetry: Literal["none", "odd", "even"] = "none",
    poles: Sequence[float] = (),
    domain: tuple[float, float] = (-math.inf, math.inf),
) -> Callable[[torch.Tensor], torch.Tensor]:
    """An elementwise operator for modules: torch computes it by `real`, hardware by a table made from it.

    real: float64 numpy array to an array of its shape. The other arguments are those of
    `torchcalyx.kernels.functions.known.register_function`, which raises KernelParameterError.
    """
    if not name.isidentifier():
        raise KernelParameterError(f"function {name!r}: the name must be a Python identifier")
    register_function(name, real, symmetry=symmetry, poles=poles, domain=domain)

    def compute(x: torch.Tensor) -> torch.Tensor:
        values = np.asarray(real(x.detach().double().cpu().numpy()), np.float64)
        return torch.as_tensor(np.array(values), dtype=x.dtype, device=x.device)

    operator = torch.library.custom_op(
        f"{NAMESPACE}::{name}", compute, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(torch.empty_like)
    return operator


def own_lowering(target: torch._ops.OpOverload) -> Lowering | None:
    """The lowering of an operator that `function` made; None for others."""
    namespace, _, name = target._schema.name.partition("::")
    if namespace != NAMESPACE:
        return None

    def lower(b: Builder, a: Args) -> Result:
        x = a.tensor("x")
        if x.dtype not in FLOATS:
            return Reject(f"the function {name} takes floating-point tensors, not {x.dtype}")
        return sampled(b, name, x)

    return lower
