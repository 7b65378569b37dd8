"""What can be compiled at all: kinds of modules, state and arguments, each refused by its own name.

In: what the user gave. Out: nothing, or an error before torch has seen any of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from torchcalyx.capture.containers import pack
from torchcalyx.errors import CaptureError, InputError

_VALUES = (torch.Tensor, bool, int, float, str, type(None))


def check_module(module: object) -> None:
    """CaptureError for what is no module, or one that nobody can capture."""
    if isinstance(module, ExportedProgram):
        return
    if not isinstance(module, nn.Module):
        raise CaptureError(_no_module(module))
    name = type(module).__name__
    scripted = [p for p, m in module.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    if scripted:
        part = f"module {scripted[0]!r} of {name}" if scripted[0] else f"the {name}"
        raise CaptureError(f"{part} is TorchScript, whose code is not Python any more: {_SCRIPT}")
    if not callable(getattr(module, "forward", None)) or _unimplemented(module):
        raise CaptureError(
            f"{name} has no forward, so there is nothing to compute: compile a module that calls its parts"
        )
    if reasons := list(_unusable_state(module)):
        raise CaptureError("the model cannot be captured:\n" + "\n".join(f"  - {r}" for r in reasons))


_SCRIPT = "compile the module that it was scripted or traced from"


def _no_module(value: object) -> str:
    if isinstance(value, type):
        return f"cannot compile the class {value.__name__}: pass an instance of it ({value.__name__}(...))"
    if isinstance(value, torch.jit.ScriptFunction):
        return f"cannot compile a TorchScript function: {_SCRIPT}"
    return (
        f"cannot compile a {type(value).__name__}: pass an nn.Module, a GraphModule or an "
        "ExportedProgram (wrap a function in an nn.Module whose forward calls it)"
    )


def _unimplemented(module: nn.Module) -> bool:
    return getattr(module.forward, "__func__", None) is nn.Module.forward


def _unusable_state(module: nn.Module) -> Iterator[str]:
    tensors: list[tuple[str, str, torch.Tensor]] = [("parameter", *p) for p in module.named_parameters()]
    tensors += [("buffer", *b) for b in module.named_buffers()]
    for kind, path, tensor in tensors:
        if is_lazy(tensor):
            yield f"{kind} {path!r} has no shape yet (a lazy module): call the module once before compiling"
        elif reason := unusable(tensor):
            yield f"{kind} {path!r} {reason}"


def unusable(tensor: torch.Tensor) -> str | None:
    """Why hardware cannot take the values of a tensor, and what to do; None when it can."""
    if tensor.is_nested:
        return (
            "is a nested tensor: its rows have sizes of their own, and hardware has fixed shapes; pad it "
            "(torch.nested.to_padded_tensor) and give the lengths or a mask as another input"
        )
    if tensor.layout is not torch.strided:
        return f"is sparse ({tensor.layout}): hardware holds every element; pass .to_dense()"
    if tensor.is_quantized:
        return f"is quantised ({tensor.dtype}): pass .dequantize(), the precision is chosen when compiling"
    if tensor.device.type == "meta":
        return "has no values (device 'meta'): give it values (load the weights) before compiling"
    if _computes_itself(tensor):
        return f"is a {type(tensor).__name__}, a kind of tensor with rules of its own: pass a plain one"
    return None


def _computes_itself(tensor: torch.Tensor) -> bool:
    return type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__


def check_arguments(module: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """InputError for arguments that forward does not take, or that no hardware input can stand for."""
    if isinstance(module, nn.Module) and not module._forward_pre_hooks:  # a hook may change the arguments
        try:
            inspect.signature(module.forward).bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(misfit(module, error)) from error
        except ValueError:  # a callable without signature
            pass
    names = argument_names(module, len(args))
    for keys, leaf in pytree.tree_flatten_with_path(pack((args, dict(kwargs))))[0]:
        check_argument(argument_path(names, keys), leaf)


def misfit(module: nn.Module, error: Exception) -> str:
    """The text for arguments that do not fit forward."""
    return (
        f"the arguments do not fit forward of {type(module).__name__}: {error}; "
        f"it takes {inspect.signature(module.forward)}"
    )


def check_argument(path: str, leaf: object) -> None:
    """InputError unless a leaf of the arguments is a plain value or a tensor of plain values."""
    if not isinstance(leaf, _VALUES):
        raise InputError(f"argument {path} is of type {type(leaf).__name__}: {_instead(leaf)}")
    if not isinstance(leaf, torch.Tensor):
        return
    if reason := unusable(leaf):
        raise InputError(f"argument {path} {reason}")


def _instead(leaf: object) -> str:
    if isinstance(leaf, np.ndarray):
        return "pass a tensor (torch.from_numpy(...))"
    if isinstance(leaf, np.generic):
        return "pass a Python number (.item()), or a tensor for a value that changes from call to call"
    return "pass tensors, numbers, text, None, or tuples, lists, dicts and dataclasses of these"


def argument_names(module: object, count: int) -> list[str]:
    """Names of the first `count` positional arguments of forward; `args[i]` where it has no name."""
    names: list[str] = []
    if isinstance(module, nn.Module):
        parameters = _parameters(module)
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names[:count], *(f"args[{i}]" for i in range(len(names), count))]


def _parameters(module: nn.Module) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):  # a callable without signature
        return ()


def argument_path(names: list[str], keys: tuple[Any, ...]) -> str:
    """How the user names a leaf of `(args, kwargs)`, as in `x` or `batch['ids']`."""
    name = names[keys[1].idx] if keys[0].idx == 0 else str(keys[1].key)
    return name + pytree.keystr(keys[2:])
