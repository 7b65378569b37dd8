"""`torchcalyx.compile`: the whole compiler on one screen. Read this file first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch.export import ExportedProgram

from torchcalyx.accuracy import Names, fit
from torchcalyx.capture import capture
from torchcalyx.compiled import CompiledModule
from torchcalyx.emit import emit
from torchcalyx.normalize import normalize
from torchcalyx.options import Options
from torchcalyx.pipeline import (
    Module,
    Stages,
    arrays_of,
    as_arguments,
    calibration_samples,
    dump,
    output_names,
)
from torchcalyx.plan import plan_memory, schedule, verify_plan
from torchcalyx.quantize import quantize
from torchcalyx.quantize.doubts import warn_of_doubts
from torchcalyx.select import select


def compile(
    module: Module,
    example_inputs: Any = None,
    *,
    options: Options | Mapping[str, Any] | None = None,
    **overrides: Any,
) -> CompiledModule:
    """Compile a module to hardware.

    module: an `nn.Module` (`GraphModule` included) in eval mode, or an `ExportedProgram`; it is never
    modified. example_inputs: tuple of the arguments of forward (a single tensor counts as one). They fix
    the shapes and, without a calibration set, choose the number formats. Without them the first call
    does. An `ExportedProgram` brings its own. options, overrides: see `Options`.

    Raises OptionsError, InputError, CaptureError, UnsupportedOpError or AccuracyError; each says what to do.
    Warns (AccuracyWarning) of inputs calibrated with one constant, of formats that do not hold the
    calibration inputs, and of outputs that miss the tolerance on them. Verilog is made and simulators are
    built when they are first needed.
    """
    chosen = Options.of(options, overrides)
    if chosen.calibration is not None:  # an iterator gives its items once only
        chosen = replace(chosen, calibration=tuple(chosen.calibration))
    hw = CompiledModule(module, chosen, lower)
    if example_inputs is not None:
        hw.specialise(as_arguments(example_inputs))
    elif isinstance(module, ExportedProgram) and module.example_inputs is not None:
        hw.specialise(*module.example_inputs)
    return hw


def lower(module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Options) -> Stages:
    """A module and the arguments of an example call through every stage, each a pure function of the one
    before.
    """
    captured = capture(module, args)
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
    fitted = fit(typed, selection, samples, names, options)
    dump(options.dump, "45-accuracy.txt", fitted)
    typed, selection = fitted.typed, fitted.selection
    plan = plan_memory(selection, schedule(selection, share=options.share), share=options.share)
    verify_plan(selection, plan)
    dump(options.dump, "50-plan.txt", plan)
    design = emit(selection, plan)
    dump(options.dump, "60-design.futil", design.futil)
    return Stages(captured, graph, typed, selection, plan, design, example, fitted.accuracy)
