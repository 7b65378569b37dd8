"""Compile PyTorch modules to hardware through the Calyx compiler.

`torchcalyx.compile(module, example_inputs)` is the door. The public names load on first use, so that
importing this package, or the kernel library `torchcalyx.kernels` alone, does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from torchcalyx.errors import (
    AccuracyError,
    AccuracyWarning,
    CaptureError,
    InputError,
    KernelParameterError,
    MismatchError,
    OptionsError,
    PlanError,
    SaturationError,
    SaturationWarning,
    SimulationError,
    ToolError,
    ToolNotFound,
    TorchCalyxError,
    UnsupportedOpError,
)

if TYPE_CHECKING:
    from torchcalyx.api import compile
    from torchcalyx.compiled import CompiledModule
    from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
    from torchcalyx.normalize.own_functions import function
    from torchcalyx.options import Options

__version__ = "0.1.0"

_LAZY = {
    "CompiledModule": "torchcalyx.compiled",
    "NumberFormat": "torchcalyx.kernels.arith.numerics",
    "Options": "torchcalyx.options",
    "compile": "torchcalyx.api",
    "fixed": "torchcalyx.kernels.arith.numerics",
    "function": "torchcalyx.normalize.own_functions",
}

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "CaptureError",
    "CompiledModule",
    "InputError",
    "KernelParameterError",
    "MismatchError",
    "NumberFormat",
    "Options",
    "OptionsError",
    "PlanError",
    "SaturationError",
    "SaturationWarning",
    "SimulationError",
    "ToolError",
    "ToolNotFound",
    "TorchCalyxError",
    "UnsupportedOpError",
    "__version__",
    "compile",
    "fixed",
    "function",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'torchcalyx' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
