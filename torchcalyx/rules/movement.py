"""Data movement that needs memory of its own: concatenation and constant padding."""

from __future__ import annotations

from dataclasses import dataclass

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import memory_order, rows_of_last_axis, unpermuted
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.moves.gather import GatherSource
from torchcalyx.kernels.moves.relayout import relayout
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.match import Match, Reject, Rule


@dataclass(frozen=True)
class _Part:
    """A value and where it begins in the result."""

    value: Located
    starts: tuple[int, ...]


def _cat(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "cat":
        return Reject(f"{node.op} does not join tensors", related=False)
    filled = tuple(a.name for a in view.args(node) if product(a.shape))
    return Match((node.name,), filled, lambda builder: _build_cat(builder, node, filled))


def _build_cat(builder: SelectionBuilder, node: Node, names: tuple[str, ...]) -> Located:
    dim = node.whole("dim")
    parts, place = [], 0
    for name in names:
        value = builder.value(name)
        parts.append(_Part(value, tuple(place if d == dim else 0 for d in range(len(node.shape)))))
        place += value.shape[dim]
    return _join(builder, node, parts, 0)


def _pad(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "pad":
        return Reject(f"{node.op} does not pad", related=False)
    return Match((node.name,), node.args, lambda builder: _build_pad(builder, node))


def _build_pad(builder: SelectionBuilder, node: Node) -> Located:
    fill = int(builder.view.formats[node.name].quantize(node.number("value")))
    return _join(builder, node, [_Part(builder.value(node.args[0]), node.ints("before"))], fill)


def _join(builder: SelectionBuilder, node: Node, parts: list[_Part], fill: int) -> Located:
    """Whole words where every part begins and ends at words, else one element a cycle."""
    fmt = builder.view.formats[node.name]
    natural = tuple(range(len(node.shape)))
    order = builder.view.wanted.get(node.name) or memory_order(builder, parts[0].value)
    shape = tuple(node.shape[d] for d in order)
    layout = row_major(shape, builder.lanes) if order == natural else rows_of_last_axis(shape, builder.lanes)
    out = Operand(fmt, layout, whole(shape, layout))
    access = unpermuted(out.access, order)
    buffer = builder.buffer(node.name, fmt, layout)
    parts = [
        _Part(
            Located(p.value.buffer, p.value.access.permute(order), p.value.fmt),
            tuple(p.starts[d] for d in order),
        )
        for p in parts
    ]
    covered = sum(product(p.value.shape) for p in parts) == product(node.shape)
    copies = _word_copies(builder, parts, out) if covered else None
    if copies is not None:
        for part, spec in zip(parts, copies, strict=True):
            builder.call(spec, [part.value.buffer], [buffer])
        return Located(buffer, access, fmt)
    ports: dict[str, int] = {}
    sources = []
    for part in parts:
        value = part.value
        number = ports.setdefault(value.buffer, len(ports))
        operand = builder.operand(value)
        sources.append(GatherSource(operand, part.starts, narrowing(value.fmt, fmt), number))
    builder.call(relayout(sources, out, fill), list(ports), [buffer])
    return Located(buffer, access, fmt)


def _word_copies(builder: SelectionBuilder, parts: list[_Part], out: Operand) -> list[KernelSpec] | None:
    """An elementwise copy for each part, or None when one of them does not fit words."""
    specs: list[KernelSpec] = []
    for part in parts:
        ones = (1,) * len(part.starts)
        target = Operand(out.fmt, out.layout, out.access.slice(part.starts, ones, part.value.shape))
        source = builder.operand(part.value)
        try:
            specs.append(elementwise(narrowing(source.fmt, out.fmt), (source,), target))
        except KernelParameterError:
            return None
    return specs


RULES = (Rule("cat", _cat), Rule("pad", _pad))
