"""Whether the parts of a selection fit each other: buffers, calls, bindings, weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from torchcalyx.errors import PlanError
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.contract import Port, reads, writes
from torchcalyx.kernels.ports.access import Access
from torchcalyx.selection import Buffer, Call, InputBinding, OutputBinding, Selection


def verify_selection(selection: Selection) -> None:
    """Raise PlanError with every misfit; return when there is none."""
    raise_violations("selection", _violations(selection))


def raise_violations(what: str, problems: Sequence[str]) -> None:
    """Raise one PlanError for all problems, if there are any."""
    if problems:
        count = "1 rule" if len(problems) == 1 else f"{len(problems)} rules"
        raise PlanError(f"the {what} breaks {count}:\n" + "\n".join(f"  - {p}" for p in problems))


def _violations(selection: Selection) -> list[str]:
    buffers = {b.name: b for b in selection.buffers}
    found = _twice("buffer", (b.name for b in selection.buffers))
    found += _twice("call", (c.name for c in selection.calls))
    for call in selection.calls:
        found += _call(call, buffers)
    for binding in selection.inputs:
        found += _input(binding, buffers.get(binding.buffer))
    bound = Counter(binding.buffer for binding in selection.inputs)
    for buffer in selection.buffers:
        if buffer.role == "input" and bound[buffer.name] != 1:
            found.append(f"input buffer {buffer.name!r} is bound to {bound[buffer.name]} inputs")
        if buffer.role == "weight":
            found += _weight(buffer, selection)
    for output in selection.outputs:
        found += _output(output, buffers, selection)
    return found


def _twice(what: str, names: Iterable[str]) -> list[str]:
    return [
        f"{what} name {name!r} is used {count} times" for name, count in Counter(names).items() if count > 1
    ]


def _call(call: Call, buffers: Mapping[str, Buffer]) -> list[str]:
    found = []
    for what, ports, names in (
        ("reads", reads(call.spec), call.reads),
        ("writes", writes(call.spec), call.writes),
    ):
        if len(ports) != len(names):
            found.append(f"call {call.name!r} {what} {len(names)} buffers, its kernel {len(ports)}")
            continue
        found += [
            p for port, name in zip(ports, names, strict=True) if (p := _port(call, port, name, buffers))
        ]
    return found


def _port(call: Call, port: Port, name: str, buffers: Mapping[str, Buffer]) -> str | None:
    buffer = buffers.get(name)
    if buffer is None:
        return f"call {call.name!r} names buffer {name!r}, which does not exist"
    have, want = buffer, port.operand
    where = f"port {port.name!r} of call {call.name!r}"
    if have.layout != want.layout:
        return f"{where} expects {want.layout}, buffer {name!r} has {have.layout}"
    # The binary point may differ: a buffer read with another one is the same integers scaled by a power of
    # two.
    if (have.fmt.width, have.fmt.signed) != (want.fmt.width, want.fmt.signed):
        return f"{where} expects {want.fmt}, buffer {name!r} has {have.fmt}"
    return None


def _input(binding: InputBinding, buffer: Buffer | None) -> list[str]:
    if buffer is None or buffer.role != "input":
        return [f"input {binding.node!r} is bound to {binding.buffer!r}, which is no input buffer"]
    found = []
    if product(binding.shape) != buffer.layout.rows * buffer.layout.cols:
        found.append(f"input {binding.node!r} of shape {binding.shape} does not fill {buffer.layout}")
    if (binding.fmt.width, binding.fmt.signed) != (buffer.fmt.width, buffer.fmt.signed):
        found.append(f"input {binding.node!r} has format {binding.fmt}, its buffer {buffer.fmt}")
    return found


def _weight(buffer: Buffer, selection: Selection) -> list[str]:
    values = selection.weights.get(buffer.name)
    shape = (buffer.layout.rows, buffer.layout.cols)
    if values is None:
        return [f"weight buffer {buffer.name!r} has no values"]
    if np.shape(values) != shape:
        return [f"weight buffer {buffer.name!r} of shape {shape} has values of shape {np.shape(values)}"]
    low, high = int(np.min(values)), int(np.max(values))
    if low < buffer.fmt.min or high > buffer.fmt.max:
        return [f"weight buffer {buffer.name!r} has values {low}..{high} outside of {buffer.fmt}"]
    return []


def _output(output: OutputBinding, buffers: Mapping[str, Buffer], selection: Selection) -> list[str]:
    if output.buffer is None:
        known = output.node in selection.constants
        return [] if known else [f"output {output.node!r} is a constant without a value"]
    buffer = buffers.get(output.buffer)
    if buffer is None:
        return [f"output {output.node!r} is bound to {output.buffer!r}, which is no buffer"]
    found = []
    access = output.access
    if access is None or access.sizes != output.shape:
        sizes = None if access is None else access.sizes
        found.append(f"output {output.node!r} of shape {output.shape} is read over {sizes}")
    elif not _inside(access, buffer):
        found.append(f"output {output.node!r} is read outside of {buffer.layout}")
    if (output.fmt.width, output.fmt.signed) != (buffer.fmt.width, buffer.fmt.signed):
        found.append(f"output {output.node!r} has format {output.fmt}, its buffer {buffer.fmt}")
    return found


def _inside(access: Access, buffer: Buffer) -> bool:
    """Whether an affine access stays in the buffer: its corners do."""
    if access.limits:  # the padding of a view keeps the rest inside
        rows, columns = (index.ravel() for index in access.memory_indices())
        return bool(
            np.all(
                (rows >= 0) & (rows < buffer.layout.rows) & (columns >= 0) & (columns < buffer.layout.cols)
            )
        )
    for offset, steps, limit in zip(
        access.offsets, access.steps, (buffer.layout.rows, buffer.layout.cols), strict=True
    ):
        reach = [step * (size - 1) for step, size in zip(steps, access.sizes, strict=True)]
        if offset + sum(min(r, 0) for r in reach) < 0 or offset + sum(max(r, 0) for r in reach) >= limit:
            return False
    return True
