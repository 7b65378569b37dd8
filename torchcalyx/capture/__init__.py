"""Module -> `Captured`: the model as one functional ATen graph of fixed shapes, through torch.export.

The module and the example inputs stay as they were. Whatever torch raises comes out as `CaptureError` with
the user's line.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from torchcalyx.capture.admit import argument_names, argument_path, check_arguments, check_module
from torchcalyx.capture.containers import pack
from torchcalyx.capture.failure import explain_failure
from torchcalyx.capture.paths import legal_program, printable
from torchcalyx.capture.record import Captured, InputSpec, OutputSpec
from torchcalyx.capture.refuse import check_capturable
from torchcalyx.capture.results import packed_containers
from torchcalyx.capture.state import check_stateless, copied, kept_attributes
from torchcalyx.errors import CaptureError, InputError, TorchCalyxError

__all__ = ["Captured", "InputSpec", "OutputSpec", "capture"]


def capture(
    module: nn.Module | ExportedProgram, example_inputs: Any = None, keywords: Mapping[str, Any] | None = None
) -> Captured:
    """The module as a functional ATen graph for inputs of the shapes and dtypes of `example_inputs`.

    module: an `nn.Module` (`fx.GraphModule` included) in eval mode, or an `ExportedProgram`, which brings
    its own example inputs. example_inputs: tuple of the positional arguments (pytrees of tensors and Python
    values); a single tensor counts as one. keywords: the arguments given by keyword.

    Raises InputError when the example inputs are no tuple, do not fit forward or cannot be inputs of
    hardware; CaptureError for everything that cannot become one fixed graph: training mode, mutation,
    randomness, control flow or shapes that depend on values, errors of the model itself.
    """
    check_module(module)
    try:
        with _quiet_inference():
            if isinstance(module, ExportedProgram):
                return _captured(module, None)
            given = _tuple(example_inputs), dict(keywords or {})
            check_arguments(module, *given)
            args, kwargs = copied(given)  # export takes two arguments that are one tensor for one input
            with kept_attributes(module) as changed:
                program = _export(module, args, kwargs)
            result = _captured(program, module)
            check_stateless(module, args, kwargs, changed)
            return result
    except TorchCalyxError:
        raise
    except Exception as error:  # torch raises dozens of unrelated classes here
        raise CaptureError(explain_failure(error)) from error


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


def _tuple(example_inputs: Any) -> tuple[Any, ...]:
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,)
    if not isinstance(example_inputs, (tuple, list)):
        raise InputError(
            "example_inputs must be a tuple with one entry for each argument of forward, "
            f"got {type(example_inputs).__name__}"
        )
    return tuple(example_inputs)


def _export(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    noise = io.StringIO()
    plain_args, plain_kwargs = pack((args, kwargs))
    with redirect_stderr(noise), packed_containers(module):  # a failing export prints its half-made graph
        program = torch.export.export(module, plain_args, plain_kwargs, strict=False)
    sys.stderr.write(noise.getvalue())
    return program


def _captured(program: ExportedProgram, module: nn.Module | None) -> Captured:
    check_capturable(program.graph, program.graph_signature, module)
    program, original = legal_program(program)
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
        names[spec.arg.name] = printable(original.get(target, target))
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    assert in_spec is not None and out_spec is not None
    values = {n.name: n.meta.get("val") for n in program.graph.nodes}
    return Captured(
        graph=program.graph,
        constants=constants,
        constant_names=names,
        inputs=_input_specs(program, user_inputs, module),
        outputs=tuple(
            _output_spec(s.arg, values) for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT
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
    names = argument_names(module, in_spec.child(0).num_children)
    specs = []
    for (keys, _), argument in zip(pytree.tree_flatten_with_path(skeleton)[0], user_inputs, strict=True):
        text = argument_path(names, keys)
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


def _output_spec(argument: Any, values: Mapping[str, Any]) -> OutputSpec:
    if isinstance(argument, TensorArgument):
        return OutputSpec(argument.name, dtype=values[argument.name].dtype)
    if isinstance(argument, ConstantArgument):
        return OutputSpec(None, argument.value)
    raise CaptureError(
        f"the model returns a {type(argument).__name__} that depends on run-time values; "
        "return tensors or constants"
    )
