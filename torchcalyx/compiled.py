"""`CompiledModule`: what `torchcalyx.compile` returns. Verilog and simulators are made when first needed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchcalyx.accuracy.expected import expected_excess
from torchcalyx.emulate import emulate
from torchcalyx.errors import InputError
from torchcalyx.host import Stored, output_value, store_inputs
from torchcalyx.ir.graph import Array
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.options import Options
from torchcalyx.pipeline import (
    Lower,
    Module,
    Stages,
    arrays_of,
    as_arguments,
    as_call,
    calibration_samples,
    output_names,
    positional,
    torch_outputs,
)
from torchcalyx.plan.images import input_images, output_arrays
from torchcalyx.quantize.empty_rows import refuse_empty_rows
from torchcalyx.results.bundle import manifest, vectors
from torchcalyx.results.check import Program, compare_program
from torchcalyx.results.comparison import Comparison
from torchcalyx.results.explain import explain
from torchcalyx.results.report import Report, make_report
from torchcalyx.results.saturations import Saturations, alert, find_saturations
from torchcalyx.results.save import save_design
from torchcalyx.simulate import simulate
from torchcalyx.tools.toolchain import compile_calyx

_EXPORT = threading.RLock()
"""Held while a module is captured: torch.export and the flags that capture sets are of the whole process."""


@dataclass(frozen=True)
class RunResult:
    """One simulated call.

    outputs: as the torch module returns them. cycles: simulated. saturated_inputs: input elements that
    did not fit their format, by input. trace: the waveform file, None without. saturations: every input and
    kernel whose values did not fit, with what would have been enough.
    """

    outputs: Any
    cycles: int
    saturated_inputs: Mapping[str, int]
    trace: Path | None = None
    saturations: Saturations = ()


class CompiledModule:
    """A torch module as hardware. Calling it runs the hardware in the simulator.

    Shapes, dtypes and values that are no tensors are fixed by the example inputs, or by the first call
    when there were none; another call that differs raises InputError. Inputs are quantised to the formats
    chosen at compilation: floats saturate, NaN and integers out of range raise InputError. A call in which
    inputs or kernels saturate does what `Options.on_saturation` says. Inputs are never modified. May be used
    from several threads.
    """

    def __init__(self, module: Module, options: Options, lower: Lower) -> None:
        self._module = module
        self._options = options
        self._lower = lower
        self._lock = threading.RLock()
        self._stages: Stages | None = None
        self._verilog: str | None = None
        self._simulated_cycles: int | None = None
        self._expected: Mapping[str, float] | None = None

    def specialise(self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Stages:
        """The stages, made for these arguments unless they exist."""
        with self._lock:
            if self._stages is None:
                with _EXPORT:
                    self._stages = self._lower(self._module, args, kwargs or {}, self._options)
            return self._stages

    @property
    def stages(self) -> Stages:
        """The value after each stage: captured, graph, typed, selection, plan, design.

        Raises InputError when no inputs have been seen yet.
        """
        stages = self._stages
        if stages is None:
            raise InputError(
                "this module is not compiled yet, because its input shapes are unknown: call it once, or "
                "pass example_inputs to torchcalyx.compile"
            )
        return stages

    @property
    def futil(self) -> str:
        """The program in the Calyx language."""
        return self.stages.design.futil

    @property
    def verilog(self) -> str:
        """The program as SystemVerilog, by the Calyx compiler. Raises ToolNotFound or ToolError."""
        futil = self.futil
        with self._lock:
            if self._verilog is None:
                self._verilog = compile_calyx(futil)
            return self._verilog

    @property
    def cycles(self) -> int:
        """Predicted clock cycles of one call; the simulated count equals it."""
        return self.stages.design.cycles

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the hardware in the simulator; the result has the structure, shapes and dtypes of the torch
        module's.
        """
        stored = self._store(inputs, kwargs)
        silent = self._options.on_saturation == "ignore" and not self.stages.selection.checks
        return self._run([stored], count=not silent)[0].outputs

    def emulate(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the software model, which equals the hardware to the bit and needs no tool."""
        stored, selection = self._store(inputs, kwargs), self.stages.selection
        emulated = emulate(selection, stored.arrays)
        places = find_saturations(selection, stored, emulated)
        alert([places], self._options, self.expected_excess)
        return self._result(emulated.outputs)

    def simulate(self, *inputs: Any, trace: str | Path | None = None, **kwargs: Any) -> RunResult:
        """Run the hardware once. trace: waveform file to write, ending in .vcd or .fst.

        Raises ToolNotFound, ToolError, SimulationError when the simulation hangs or leaves an output
        undefined, or SaturationError when the options ask for it.
        """
        return self._run([self._store(inputs, kwargs)], Path(trace) if trace is not None else None)[0]

    def simulate_batch(self, calls: Iterable[Any]) -> list[RunResult]:
        """Run the hardware for each tuple of inputs in turn, all in one simulator process. With keyword
        arguments each is a pair of tuple and dict. Raises as `simulate`.
        """
        return self._run(self._stored_calls(calls))

    def check(self, *inputs: Any, **kwargs: Any) -> Comparison:
        """Compare torch, software model and hardware, per output and per layer.

        Layers are compared in a second design that keeps each in a memory of its own, for which a second
        simulator may have to be built. The module runs in eval mode as it is now: weights changed since
        compilation show as errors. Layers whose channels were scaled, with the scale undone in the layer
        behind them, are compared as they are in hardware. Raises as `simulate`.
        """
        arguments = positional(self._module, inputs, kwargs)
        s = self.specialise(*arguments)
        arrays = self._arrays(*arguments)
        with self._lock:
            wanted = torch_outputs(self._module, *arguments)
        comparison = compare_program(
            self._program,
            s.typed.graph,
            self._options.simulator,
            arrays,
            self._quantised(arrays),
            list(zip(output_names(s.captured), wanted, strict=True)),
        )
        self._simulated_cycles = comparison.simulated_cycles
        return comparison

    def expected_excess(self) -> Mapping[str, float]:
        """How far the calibration inputs themselves leave the range of each kernel call. Emulates them all,
        the first time.
        """
        s = self.stages
        with self._lock:
            if self._expected is None:
                samples = calibration_samples(s.captured, s.example, self._options)
                self._expected = expected_excess(s.typed, s.selection, samples, self._paths, self._options)
            return self._expected

    def report(self) -> Report:
        """Cycles, utilisation, multipliers and memory of every kernel call; accuracy as compiled."""
        s = self.stages
        return make_report(s.selection, s.plan, s.design, self._simulated_cycles, s.accuracy)

    def explain(self) -> str:
        """Which graph node became which kernel, by which rule, and why other rules refused."""
        return explain(self.stages.typed.graph, self.stages.selection)

    def save(self, directory: str | Path, calls: Sequence[Any] | None = None) -> Path:
        """Write a folder that runs in Icarus or Verilator without Python, and return its path.

        calls: the test vectors to save, as for `simulate_batch` (default: the example inputs). Raises
        InputError when `directory` holds something else than an earlier save, MismatchError as
        `bundle.vectors`, and as `simulate`.
        """
        s = self.stages
        stored = [self._quantised(s.example)] if calls is None else self._stored_calls(calls)
        inputs, expected = vectors(self._program, self.verilog, self._options.simulator, stored)
        extra = manifest(self._program, self._paths, output_names(s.captured))
        html = self.report().to_html()
        return save_design(directory, s.design, self.verilog, inputs, expected, extra, html)

    def __repr__(self) -> str:
        name = type(self._module).__name__
        if self._stages is None:
            return f"CompiledModule({name}, not compiled yet)"
        calls = len(self._stages.selection.calls)
        return f"CompiledModule({name}, {calls} kernel calls, {self.cycles} cycles)"

    @property
    def _program(self) -> Program:
        s = self.stages
        return Program(s.selection, s.plan, s.design)

    @property
    def _paths(self) -> list[str]:
        return [i.path for i in self.stages.captured.tensor_inputs]

    def _arrays(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Array, ...]:
        return arrays_of(self.specialise(args, kwargs).captured.flatten_inputs(args, kwargs))

    def _quantised(self, arrays: Sequence[Array]) -> Stored:
        s = self.stages
        refuse_empty_rows(s.graph, s.typed.heads, arrays)
        return store_inputs(s.selection, self._paths, arrays)

    def _store(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Stored:
        """The stored integers of a call's inputs; the first call compiles."""
        return self._quantised(self._arrays(*positional(self._module, args, kwargs)))

    def _stored_calls(self, calls: Iterable[Any]) -> list[Stored]:
        """The stored integers of a list of calls; where nothing is compiled yet, the first one compiles."""
        stored = []
        for inputs in calls:
            stages = self._stages
            args, kwargs = (as_arguments(inputs), {}) if stages is None else as_call(stages.captured, inputs)
            stored.append(self._store(args, kwargs))
        return stored

    def _run(
        self, calls: Sequence[Stored], trace: Path | None = None, *, count: bool = True
    ) -> list[RunResult]:
        """Simulate calls; what saturates is told before. count: whether to find that out."""
        if not calls:
            return []
        s = self.stages
        saturations: list[Saturations] = [()] * len(calls)
        if count:
            models = (emulate(s.selection, call.arrays) for call in calls)
            saturations = [find_saturations(s.selection, c, m) for c, m in zip(calls, models, strict=True)]
            alert(saturations, self._options, self.expected_excess)
        images = [input_images(s.selection, s.plan, call.arrays) for call in calls]
        found = simulate(s.design, self.verilog, images, simulator=self._options.simulator, trace=trace)
        self._simulated_cycles = found.cycles[-1]
        return [
            RunResult(
                self._result(output_arrays(s.selection, s.plan, {**inputs, **outputs})),
                cycles,
                call.saturated,
                trace,
                places,
            )
            for call, inputs, outputs, cycles, places in zip(
                calls, images, found.outputs, found.cycles, saturations, strict=True
            )
        ]

    def _result(self, stored: Sequence[IntArray | None]) -> Any:
        """The user's result structure from the stored integers of each output."""
        s = self.stages
        tensors = []
        for binding, integers in zip(s.selection.outputs, stored, strict=True):
            if integers is None:
                value = s.selection.constants[binding.node].copy()
            else:
                value = output_value(binding, integers)
            tensors.append(torch.from_numpy(value))
        return s.captured.unflatten_outputs(tensors)
