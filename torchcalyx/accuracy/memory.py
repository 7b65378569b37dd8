"""Bits of memory that a choice of widths takes: of each stored value, and of a whole program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchcalyx.accuracy.rounding import roots
from torchcalyx.ir.graph import Graph
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.options import Options
from torchcalyx.plan import plan_memory, schedule
from torchcalyx.quantize import Typed
from torchcalyx.selection import InputBinding, Selection, ValueBinding


def memory_bits(selection: Selection, options: Options) -> int:
    """Of all memories of the program: words with their padding, buffers that share a memory once."""
    plan = plan_memory(selection, schedule(selection, share=options.share), share=options.share)
    return sum(memory.memory.bits for memory in plan.memories)


def tensor_bits(typed: Typed, selection: Selection) -> int:
    """Of all values in memory that have a width of their own."""
    names = roots(typed)
    elements = places(typed.graph, selection, names)
    return sum(elements[name] * typed.formats[name].width for name in names)


def places(graph: Graph, selection: Selection, names: Iterable[str]) -> Mapping[str, int]:
    """Elements of memory that hold each of some values, with padding and copies: bits for a bit of width."""
    sizes = {b.name: b.layout.words * b.layout.lanes for b in selection.buffers}
    buffers: dict[str, set[str]] = {}
    bindings: tuple[InputBinding | ValueBinding, ...] = (*selection.inputs, *selection.values)
    for bound in bindings:
        buffers.setdefault(bound.node, set()).add(bound.buffer)
    copies = [c for c in selection.calls if c.reason]
    found: dict[str, int] = {}
    for name in names:
        own = buffers.get(name, set())
        if name in graph.constants:
            title = graph.parameter_names.get(name, name)
            own = {b for b in selection.weights if b == title or b.startswith(f"{title}~")}
        for call in copies:
            if own & set(call.reads):
                own = own | set(call.writes)
        found[name] = sum(sizes[b] for b in own) or product(graph.node(name).shape)
    return found
