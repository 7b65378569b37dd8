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

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torchcalyx.capture import Captured
from torchcalyx.capture.admit import misfit
from torchcalyx.capture.containers import pack
from torchcalyx.capture.state import copied
from torchcalyx.design import Design
from torchcalyx.errors import InputError, OptionsError
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.normalize.builder import in_numpy
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
        return tuple(real_array(t) for t in tensors)
    except (TypeError, NotImplementedError, RuntimeError) as error:
        kinds = ", ".join(f"{t.dtype}{list(t.shape)} {t.layout} on {t.device}" for t in tensors)
        raise InputError(f"a tensor has no plain values to read ({kinds}): {error}") from error


def real_array(tensor: torch.Tensor) -> Array:
    """A numpy copy; floats of a dtype that numpy lacks (bfloat16) as the same values in float32, complex
    numbers as both parts along a new first axis.
    """
    tensor = in_numpy(tensor)
    if tensor.is_complex():
        tensor = torch.stack([tensor.real, tensor.imag])
    return np.array(tensor.numpy(force=True))


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
            samples.append(arrays_of(captured.flatten_inputs(*as_call(captured, inputs))))
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


def as_keywords(keywords: object) -> dict[str, Any]:
    """The keyword arguments of a call, {} for None. Raises InputError unless they are a mapping of names."""
    if keywords is None:
        return {}
    if not isinstance(keywords, Mapping) or not all(isinstance(name, str) for name in keywords):
        raise InputError(f"example_keywords must map names of arguments to values, not {keywords!r}")
    return dict(keywords)


def as_call(captured: Captured, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of one call of a list of calls: a tuple as for `as_arguments`, or a pair of such a tuple
    and a mapping of keywords where the model was compiled with keyword arguments.

    Raises InputError for anything else.
    """
    if not captured.keywords:
        return as_arguments(inputs), {}
    if isinstance(inputs, (tuple, list)) and len(inputs) == 2 and isinstance(inputs[1], Mapping):
        return as_arguments(inputs[0]), dict(inputs[1])
    raise InputError(
        f"the model was compiled with the keyword argument(s) {', '.join(captured.keywords)}: each call must "
        "be a pair (arguments, keywords) of a tuple and a dict"
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
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, by position where forward takes them so; the rest by keyword.

    Raises InputError when they do not fit the signature of forward.
    """
    if not kwargs or not isinstance(module, nn.Module):
        return args, dict(kwargs)
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(misfit(module, error)) from error
    kinds = {p.name: p.kind for p in bound.signature.parameters.values()}
    by_keyword: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if kinds[name] is Parameter.KEYWORD_ONLY:
            by_keyword[name] = value
        elif kinds[name] is Parameter.VAR_KEYWORD:
            by_keyword.update(value)
    given = [n for n in bound.arguments if kinds[n] in _BY_POSITION]
    if given and kinds[given[-1]] is Parameter.VAR_POSITIONAL:
        return bound.args, by_keyword
    count = 1 + list(kinds).index(given[-1]) if given else 0
    bound.apply_defaults()
    return bound.args[:count], by_keyword


_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)


def torch_outputs(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Array, ...]:
    """The tensor leaves of the module's own result for clones of the arguments, in eval mode without
    gradients.

    Submodules in training mode are put back into it.
    """
    runner: nn.Module = module.module() if isinstance(module, ExportedProgram) else module
    cloned = copied((args, dict(kwargs)))
    training = [] if isinstance(module, ExportedProgram) else [m for m in runner.modules() if m.training]
    try:
        for part in training:
            part.training = False
        with torch.no_grad():
            result = runner(*cloned[0], **cloned[1])
    finally:
        for part in training:
            part.training = True
    return arrays_of([leaf for leaf in pytree.tree_leaves(pack(result)) if isinstance(leaf, torch.Tensor)])


def output_names(captured: Captured) -> list[str]:
    """How a user names each tensor of the result: `output`, `output[0]`, `output['logits']`."""
    skeleton = pytree.tree_unflatten(list(range(len(captured.outputs))), captured.out_spec)
    paths = pytree.tree_flatten_with_path(skeleton)[0]
    return [
        f"output{pytree.keystr(keys)}"
        for (keys, _), spec in zip(paths, captured.outputs, strict=True)
        if spec.node is not None
    ]
