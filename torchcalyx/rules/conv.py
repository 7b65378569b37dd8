"""Convolutions: a matrix product over sliding windows on the dot array, the elementwise operations behind
it in the drain.

Aligned groups are one call each; other groups are one dense product with zeros between the groups. A
depthwise convolution is a multiply-accumulate a lane (`depthwise`). One input channel along one axis is
folded into the lanes (`fold`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Value, narrowing
from torchcalyx.kernels.arith.numerics import IntArray, ceil_div, product
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.kernels.products.dot import dot
from torchcalyx.kernels.products.window import WindowDot
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.arrays import dot_columns
from torchcalyx.rules.depthwise import depthwise
from torchcalyx.rules.drain import Drain, fused_head
from torchcalyx.rules.fold import build_fold, fold_of
from torchcalyx.rules.tree import Tree, tree_of
from torchcalyx.rules.windows import channel_order, channels_first, part_of, windowed, windows


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
    """The cheapest of: the dot array over channels, or over windows held in registers (few channels)."""
    view = builder.view
    x, weight = view.args(head)[:2]
    kernel, weight_fmt = weight.shape[2:], view.formats[weight.name]
    fmt = view.formats[x.name]
    total = accumulator(fmt, weight_fmt, product(kernel) * group.inputs[1])
    part = Operand(out.fmt, out.layout, part_of(out.access, len(out.access.sizes) - 1, group.outputs))
    value, windowed_dot = _place(builder, head, part, group, total)
    left = _left(builder, value, len(kernel), group)
    expr, placed = drain.epilogue(total, weight_fmt, out.fmt, [value.buffer], part, group.outputs)
    make = WindowDot if windowed_dot else dot
    spec = make(
        left,
        weight_fmt,
        group.outputs[1],
        dot_columns(view),
        expr,
        placed.operands,
        part,
        view.options.multiplier_stages,
        1 + len(kernel),
    )
    groups = head.whole("groups")
    channels = drain.channels(total, weight_fmt, out.fmt)
    weights = builder.weight(
        weight.name,
        weight_fmt,
        spec.right.layout,
        lambda stored: spec.pack(_taps(stored, group, x.shape[1], groups)),
        f"conv {group} {spec.family} {spec.right.layout}",
        () if channels is None else channels.more,
    )
    macs = product(part.access.sizes) * product(kernel) * (x.shape[1] // groups)
    builder.call(spec, [value.buffer, weights, *placed.buffers], [buffer], operations=macs)


def _left(builder: SelectionBuilder, value: Located, axes: int, group: _Group) -> Operand:
    """Windows (N, C, *positions, *taps) as the kernel loops over them: (N, *positions, *taps, channels of
    the group).
    """
    access = part_of(value.access, 1, group.inputs)
    positions, taps = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    layout = builder.buffers[value.buffer].layout
    return Operand(value.fmt, layout, access.permute((0, *positions, *taps, 1)))


def _place(
    builder: SelectionBuilder, head: Node, part: Operand, group: _Group, total: Value
) -> tuple[Located, bool]:
    """The windows that the kernel reads, and whether it holds them in registers.

    Windows in registers read the input as it lies (planes) or channels-last; the plain product needs
    channels-last.
    """
    view = builder.view
    x, weight = view.args(head)[:2]
    kernel, lanes = weight.shape[2:], builder.lanes
    source = builder.value(x.name)
    why = f"the dot array reads {lanes} neighbouring channels a cycle"
    plain = product(head.shape[2:]) * product(kernel) * ceil_div(group.inputs[1], lanes)
    tiles = head.shape[0] * ceil_div(group.outputs[1], dot_columns(view))
    direct = windows(head, source.access, kernel, 0)
    if direct is not None and group.inputs[1] < lanes and group.inputs[1] == x.shape[1]:
        spec = _window(builder, Located(source.buffer, direct, source.fmt), head, part, group, total)
        if spec is not None and spec.cycles() < plain * tiles:
            return Located(source.buffer, direct, source.fmt), True
    value = windowed(builder, head, source, kernel, 0, why, group.inputs[1])
    if group.inputs[1] < lanes:
        spec = _window(builder, value, head, part, group, total)
        if spec is not None and spec.cycles() < plain * tiles:
            return value, True
    return value, False


def _window(
    builder: SelectionBuilder, value: Located, head: Node, part: Operand, group: _Group, total: Value
) -> WindowDot | None:
    """The kernel that holds windows in registers, without epilogue; None when it cannot read the value."""
    view = builder.view
    weight = view.args(head)[1]
    axes = len(weight.shape) - 2
    left = _left(builder, value, axes, group)
    try:
        return WindowDot(
            left,
            view.formats[weight.name],
            group.outputs[1],
            dot_columns(view),
            narrowing(total, part.fmt),
            (),
            part,
            view.options.multiplier_stages,
            1 + axes,
        )
    except KernelParameterError:
        return None


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
