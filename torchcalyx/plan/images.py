"""Between the integers of tensors and the images of a planned program's memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from torchcalyx.design import Image
from torchcalyx.errors import InputError
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.plan.types import Plan
from torchcalyx.selection import Buffer, InputBinding, Selection


def input_images(selection: Selection, plan: Plan, inputs: Sequence[IntArray]) -> dict[str, Image]:
    """Image of each input memory, by name. inputs: stored integers, one array for each input binding, of its
    shape.

    Raises InputError as `input_arrays` does.
    """
    arrays = input_arrays(selection, inputs)
    return {plan.placement[name]: _image(selection.buffer(name), array) for name, array in arrays.items()}


def weight_images(selection: Selection, plan: Plan) -> dict[str, Image]:
    """Image of each weight memory, by name."""
    weights = [b for b in selection.buffers if b.role == "weight"]
    return {plan.placement[b.name]: _image(b, selection.weights[b.name]) for b in weights}


def input_arrays(selection: Selection, inputs: Sequence[IntArray]) -> dict[str, IntArray]:
    """Contents (rows, cols) of each input buffer, by name.

    Raises InputError when the number of arrays, a shape or the range of a value does not fit its binding.
    """
    if len(inputs) != len(selection.inputs):
        raise InputError(f"the program takes {len(selection.inputs)} inputs, got {len(inputs)}")
    return {
        binding.buffer: _contents(selection.buffer(binding.buffer), binding, np.asarray(array))
        for binding, array in zip(selection.inputs, inputs, strict=True)
    }


def output_arrays(
    selection: Selection, plan: Plan, images: Mapping[str, Image]
) -> tuple[IntArray | None, ...]:
    """Stored integers of each output, of its shape; None for a constant.

    images: of the output memories after a run and, for results that are views of inputs, of the input
    memories.
    """
    return read_outputs(
        selection,
        {
            name: selection.weights[name]
            if selection.buffer(name).role == "weight"
            else buffer_array(selection, plan, name, images)
            for name in {o.buffer for o in selection.outputs if o.buffer is not None}
        },
    )


def read_outputs(selection: Selection, buffers: Mapping[str, IntArray]) -> tuple[IntArray | None, ...]:
    """The outputs, read from buffers (rows, cols); None for a constant."""
    found: list[IntArray | None] = []
    for output in selection.outputs:
        if output.buffer is None or output.access is None:
            found.append(None)
        else:
            found.append(np.array(output.access.read(buffers[output.buffer]), dtype=np.int64))
    return tuple(found)


def buffer_array(selection: Selection, plan: Plan, name: str, images: Mapping[str, Image]) -> IntArray:
    """Stored integers (rows, cols) of a buffer in the image of its memory; InputError when that is not among
    `images`.

    A memory that several buffers share holds, after a run, the one that was written last.
    """
    buffer = selection.buffer(name)
    memory = plan.placement[name]
    if memory not in images:
        raise InputError(f"buffer {name!r} lives in memory {memory!r}, of which there is no image")
    return buffer.fmt.from_image(buffer.layout.unpack(images[memory]))


def _contents(buffer: Buffer, binding: InputBinding, array: IntArray) -> IntArray:
    if array.shape != binding.shape:
        raise InputError(f"input {binding.node!r} has shape {binding.shape}, got shape {array.shape}")
    if array.dtype.kind not in "biuO":
        raise InputError(f"input {binding.node!r} takes stored integers, not {array.dtype}")
    if array.size and not buffer.fmt.min <= int(array.min()) <= int(array.max()) <= buffer.fmt.max:
        raise InputError(
            f"input {binding.node!r} has stored integers {array.min()}..{array.max()} outside of {buffer.fmt}"
        )
    ordered = array.astype(np.int64).transpose(binding.order or tuple(range(array.ndim)))
    return ordered.reshape(buffer.layout.rows, buffer.layout.cols)


def _image(buffer: Buffer, array: IntArray) -> Image:
    return buffer.layout.pack(buffer.fmt.to_image(array))
