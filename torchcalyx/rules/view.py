"""Views: another access to the same buffer; a copy only where no affine access exists."""

from __future__ import annotations

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.ports.access import row_major, whole
from torchcalyx.match import Match, Reject, Rule


def _apply(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in ("view", "permute", "slice", "expand", "scale"):
        return Reject(f"{node.op} is not a view", related=False)
    return Match((node.name,), node.args, lambda builder: _build(builder, node))


def _build(builder: SelectionBuilder, node: Node) -> Located:
    source = builder.value(node.args[0])
    access = source.access
    if node.op == "scale":
        return source
    if node.op == "permute":
        return Located(source.buffer, access.permute(node.ints("dims")), source.fmt)
    if node.op == "expand":
        return Located(source.buffer, access.expand(node.shape), source.fmt)
    if node.op == "slice":
        sliced = access.slice(node.ints("starts"), node.ints("steps"), node.ints("sizes"))
        return Located(source.buffer, sliced, source.fmt)
    viewed = access.reshape(node.shape)
    if viewed is not None:
        return Located(source.buffer, viewed, source.fmt)
    layout = row_major(node.shape, builder.lanes)
    reason = f"the elements of {list(source.shape)} are not evenly spaced when seen as {list(node.shape)}"
    copy = builder.relayout(source, layout, node.shape, reason)
    return Located(copy.buffer, whole(node.shape, layout), source.fmt)


def _apply_pad(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "pad":
        return Reject(f"{node.op} does not pad", related=False)
    if view.formats[node.name] != view.formats[node.args[0]]:
        return Reject("the padding value needs another number format than the elements")
    return Match((node.name,), node.args, lambda builder: _build_pad(builder, node))


def _build_pad(builder: SelectionBuilder, node: Node) -> Located:
    source = builder.value(node.args[0])
    fill = int(source.fmt.quantize(node.number("value")))
    before, after = node.ints("before"), node.ints("after")
    padded = source.access.pad(before, after, fill)
    if padded is None:  # padding of another value lies around it already
        layout = row_major(source.shape, builder.lanes)
        copy = builder.relayout(source, layout, source.shape, "padding of two values around one tensor")
        source, padded = copy, copy.access.pad(before, after, fill)
        assert padded is not None
    return Located(source.buffer, padded, source.fmt)


RULES = (Rule("view", _apply), Rule("padding as a view", _apply_pad))
