"""Whether the memories of a plan fit the buffers of its selection."""

from __future__ import annotations

import re
from collections import Counter

from torchcalyx.plan.types import Plan, PlannedMemory
from torchcalyx.selection import Buffer, Selection


def memory_violations(selection: Selection, plan: Plan) -> list[str]:
    """Every misfit: names, roles, sizes, buffers without a memory, buffers that must be alone and are not."""
    buffers = {b.name: b for b in selection.buffers}
    results = {o.buffer for o in selection.outputs if o.buffer is not None}
    used = results.union(*({*call.reads, *call.writes} for call in selection.calls))
    found = []
    names = Counter(m.memory.name.lower() for m in plan.memories)
    for m in plan.memories:
        name = m.memory.name
        if names[name.lower()] != 1:
            found.append(f"memory name {name!r} is used more than once")
        if not re.fullmatch(r"(in|w|out|t)_[0-9A-Za-z_]*[0-9A-Za-z]", name):
            found.append(f"memory name {name!r} is not an identifier with the prefix of a role")
        for resident in m.buffers:
            if resident in buffers:
                found += _resident(m, buffers[resident], resident in results)
            else:
                found.append(f"memory {name!r} holds {resident!r}, which is no buffer of the selection")
    placed = Counter(b for m in plan.memories for b in m.buffers)
    for name, buffer in buffers.items():
        needed = buffer.role != "temp" or name in used
        if placed[name] > 1 or (needed and not placed[name]):
            found.append(f"buffer {name!r} has {placed[name]} memories")
    return found


def _resident(planned: PlannedMemory, buffer: Buffer, is_result: bool) -> list[str]:
    """What is wrong with one buffer in one memory."""
    memory, layout = planned.memory, buffer.layout
    role = "output" if buffer.role == "temp" and is_result else buffer.role
    found = []
    if role != memory.role:
        found.append(f"memory {memory.name!r} is {memory.role!r} but its buffer {buffer.name!r} is {role!r}")
    same_word = (layout.lanes, buffer.fmt.width) == (memory.lanes, memory.element_width)
    if not same_word or layout.words > memory.words:
        size = f"{layout.words} words of {layout.lanes}x{buffer.fmt.width} bits"
        found.append(f"buffer {buffer.name!r} of {size} does not fit {planned}")
    if role != "temp" and (len(planned.buffers) != 1 or layout.words != memory.words):
        found.append(f"buffer {buffer.name!r} needs a memory of its own and of its size, not {planned}")
    return found
