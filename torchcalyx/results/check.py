"""The work behind `CompiledModule.check`: run software model, hardware and reference, then compare value
by value.

A program shares memories, so most layers are gone when it ends. Layers are therefore compared in a second
design of the same kernel calls in which every buffer keeps a memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from torchcalyx.design import Design, Image
from torchcalyx.emit import emit
from torchcalyx.emulate import EmulationResult, emulate
from torchcalyx.host import Stored, output_value, real_values
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.ir.reference import reference
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.plan import Plan, plan_memory, schedule, verify_plan
from torchcalyx.plan.images import buffer_array, input_images, output_arrays
from torchcalyx.results.comparison import Comparison, ValueComparison, compare_value
from torchcalyx.results.saturations import find_saturations
from torchcalyx.selection import Selection
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.tools.toolchain import compile_calyx


@dataclass(frozen=True)
class Program:
    """A selection with its plan and design."""

    selection: Selection
    plan: Plan
    design: Design


def compare_program(
    program: Program,
    graph: Graph,
    simulator: Simulator,
    inputs: Sequence[Array],
    stored: Stored,
    wanted: Sequence[tuple[str, Array]],
) -> Comparison:
    """The comparison for one call. inputs, stored: as the user gave them and quantised. wanted: name and
    torch's value of each output.

    Raises what simulation raises.
    """
    selection = program.selection
    emulated = emulate(selection, stored.arrays)
    kept = keep_layers(selection)
    one = kept.design == program.design
    found = _run(program, simulator, stored, dump=one)
    layers = found if one else _run(kept, simulator, stored, dump=True)
    return Comparison(
        outputs=_outputs(selection, graph, emulated, found.outputs, wanted),
        layers=_layers(selection, graph, emulated, layers.buffers, inputs),
        predicted_cycles=program.design.cycles,
        simulated_cycles=found.cycles,
        layers_cycles=None if one else (kept.design.cycles, layers.cycles),
        saturated=sum(emulated.saturated.values()),
        saturated_inputs=stored.saturated,
        saturations=find_saturations(selection, stored, emulated),
    )


def keep_layers(selection: Selection) -> Program:
    """The program in which every buffer has a memory of its own."""
    plan = plan_memory(selection, schedule(selection, share=False), share=False)
    verify_plan(selection, plan)
    return Program(selection, plan, emit(selection, plan))


@dataclass(frozen=True)
class _Found:
    """What the hardware computed: stored integers of each output, of each buffer dumped, and the cycles."""

    outputs: Sequence[IntArray | None]
    buffers: Mapping[str, IntArray]
    cycles: int


def _run(program: Program, simulator: Simulator, stored: Stored, *, dump: bool) -> _Found:
    selection, plan, design = program.selection, program.plan, program.design
    private = [m.name for m in design.of_role("temp")] if dump else []
    images = input_images(selection, plan, stored.arrays)
    result = simulate(design, compile_calyx(design.futil), [images], simulator=simulator, dump=private)
    memories: dict[str, Image] = {**result.outputs[0], **(result.memories[0] if private else {})}
    buffers = {
        name: buffer_array(selection, plan, name, memories)
        for name, memory in plan.placement.items()
        if dump and memory in memories
    }
    outputs = output_arrays(selection, plan, {**images, **result.outputs[0]})
    return _Found(outputs, buffers, result.cycles[0])


def _outputs(
    selection: Selection,
    graph: Graph,
    emulated: EmulationResult,
    found: Sequence[IntArray | None],
    wanted: Sequence[tuple[str, Array]],
) -> tuple[ValueComparison, ...]:
    rows = []
    pairs = zip(wanted, selection.outputs, emulated.outputs, found, strict=True)
    for (name, value), binding, model, hardware in pairs:
        rows.append(
            compare_value(
                name,
                value,
                selection.constants[binding.node] if model is None else output_value(binding, model),
                op=graph.node(binding.node).op,
                dtype=binding.dtype,
                fmt=None if model is None else binding.fmt,
                differing=None if model is None or hardware is None else _count(model, hardware),
                saturated=_saturated(selection, emulated, binding.node),
                source=graph.node(binding.node).source,
            )
        )
    return tuple(rows)


def _layers(
    selection: Selection,
    graph: Graph,
    emulated: EmulationResult,
    found: Mapping[str, IntArray],
    inputs: Sequence[Array],
) -> tuple[ValueComparison, ...]:
    nodes = tuple(value.node for value in selection.values)
    wanted = reference(replace(graph, outputs=nodes), inputs)
    rows = []
    for value, real in zip(selection.values, wanted, strict=True):
        model = value.access.read(emulated.buffers[value.buffer])
        hardware = found.get(value.buffer)
        node = graph.node(value.node)
        rows.append(
            compare_value(
                value.node,
                real,
                real_values(value.fmt, model).reshape(real.shape),
                op=node.op,
                dtype=node.dtype,
                fmt=value.fmt,
                differing=None if hardware is None else _count(model, value.access.read(hardware)),
                saturated=_saturated(selection, emulated, value.node),
                source=node.source,
            )
        )
    return tuple(rows)


def _count(a: IntArray, b: IntArray) -> int:
    return int(np.count_nonzero(np.asarray(a).ravel() != np.asarray(b).ravel()))


def _saturated(selection: Selection, emulated: EmulationResult, node: str) -> int:
    return sum(emulated.saturated.get(call.name, 0) for call in selection.calls if call.node == node)
