"""What `CompiledModule.save` puts beside the design: expected output words, and where each tensor lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchcalyx.design import Image
from torchcalyx.emulate import EmulationResult, emulate
from torchcalyx.errors import MismatchError
from torchcalyx.host import Stored
from torchcalyx.plan.images import input_images, output_arrays
from torchcalyx.results.check import Program
from torchcalyx.selection import Buffer
from torchcalyx.simulate import Simulator, simulate


def vectors(
    program: Program, verilog: str, simulator: Simulator, calls: Sequence[Stored]
) -> tuple[list[dict[str, Image]], list[dict[str, Image]]]:
    """Images of the input memories and the expected ones of the output memories, one of each a call.

    Expected elements are the software model's. A word's padding lanes, which mean nothing, hold what the
    hardware leaves there; so a design with such lanes is simulated, and MismatchError raised should it
    not equal the software model.
    """
    selection, plan = program.selection, program.plan
    inputs = [input_images(selection, plan, call.arrays) for call in calls]
    emulated = [emulate(selection, call.arrays) for call in calls]
    expected = [_packed(program, result) for result in emulated]
    if any(_padded(buffer) for buffer, _ in _results(program)):
        found = simulate(program.design, verilog, inputs, simulator=simulator).outputs
        for number, (images, model) in enumerate(zip(found, emulated, strict=True)):
            outputs = output_arrays(selection, plan, {**inputs[number], **images})
            for binding, a, b in zip(selection.outputs, outputs, model.outputs, strict=True):
                if a is not None and b is not None and not np.array_equal(a, b):
                    raise MismatchError(
                        f"call {number}: output {binding.node!r} of the simulated hardware differs from "
                        "the software model; nothing was saved (CompiledModule.check shows where)"
                    )
        expected = [dict(images) for images in found]
    return inputs, expected


def manifest(program: Program, input_paths: Sequence[str], output_names: Sequence[str]) -> dict[str, Any]:
    """JSON values that tell where the model's tensors lie in the memories.

    inputs: name, memory, shape, dtype, format; the tensor's elements, its axes taken in `order`, row-major,
    fill rows x cols, each row padded to whole words. outputs: the same, and offsets and steps: element [i0,
    i1, ...] stands at row offsets[0] + sum(i * steps[0]) and column offsets[1] + sum(i * steps[1]); a
    constant has no memory but its value. axis and exponents, where channels have binary points of their own:
    the value at place i along the axis is the format's times 2 ** exponents[i].
    """
    selection, placement = program.selection, program.plan.placement
    buffers = {b.name: b for b in selection.buffers}
    inputs = [
        {
            "name": path,
            **_place(buffers[i.buffer], placement),
            "shape": i.shape,
            "dtype": i.dtype,
            "order": i.order or tuple(range(len(i.shape))),
        }
        for path, i in zip(input_paths, selection.inputs, strict=True)
    ]
    outputs: list[dict[str, Any]] = []
    for name, o in zip(output_names, selection.outputs, strict=True):
        entry: dict[str, Any] = {"name": name, "shape": o.shape, "dtype": o.dtype}
        if o.buffer is None or o.access is None:
            entry["value"] = selection.constants[o.node].tolist()
        else:
            entry.update(
                _place(buffers[o.buffer], placement),
                offsets=o.access.offsets,
                steps=o.access.steps,
                limits=o.access.limits,
                fill=o.access.fill,
            )
            if o.exponents:
                entry.update(axis=o.axis, exponents=o.exponents)
        outputs.append(entry)
    return {"inputs": inputs, "outputs": outputs}


def _place(buffer: Buffer, placement: Mapping[str, str]) -> dict[str, Any]:
    layout = buffer.layout
    return {
        "memory": placement[buffer.name],
        "format": str(buffer.fmt),
        "rows": layout.rows,
        "cols": layout.cols,
        "lanes": layout.lanes,
    }


def _results(program: Program) -> list[tuple[Buffer, str]]:
    """Each buffer in an output memory, and the memory."""
    planned = [m for m in program.plan.memories if m.memory.role == "output"]
    return [(program.selection.buffer(name), m.memory.name) for m in planned for name in m.buffers]


def _padded(buffer: Buffer) -> bool:
    return buffer.layout.cols % buffer.layout.lanes != 0


def _packed(program: Program, result: EmulationResult) -> dict[str, Image]:
    return {
        memory: buffer.layout.pack(buffer.fmt.to_image(result.buffers[buffer.name]))
        for buffer, memory in _results(program)
    }
