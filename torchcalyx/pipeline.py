"""What surrounds the stages: their record, the calibration set, the dump folder, the user's arguments and
results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torchcalyx.capture import Captured
from torchcalyx.design import Design
from torchcalyx.errors import InputError, OptionsError
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.options import Options
from torchcalyx.plan import Plan
from torchcalyx.quantize import Typed
from torchcalyx.results.accuracy import Accuracy
from torchcalyx.selection import Selection
from torchcalyx.tools.cache import write_atomically

Module: TypeAlias = "nn.Module | ExportedProgram"


@dataclass(frozen=True)
class Stages:
    """The value after each stage, for inspection and tests. example: the example inputs, one array a
    tensor leaf. accuracy: on the calibration inputs, None where it was not checked.
    """

    captured: Captured
    graph: Graph
    typed: Typed
    selection: Selection
    plan: Plan
    design: Design
    example: tuple[Array, ...] = field(compare=False, repr=False)
    accuracy: Accuracy | None = None


Lower: TypeAlias = Callable[[Module, tuple[Any, ...], Mapping[str, Any], Options], Stages]
"""The whole way from a module and the arguments of an example call to a design."""


def arrays_of(tensors: list[torch.Tensor]) -> tuple[Array, ...]:
    """Numpy copies of tensors; InputError for one without plain values (sparse, or on device "meta")."""
    try:
        return tuple(t.numpy(force=True).copy() for t in tensors)
    except (TypeError, NotImplementedError, RuntimeError) as error:
        kinds = ", ".join(f"{t.dtype}{list(t.shape)} {t.layout} on {t.device}" for t in tensors)
        raise InputError(f"a tensor has no plain values to read ({kinds}): {error}") from error


def calibration_samples(
    captured: Captured, example: tuple[Array, ...], options: Options
) -> list[tuple[Array, ...]]:
    """The inputs that choose the number formats: the calibration set, or else the example inputs.

    Raises InputError naming the calibration input that does not fit, OptionsError for an empty set.
    """
    if options.calibration is None:
        return [example]
    samples: list[tuple[Array, ...]] = []
    for number, inputs in enumerate(options.calibration):
        try:
            samples.append(arrays_of(captured.flatten_inputs(as_arguments(inputs))))
        except InputError as error:
            raise InputError(f"calibration input {number}: {error}") from error
    if not samples:
        raise OptionsError(
            "calibration is empty: give at least one tuple of inputs (an iterator that was used up before is "
            "empty too: pass a list)"
        )
    return samples


def as_arguments(inputs: Any) -> tuple[Any, ...]:
    """The arguments of a call from a tuple or list of them; a single tensor (or mapping) counts as one.

    Raises InputError for anything else.
    """
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs)
    if isinstance(inputs, (torch.Tensor, Mapping)):
        return (inputs,)
    raise InputError(
        f"inputs must be a tuple with one entry for each argument of forward, not {type(inputs).__name__}"
    )


def dump(folder: str | Path | None, name: str, value: object) -> None:
    """Write the printed form of a stage to `folder` (None: nowhere). Raises OptionsError when that is
    impossible.
    """
    if folder is None:
        return
    try:
        write_atomically(Path(folder) / name, f"{value}\n".encode())
    except OSError as error:
        raise OptionsError(f"dump={str(folder)!r}: {name} cannot be written: {error}") from error


def positional(
    module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The same arguments with keywords of forward turned into positions.

    Raises InputError when they do not fit the signature of forward, or when one can be given by keyword only.
    """
    if not kwargs or not isinstance(module, nn.Module):
        return args, kwargs
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"the arguments do not fit forward of {type(module).__name__}: {error}") from error
    kinds = {p.name: p.kind for p in bound.signature.parameters.values()}
    by_keyword = [n for n in bound.arguments if kinds[n] in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]
    if by_keyword:
        raise InputError(
            f"argument {', '.join(by_keyword)} of forward can be given by keyword only, and inputs of "
            "hardware have positions: wrap the module in one whose forward takes positional arguments"
        )
    given = list(bound.arguments)
    if kinds[given[-1]] is Parameter.VAR_POSITIONAL:
        return bound.args, {}
    count = 1 + list(kinds).index(given[-1])
    bound.apply_defaults()
    return bound.args[:count], {}


def torch_outputs(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Array, ...]:
    """The tensor leaves of the module's own result for clones of the arguments, in eval mode without
    gradients.

    Submodules in training mode are put back into it.
    """
    runner: nn.Module = module.module() if isinstance(module, ExportedProgram) else module
    cloned = pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (args, dict(kwargs)))
    training = [] if isinstance(module, ExportedProgram) else [m for m in runner.modules() if m.training]
    try:
        for part in training:
            part.training = False
        with torch.no_grad():
            result = runner(*cloned[0], **cloned[1])
    finally:
        for part in training:
            part.training = True
    return arrays_of([leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)])


def output_names(captured: Captured) -> list[str]:
    """How a user names each tensor of the result: `output`, `output[0]`, `output['logits']`."""
    skeleton = pytree.tree_unflatten(list(range(len(captured.outputs))), captured.out_spec)
    paths = pytree.tree_flatten_with_path(skeleton)[0]
    return [
        f"output{pytree.keystr(keys)}"
        for (keys, _), spec in zip(paths, captured.outputs, strict=True)
        if spec.node is not None
    ]
