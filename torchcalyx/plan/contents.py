"""What each memory holds while a program runs, element by element, on marks instead of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from torchcalyx.kernels.contract import reads, writes
from torchcalyx.kernels.ports.access import Access
from torchcalyx.selection import Buffer, Call, Selection


@dataclass
class _Content:
    """The buffer whose elements a memory holds, and which of them have been written."""

    owner: str
    written: npt.NDArray[np.bool_]


def content_violations(
    selection: Selection, calls: Sequence[Call], placement: Mapping[str, str]
) -> list[str]:
    """Reads of elements that are not there, writes to inputs and weights, results that are incomplete.

    calls: in an order in which the program may run them. placement: memory of each buffer.
    """
    buffers = {b.name: b for b in selection.buffers}
    memories: dict[str, _Content] = {}
    found = []
    for buffer in selection.buffers:
        if buffer.role != "temp":
            # Whole from the start and never written: one mark stands for all elements.
            memories[placement[buffer.name]] = _Content(buffer.name, np.ones((1, 1), dtype=np.bool_))
    for call in calls:
        for port, name in zip(reads(call.spec), call.reads, strict=True):
            problem = _missing(memories.get(placement[name]), name, port.operand.access)
            if problem:
                found.append(f"call {call.name!r} reads {problem}")
        for port, name in zip(writes(call.spec), call.writes, strict=True):
            if buffers[name].role != "temp":
                found.append(f"call {call.name!r} writes buffer {name!r}, which is {buffers[name].role!r}")
                continue
            content = memories.get(placement[name])
            if content is None or content.owner != name:
                content = memories[placement[name]] = _Content(name, _unwritten(buffers[name]))
            if not content.written.all():
                port.operand.access.write(content.written, np.asarray(True))
    for name in dict.fromkeys(o.buffer for o in selection.outputs if o.buffer is not None):
        content = memories.get(placement[name])
        if content is None or content.owner != name or not content.written.all():
            found.append(f"the program returns buffer {name!r}, which at its end is not wholly written")
    return found


def _unwritten(buffer: Buffer) -> npt.NDArray[np.bool_]:
    return np.zeros((buffer.layout.rows, buffer.layout.cols), dtype=np.bool_)


def _missing(content: _Content | None, name: str, access: Access) -> str | None:
    """What is wrong with reading buffer `name` through `access` from such a memory (None: nothing)."""
    if content is None:
        return f"buffer {name!r}, which nothing has written"
    if content.owner != name:
        return f"buffer {name!r}, whose memory holds buffer {content.owner!r} by then"
    if content.written.all():
        return None
    rows, columns = access.memory_indices()
    # A kernel may mask what lies outside (padding of a convolution): it never fetches it.
    limits = content.written.shape
    inside = (rows >= 0) & (rows < limits[0]) & (columns >= 0) & (columns < limits[1])
    absent = np.argwhere(~content.written[rows[inside], columns[inside]])
    if not absent.size:
        return None
    index = int(absent[0, 0])
    place = (int(rows[inside][index]), int(columns[inside][index]))
    return f"element {place} of buffer {name!r}, which nothing has written"
