"""`torchcalyx.compile`: the whole compiler on one screen. Read this file first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from torchcalyx.accuracy import Names, fit
from torchcalyx.capture import capture
from torchcalyx.capture.admit import check_module
from torchcalyx.compiled import CompiledModule
from torchcalyx.emit import emit
from torchcalyx.errors import CaptureError, InputError, OptionsError, TorchCalyxError
from torchcalyx.normalize import normalize
from torchcalyx.options import Options
from torchcalyx.pipeline import (
    Module,
    Stages,
    arrays_of,
    as_arguments,
    as_keywords,
    calibration_samples,
    dump,
    output_names,
    positional,
)
from torchcalyx.plan import plan_memory, schedule, verify_plan
from torchcalyx.quantize import quantize
from torchcalyx.quantize.doubts import warn_of_doubts
from torchcalyx.select import select


def compile(
    module: Module,
    example_inputs: Any = None,
    *misplaced: Any,
    example_keywords: Mapping[str, Any] | None = None,
    options: Options | Mapping[str, Any] | None = None,
    **overrides: Any,
) -> CompiledModule:
    """Compile a module to hardware.

    module: an `nn.Module` (`GraphModule` included) in eval mode, or an `ExportedProgram`; it is never
    modified. example_inputs: tuple of the arguments of forward (a single tensor counts as one). They fix
    the shapes and, without a calibration set, choose the number formats. Without them the first call
    does. An `ExportedProgram` brings its own. example_keywords: the arguments of forward that are given by
    keyword, for those that have no position. options, overrides: see `Options`. Nothing else has a position.

    Raises OptionsError, InputError, CaptureError, UnsupportedOpError or AccuracyError; each says what to do.
    Warns (AccuracyWarning) of inputs calibrated with one constant, of formats that do not hold the
    calibration inputs, and of outputs that miss the tolerance on them. Verilog is made and simulators are
    built when they are first needed.
    """
    if misplaced:
        raise _no_position(misplaced[0])
    if isinstance(module, CompiledModule):
        raise CaptureError(
            "the module is compiled already: call it, or compile the torch module it was made of"
        )
    check_module(module)
    chosen = Options.of(options, overrides)
    if chosen.calibration is not None:  # an iterator gives its items once only
        chosen = replace(chosen, calibration=tuple(chosen.calibration))
    hw = CompiledModule(module, chosen, lower)
    if example_inputs is not None or example_keywords is not None:
        args = () if example_inputs is None else as_arguments(example_inputs)
        hw.specialise(*positional(module, args, as_keywords(example_keywords)))
    elif isinstance(module, ExportedProgram) and module.example_inputs is not None:
        hw.specialise(*module.example_inputs)
    return hw


def _no_position(value: object) -> TorchCalyxError:
    """The error for a third argument: options, or an argument of forward that belongs into the tuple."""
    if isinstance(value, (Options, Mapping)):
        return OptionsError(
            "options have no position: torchcalyx.compile(module, example_inputs, options=...), or each by "
            "its name (precision='fixed8'); arguments of forward by keyword go into example_keywords={...}"
        )
    return InputError(
        "compile takes a module and its example inputs: put all arguments of forward into one tuple, "
        f"torchcalyx.compile(module, (a, b)); the {type(value).__name__} beyond them has no meaning"
    )


def lower(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options) -> Stages:
    """A module and the arguments of an example call through every stage, each a pure function of the one
    before.
    """
    captured = capture(module, args, kwargs)
    dump(options.dump, "10-captured.txt", captured.graph)
    graph = normalize(captured)
    dump(options.dump, "20-normal.txt", graph)
    example = arrays_of(captured.flatten_inputs(args, kwargs))
    samples = calibration_samples(captured, example, options)
    typed = quantize(graph, samples, options)
    dump(options.dump, "30-typed.txt", typed)
    selection = select(typed, options)
    dump(options.dump, "40-selection.txt", selection)
    names = Names([i.path for i in captured.tensor_inputs], output_names(captured))
    warn_of_doubts(typed, selection, samples, names.inputs, options)
    fitted = fit(graph, typed, selection, samples, names, options)
    dump(options.dump, "45-accuracy.txt", fitted)
    typed, selection = fitted.typed, fitted.selection
    plan = plan_memory(selection, schedule(selection, share=options.share), share=options.share)
    verify_plan(selection, plan)
    dump(options.dump, "50-plan.txt", plan)
    design = emit(selection, plan)
    dump(options.dump, "60-design.futil", design.futil)
    return Stages(captured, graph, typed, selection, plan, design, example, fitted.accuracy)
