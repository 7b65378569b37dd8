"""Sorting: elements and indices of one order are two nodes and one kernel call."""

from __future__ import annotations

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.folds.sort import Sort
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.match import Match, Reject, Rule

_OPS = ("sort", "argsort")


def _sort(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in _OPS:
        return Reject(f"{node.op} is no sorting", related=False)
    return Match((node.name,), node.args, lambda builder: _build(builder, node))


def _build(builder: SelectionBuilder, node: Node) -> Located:
    """The call, or what the call for the other result has written already."""
    made = builder.located.get(node.name)
    if made is not None:
        return made
    source, dim = builder.value(node.args[0]), node.whole("dim")
    order = (*(d for d in range(len(node.shape)) if d != dim), dim)
    back = tuple(order.index(d) for d in range(len(order)))
    shape = tuple(node.shape[d] for d in order)
    layout = rows_of_last_axis(shape, builder.lanes)
    access = whole(shape, layout)
    wanted = _together(builder.view, node)
    outs = {op: Operand(builder.view.formats[n.name], layout, access) for op, n in wanted.items()}
    descending = bool(node.attr("descending"))

    def spec(value: Located) -> Sort:
        turned = Located(value.buffer, value.access.permute(order), value.fmt)
        return Sort(builder.operand(turned), outs.get("sort"), outs.get("argsort"), descending)

    try:
        kernel = spec(source)
    except KernelParameterError as error:
        turned = Located(source.buffer, source.access.permute(order), source.fmt)
        copy = builder.relayout(turned, layout, shape, f"sorting reads rows word by word: {error}")
        source = Located(copy.buffer, copy.access.permute(back), copy.fmt)
        kernel = spec(source)
    buffers = {op: builder.buffer(n.name, outs[op].fmt, layout) for op, n in wanted.items()}
    builder.call(kernel, [source.buffer], [buffers[op] for op in _OPS if op in buffers])
    for op, other in wanted.items():
        builder.located[other.name] = Located(buffers[op], access.permute(back), outs[op].fmt)
    return builder.located[node.name]


def _together(view: GraphView, node: Node) -> dict[str, Node]:
    """The nodes that ask for the elements and for the indices of the same order, by operation."""
    found = {node.op: node}
    for name in sorted(view.users[node.args[0]]):
        other = view.nodes[name]
        if other.op in _OPS and (other.args, other.attrs) == (node.args, node.attrs):
            found.setdefault(other.op, other)
    return found


RULES = (Rule("sort", _sort),)
