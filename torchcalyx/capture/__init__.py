"""Module -> `Captured`: the model as one functional ATen graph of fixed shapes, through torch.export.

The module and the example inputs stay as they were. Whatever torch raises comes out as `CaptureError` with
the user's line.
"""

from __future__ import annotations

import inspect
import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from torchcalyx.capture.keywords import rename_keywords
from torchcalyx.capture.record import Captured, InputSpec, OutputSpec
from torchcalyx.capture.refuse import check_capturable
from torchcalyx.capture.source import error_place
from torchcalyx.capture.state import check_stateless, kept_attributes
from torchcalyx.errors import CaptureError, InputError, TorchCalyxError

__all__ = ["Captured", "InputSpec", "OutputSpec", "capture"]


def capture(module: nn.Module | ExportedProgram, example_inputs: Any = None) -> Captured:
    """The module as a functional ATen graph for inputs of the shapes and dtypes of `example_inputs`.

    module: an `nn.Module` (`fx.GraphModule` included) in eval mode, or an `ExportedProgram`, which brings
    its own example inputs. example_inputs: tuple of the positional arguments (pytrees of tensors and Python
    values); a single tensor counts as one.

    Raises InputError when the example inputs are no tuple, CaptureError for everything that cannot become
    one fixed graph: training mode, mutation, randomness, control flow or shapes that depend on values,
    errors of the model itself.
    """
    if not isinstance(module, (nn.Module, ExportedProgram)):
        raise CaptureError(
            f"cannot compile a {type(module).__name__}: pass an nn.Module, a GraphModule or an "
            "ExportedProgram (wrap a function in an nn.Module whose forward calls it)"
        )
    try:
        with _quiet_inference():
            if isinstance(module, ExportedProgram):
                return _captured(module, None)
            args = _fresh(example_inputs)
            with kept_attributes(module) as changed:
                program = _export(module, args)
            result = _captured(program, module)
            check_stateless(module, args, changed)
            return result
    except TorchCalyxError:
        raise
    except Exception as error:  # torch raises dozens of unrelated classes here
        raise CaptureError(_explain(error)) from error


@contextmanager
def _quiet_inference() -> Iterator[None]:
    """No gradients and no fused attention fast path (it hides its operations).

    torch's warnings and logs about its own code are kept back: what matters of them is in our errors.
    """
    fastpath, logs = torch.backends.mha.get_fastpath_enabled(), logging.root.manager.disable
    torch.backends.mha.set_fastpath_enabled(False)
    logging.disable(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logs)
        torch.backends.mha.set_fastpath_enabled(fastpath)


def _fresh(example_inputs: Any) -> tuple[Any, ...]:
    """Copies of the example inputs: export takes two arguments that are one tensor for one input."""
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    if not isinstance(example_inputs, (tuple, list)):
        raise InputError(
            "example_inputs must be a tuple with one entry for each argument of forward, "
            f"got {type(example_inputs).__name__}"
        )
    copies: tuple[Any, ...] = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone(), tuple(example_inputs)
    )
    return copies


def _export(module: nn.Module, args: tuple[Any, ...]) -> ExportedProgram:
    noise = io.StringIO()
    with redirect_stderr(noise):  # a failing export prints its half-made graph there
        program = torch.export.export(module, args, strict=False)
    sys.stderr.write(noise.getvalue())
    return program


def _captured(program: ExportedProgram, module: nn.Module | None) -> Captured:
    check_capturable(program.graph, program.graph_signature, module)
    program, original = rename_keywords(program)
    decomposed = program.run_decompositions({})
    check_capturable(decomposed.graph, decomposed.graph_signature, module)
    return _record(decomposed, module, original)


def _record(program: ExportedProgram, module: nn.Module | None, original: dict[str, str]) -> Captured:
    constants: dict[str, torch.Tensor] = {}
    names: dict[str, str] = {}
    signature = program.graph_signature
    user_inputs = [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        target = str(spec.target)
        tensor = program.state_dict.get(target, program.constants.get(target))
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError(
                f"{target!r} is a {type(tensor).__name__}: only tensors can be constants of the model"
            )
        if tensor.device.type == "meta":
            raise CaptureError(f"{target!r} has no values (device 'meta'): load the weights before compiling")
        constants[spec.arg.name] = tensor.detach().cpu()
        names[spec.arg.name] = original.get(target, target)
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    return Captured(
        graph=program.graph,
        constants=constants,
        constant_names=names,
        inputs=_input_specs(program, user_inputs, module),
        outputs=tuple(
            _output_spec(s.arg) for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT
        ),
        in_spec=in_spec,
        out_spec=out_spec,
    )


def _input_specs(
    program: ExportedProgram, user_inputs: list[Any], module: nn.Module | None
) -> tuple[InputSpec, ...]:
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    in_spec = program.call_spec.in_spec
    assert in_spec is not None
    skeleton = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    argument_names = _argument_names(module, in_spec.child(0).num_children)
    specs = []
    for (keys, _), argument in zip(pytree.tree_flatten_with_path(skeleton)[0], user_inputs, strict=True):
        path: tuple[Any, ...] = keys  # (args or kwargs, which argument, keys inside of it ...)
        name = argument_names[path[1].idx] if path[0].idx == 0 else str(path[1].key)
        text = name + pytree.keystr(path[2:])
        if isinstance(argument, TensorArgument):
            value = values[argument.name]
            specs.append(InputSpec(text, argument.name, tuple(value.shape), value.dtype))
        elif isinstance(argument, ConstantArgument):
            specs.append(InputSpec(text, None, value=argument.value))
        else:
            raise CaptureError(
                f"input {text!r} is of a kind that hardware cannot take ({type(argument).__name__})"
            )
    return tuple(specs)


def _argument_names(module: nn.Module | None, count: int) -> list[str]:
    names: list[str] = []
    if module is not None:
        parameters = inspect.signature(module.forward).parameters.values()
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names[:count], *(f"args[{i}]" for i in range(len(names), count))]


def _output_spec(argument: Any) -> OutputSpec:
    if isinstance(argument, TensorArgument):
        return OutputSpec(argument.name)
    if isinstance(argument, ConstantArgument):
        return OutputSpec(None, argument.value)
    raise CaptureError(
        f"the model returns a {type(argument).__name__} that depends on run-time values; "
        "return tensors or constants"
    )


def _explain(error: Exception) -> str:
    place = error_place(error)
    where = f" at {place}" if place else ""
    kind = type(error).__name__
    text = str(error).strip()
    if "data-dependent" in text.lower() or "GuardOnDataDependent" in kind or "DataDependent" in kind:
        return (
            f"data-dependent control flow{where}: the model branches on, or sizes something by, the value of "
            "a tensor; hardware computes one fixed graph: use torch.where, or a mask of fixed size, instead "
            "of a Python if"
        )
    first = text.split("\n\n", 1)[0]
    return (
        f"torch.export could not capture the model{where}: {kind}: {first}\n"
        "check that the module runs on the example inputs (module(*example_inputs)) and that forward uses "
        "tensor operations only"
    )
