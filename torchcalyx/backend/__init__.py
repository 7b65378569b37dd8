"""PyTorch's own door: `torch.compile(model, backend="torchcalyx", options={...})`.

Dynamo hands over a graph whose weights are inputs; out comes a callable that runs it on hardware, made by
the same compiler and with the same cache as `torchcalyx.compile`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import fx

from torchcalyx.backend.frame import Frame, current_frame, keep_eval_mode, shapes_are_dynamic
from torchcalyx.backend.run import HardwareGraph
from torchcalyx.backend.slots import Slot, inputs_of, module_paths, slots_of
from torchcalyx.errors import CaptureError, InputError, OptionsError
from torchcalyx.options import Options
from torchcalyx.pipeline import as_arguments

__all__ = ["torchcalyx_backend"]


def torchcalyx_backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options | Mapping[str, Any] | None = None,
    mode: str | None = None,
    name: str | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """A callable that runs a Dynamo graph on hardware; `torch.compile` calls this for each graph.

    options: as for `torchcalyx.compile`. mode: refused. name: torch's label of the region, not used. The
    hardware is made at the first call, for that call's inputs; other shapes, other Python numbers and
    weights that have changed since make another.

    Raises OptionsError for an unknown option or a mode, CaptureError for a part of a model, `dynamic=True`,
    training mode and tensors that need gradients; torch wraps these in BackendCompilerFailed. The callable
    raises as `torchcalyx.compile` and as a `CompiledModule`, unwrapped.

    A backend is not asked when Dynamo finds no graph at all (a graph break inside a loop) or gives up (more
    shapes with dynamic=False than `torch._dynamo.config.recompile_limit`): torch then runs the model itself.
    fullgraph=True makes these errors too.
    """
    chosen = _options(options, mode)
    if shapes_are_dynamic():
        raise CaptureError(
            "dynamic=True: hardware has fixed shapes; pass dynamic=False to torch.compile, and each new "
            "input shape is compiled anew"
        )
    frame = current_frame(gm)
    slots = slots_of(gm, example_inputs, frame)
    if frame is not None:
        _refuse_part(frame)
        _refuse_training(frame)
        keep_eval_mode(frame)
        chosen = _with_calibration(chosen, frame, slots)
    _refuse_gradients(slots, example_inputs)
    return HardwareGraph(gm, slots, module_paths(gm, frame), chosen)


def _options(options: Options | Mapping[str, Any] | None, mode: str | None) -> Options:
    if mode is not None:
        known = ", ".join(f.name for f in fields(Options))
        raise OptionsError(
            f"mode={mode!r}: torchcalyx has no modes; leave mode out and pass options={{...}}; "
            f"known options: {known}"
        )
    return Options.of(options, {})


def _refuse_part(frame: Frame) -> None:
    if frame.partial:
        raise CaptureError(
            f"torch.compile captured only a part of the model: {frame.partial}; the rest would run in "
            "Python and not in hardware. Remove the cause so that the whole model is one graph (with "
            "fullgraph=True torch.compile explains it), or give the module to torchcalyx.compile"
        )


def _refuse_training(frame: Frame) -> None:
    for root in frame.modules:
        path = next((path for path, module in root.named_modules() if module.training), None)
        if path is not None:
            part = f"module {path!r} of {type(root).__name__}" if path else f"module {type(root).__name__}"
            raise CaptureError(
                f"{part} is in training mode: hardware computes inference only; call model.eval() before the "
                "compiled model is called"
            )


def _refuse_gradients(slots: Sequence[Slot], examples: Sequence[Any]) -> None:
    """Refuse tensors whose gradient autograd would want. Weights of modules do not count: those are in eval
    mode.
    """
    if not torch.is_grad_enabled():
        return
    for slot, example in zip(slots, examples, strict=True):
        if isinstance(example, torch.Tensor) and example.requires_grad and not slot.of_module:
            raise CaptureError(
                f"training: tensor {slot.path!r} requires a gradient, and hardware computes none; call the "
                "compiled model under torch.no_grad() or torch.inference_mode(), or pass the tensor's "
                ".detach()"
            )


def _with_calibration(options: Options, frame: Frame, slots: Sequence[Slot]) -> Options:
    """Options whose calibration set holds the tensors of the graph's inputs, in the order of the graph.

    Raises InputError when a sample has no value for one.
    """
    if options.calibration is None:
        return options
    samples = []
    for number, sample in enumerate(options.calibration):
        scope = frame.bind(as_arguments(sample))
        values = []
        for slot in inputs_of(slots):
            try:
                values.append(slot.value_in(scope))
            except LookupError as error:
                raise InputError(
                    f"calibration input {number} has no value for argument {slot.path!r} of the model; give "
                    "a tuple of all positional arguments"
                ) from error
        samples.append(tuple(values))
    return replace(options, calibration=tuple(samples))
