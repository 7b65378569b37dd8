"""Convolutions: a matrix product over sliding windows on the dot array, the elementwise operations behind
it in the drain.

Aligned groups are one call each; other groups are one dense product with zeros between the groups. A
depthwise convolution is a multiply-accumulate a lane (`depthwise`). One input channel along one axis is
folded into the lanes (`fold`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchcalyx.graph import Node
from torchcalyx.kernels.access import Operand, whole
from torchcalyx.kernels.contraction import accumulator
from torchcalyx.kernels.dot import dot
from torchcalyx.kernels.numerics import IntArray, product
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.depthwise import depthwise
from torchcalyx.rules.drain import Drain, fused_head
from torchcalyx.rules.fold import build_fold, fold_of
from torchcalyx.rules.matmul import dot_columns
from torchcalyx.rules.windows import channel_order, channels_first, part_of, windowed
from torchcalyx.select.builder import Located, SelectionBuilder
from torchcalyx.select.placing import rows_of_last_axis
from torchcalyx.select.tree import Tree, tree_of
from torchcalyx.select.view import GraphView


def _fused(view: GraphView, node: Node) -> Match | Reject:
    found = fused_head(view, node, ("conv",))
    return found if isinstance(found, Reject) else _match(view, found[0], found[1], node)


def _alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "conv":
        return Reject(f"{node.op} is not a convolution", related=False)
    return _match(view, node, tree_of(view, set()), node)


def _match(view: GraphView, head: Node, tree: Tree, root: Node) -> Match | Reject:
    if view.nodes[head.args[1]].op != "constant":
        return Reject("the weights are computed at run time; only constant ones are packed for the dot array")
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = (head.name, *(n.name for n in tree.nodes))
    return Match(covers, (*head.args, *others), lambda builder: _build(builder, head, tree, root))


@dataclass(frozen=True)
class _Group:
    """Channels of one kernel call: first and count, of input and of output."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]


def _build(builder: SelectionBuilder, head: Node, tree: Tree, root: Node) -> Located:
    """One call, or one for each group of aligned channels."""
    view = builder.view
    batch, features, *spatial = head.shape
    channels, groups = view.args(head)[0].shape[1], head.whole("groups")
    domain = (batch, *spatial, features)
    layout = rows_of_last_axis(domain, builder.lanes)
    fmt = view.formats[root.name]
    buffer = builder.buffer(root.name, fmt, layout)
    out = Operand(fmt, layout, whole(domain, layout))
    per_in, per_out = channels // groups, features // groups
    drain = Drain(builder, head, tree, domain, channel_order(len(domain)))
    if groups == channels == features and groups > 1:
        depthwise(builder, head, drain, out, buffer)
    elif groups > 1 and not per_in % builder.lanes and not per_out % builder.lanes:
        for g in range(groups):
            _dense(builder, head, drain, out, buffer, _Group((g * per_in, per_in), (g * per_out, per_out)))
    else:
        fold = fold_of(builder, head, tree, out)
        if fold is not None:
            build_fold(builder, head, fold, out, buffer)
        else:
            _dense(builder, head, drain, out, buffer, _Group((0, channels), (0, features)))
    return Located(buffer, channels_first(out.access), fmt)


def _dense(
    builder: SelectionBuilder, head: Node, drain: Drain, out: Operand, buffer: str, group: _Group
) -> None:
    view = builder.view
    x, weight = view.args(head)[:2]
    kernel, weight_fmt = weight.shape[2:], view.formats[weight.name]
    axes = len(kernel)
    why = f"the dot array reads {builder.lanes} neighbouring channels a cycle"
    value = windowed(builder, head, builder.value(x.name), kernel, 0, why, group.inputs[1])
    access = part_of(value.access, 1, group.inputs)
    positions, taps = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    left = Operand(value.fmt, builder.buffers[value.buffer].layout, access.permute((0, *positions, *taps, 1)))
    total = accumulator(value.fmt, weight_fmt, product(kernel) * group.inputs[1])
    part = Operand(out.fmt, out.layout, part_of(out.access, len(out.access.sizes) - 1, group.outputs))
    expr, placed = drain.epilogue(total, weight_fmt, out.fmt, [value.buffer], part, group.outputs)
    spec = dot(
        left,
        weight_fmt,
        group.outputs[1],
        dot_columns(view),
        expr,
        placed.operands,
        part,
        view.options.multiplier_stages,
        1 + axes,
    )
    groups = head.whole("groups")
    weights = builder.weight(
        weight.name,
        weight_fmt,
        spec.right.layout,
        lambda stored: spec.pack(_taps(stored, group, x.shape[1], groups)),
        f"conv {group} {spec.family}",
    )
    builder.call(spec, [value.buffer, weights, *placed.buffers], [buffer])


def _taps(weight: IntArray, group: _Group, channels: int, groups: int) -> IntArray:
    """Weights [features, *kernel, channels] of a call from torch's [Co, C / groups, *kernel]."""
    array = np.asarray(weight)
    if group.inputs[1] != channels or groups == 1:
        first, count = group.outputs
        chosen = array[first : first + count]
    else:  # one dense product over all groups: zeros between them
        features, per_in = array.shape[:2]
        per_out = features // groups
        chosen = np.zeros((features, channels, *array.shape[2:]), dtype=np.int64)
        for g in range(groups):
            rows, columns = slice(g * per_out, (g + 1) * per_out), slice(g * per_in, (g + 1) * per_in)
            chosen[rows, columns] = array[rows]
    return chosen.transpose(0, *range(2, chosen.ndim), 1)


RULES = (Rule("convolution with epilogue", _fused), Rule("convolution", _alone))
