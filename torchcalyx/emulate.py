"""The program in software, to the bit: the models of its kernels on the buffers of the selection.

Neither the schedule nor the memory plan matters here, so RTL that equals it shows that both were right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from torchcalyx.errors import PlanError
from torchcalyx.ir.lookups import check_index
from torchcalyx.kernels.arith.numerics import IntArray, product
from torchcalyx.kernels.arith.saturation import Saturation
from torchcalyx.kernels.contract import writes
from torchcalyx.plan.images import input_arrays, read_outputs
from torchcalyx.selection import Call, Selection


@dataclass(frozen=True)
class EmulationResult:
    """Everything a run leaves behind, as stored integers.

    buffers: contents (rows, cols) by name; elements that no call writes are zero. outputs: one array for each
    output binding, of its shape, None for a constant. saturated: values that saturated in each call, by name.
    """

    buffers: Mapping[str, IntArray] = field(hash=False)
    outputs: tuple[IntArray | None, ...] = field(hash=False)
    saturated: Mapping[str, Saturation] = field(hash=False)


def emulate(selection: Selection, inputs: Sequence[IntArray]) -> EmulationResult:
    """Run the calls in the order of the selection.

    inputs: stored integers, one array for each input binding, of its shape. Raises InputError when they do
    not fit the bindings, IndexRangeError for an index outside its axis, PlanError when a kernel's model
    returns arrays of another number or shape than its ports state.
    """
    buffers = dict(input_arrays(selection, inputs))
    for buffer in selection.buffers:
        shape = (buffer.layout.rows, buffer.layout.cols)
        if buffer.role == "weight":
            buffers[buffer.name] = np.asarray(selection.weights[buffer.name], dtype=np.int64).reshape(shape)
        elif buffer.role == "temp":
            buffers[buffer.name] = np.zeros(shape, dtype=np.int64)
    saturated = {call.name: _run(call, buffers) for call in selection.calls}
    for check in selection.checks:
        values = check.access.read(buffers[check.buffer])
        check_index(check.source, check.node, values, check.size, check.wrap)
    return EmulationResult(buffers, read_outputs(selection, buffers), saturated)


def _run(call: Call, buffers: dict[str, IntArray]) -> Saturation:
    """One call: the elements it writes enter its buffers, the rest of them stays. Returns what saturated."""
    result = call.spec.emulate(*(buffers[name] for name in call.reads))
    ports = writes(call.spec)
    model = f"the model of call {call.name!r}"
    if len(result.outputs) != len(ports):
        raise PlanError(f"{model} returns {len(result.outputs)} arrays, its kernel writes {len(ports)}")
    for port, name, values in zip(ports, call.writes, result.outputs, strict=True):
        target = buffers[name]
        if values.shape != target.shape:
            have = f"buffer {name!r} of port {port.name!r} has {target.shape}"
            raise PlanError(f"{model} returns shape {values.shape}, {have}")
        port.operand.access.write(target, port.operand.access.read(values))
    out = ports[0].operand
    return Saturation.measured(result.saturated, product(out.access.sizes), out.fmt)
