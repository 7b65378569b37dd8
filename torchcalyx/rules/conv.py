"""Convolutions and pooling: sliding windows are views, so a convolution is a matrix product over them.

Activations are read channels-last (a word holds neighbouring channels of one position); results are written so. Padding is part of
the access. Nothing is unfolded in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchcalyx.graph import Node
from torchcalyx.kernels.access import Access, Layout, Operand, whole
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.contraction import accumulator
from torchcalyx.kernels.dot import Dot, dot
from torchcalyx.kernels.expr import Expr, ExprBuilder
from torchcalyx.kernels.fold import accumulator as fold_range
from torchcalyx.kernels.numerics import IntArray, NumberFormat, product
from torchcalyx.kernels.reader import result_value
from torchcalyx.kernels.reduce import reduce
from torchcalyx.kernels.stage import reading_mode
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.drain import Drain, fused_head
from torchcalyx.rules.matmul import dot_columns
from torchcalyx.select.builder import Located, SelectionBuilder, copy_kernel
from torchcalyx.select.placing import rows_of_last_axis
from torchcalyx.select.tree import Tree, tree_of
from torchcalyx.select.view import GraphView


def windows(node: Node, access: Access, kernel: tuple[int, ...], fill: int) -> Access | None:
    """Access over (N, C, *positions, *taps) from one over (N, C, *spatial); None when it is padded otherwise already."""
    axes = len(kernel)
    before, after = (0, 0, *node.ints("before")), (0, 0, *node.ints("after"))
    padded = access.pad(before, after, fill)
    if padded is None:
        return None
    dilation = node.ints("dilation") if "dilation" in dict(node.attrs) else (1,) * axes
    for axis, (size, stride, gap) in enumerate(zip(kernel, node.ints("stride"), dilation, strict=True)):
        padded = padded.window(2 + axis, size, stride, gap)
    return padded


def channels_last(builder: SelectionBuilder, value: Located, why: str, step: int | None = None) -> Located:
    """The value (N, C, *spatial) as words of neighbouring channels, copied when it does not lie so.

    step: channels that one group reads (None: all); its first channel must start a word.
    """
    rank, step = len(value.shape), step or value.shape[1]
    order = (0, *range(2, rank), 1)
    operand = Operand(value.fmt, builder.buffers[value.buffer].layout, value.access.permute(order))
    if reading_mode(operand, rank - 1) == "vector" and (step == value.shape[1] or step % builder.lanes == 0):
        return value
    shape = tuple(value.shape[d] for d in order)
    layout = rows_of_last_axis(shape, builder.lanes)
    turned = Located(value.buffer, value.access.permute(order), value.fmt)
    copy = builder.relayout(turned, layout, shape, why)
    inverse = tuple(sorted(range(rank), key=lambda d: order[d]))
    return Located(copy.buffer, copy.access.permute(inverse), value.fmt)


def _plain(builder: SelectionBuilder, value: Located) -> Located:
    """The value without padding of its own (copied once), so that a window can pad it."""
    layout = rows_of_last_axis(value.shape, builder.lanes)
    return builder.relayout(value, layout, value.shape, "it is padded with another value already")


# ---- convolution ---------------------------------------------------------------------------------------------------------


def _conv_problem(view: GraphView, head: Node) -> str | None:
    weight = view.nodes[head.args[1]]
    if weight.op != "constant":
        return "the weights are computed at run time; only constant ones are packed for the dot array"
    if not view.formats[head.args[0]].kind == "fixed":
        return "integer convolutions are not supported"
    return None


def _conv_fused(view: GraphView, node: Node) -> Match | Reject:
    found = fused_head(view, node, ("conv",))
    if isinstance(found, Reject):
        return found
    head, tree = found
    return _conv_match(view, head, tree, node)


def _conv_alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "conv":
        return Reject(f"{node.op} is not a convolution")
    return _conv_match(view, node, tree_of(view, set()), node)


def _conv_match(view: GraphView, head: Node, tree: Tree, root: Node) -> Match | Reject:
    problem = _conv_problem(view, head)
    if problem:
        return Reject(problem)
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = (head.name, *(n.name for n in tree.nodes))
    return Match(covers, (*head.args, *others), lambda builder: _Convolution(builder, head, tree, root).build())


@dataclass(frozen=True)
class _Group:
    """Channels of one kernel call: first and count, of input and of output."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]


class _Convolution:
    """Builds one convolution with the elementwise tree behind it in the drain."""

    def __init__(self, builder: SelectionBuilder, head: Node, tree: Tree, root: Node) -> None:
        self.builder, self.head, self.tree, self.root = builder, head, tree, root
        view = builder.view
        x, weight = view.args(head)[:2]
        self.kernel = weight.shape[2:]
        self.groups = head.whole("groups")
        self.channels, self.features = x.shape[1], weight.shape[0]
        self.weight_fmt: NumberFormat = view.formats[weight.name]
        self.value = builder.value(x.name)
        batch, _, *spatial = head.shape
        self.domain = (batch, *spatial, self.features)

    def build(self) -> Located:
        """One call, or one for each group of aligned channels."""
        depthwise = self.groups == self.channels == self.features and self.groups > 1
        lanes = self.builder.lanes
        aligned = not (self.channels // self.groups) % lanes and not (self.features // self.groups) % lanes
        layout = rows_of_last_axis(self.domain, lanes)
        fmt = self.builder.view.formats[self.root.name]
        buffer = self.builder.buffer(self.root.name, fmt, layout)
        out = Operand(fmt, layout, whole(self.domain, layout))
        if depthwise and lanes <= self.builder.view.options.multipliers:
            self._depthwise(out, buffer)
        elif self.groups > 1 and aligned:
            inputs, outputs = self.channels // self.groups, self.features // self.groups
            for g in range(self.groups):
                self._dense(out, buffer, _Group((g * inputs, inputs), (g * outputs, outputs)))
        else:
            self._dense(out, buffer, _Group((0, self.channels), (0, self.features)))
        rank = len(self.domain)
        return Located(buffer, out.access.permute((0, rank - 1, *range(1, rank - 1))), fmt)

    # ---- dense ---------------------------------------------------------------------------------------------------------
    def _dense(self, out: Operand, buffer: str, group: _Group) -> None:
        builder, axes = self.builder, len(self.kernel)
        whole_input = group.inputs[1] == self.channels
        why = f"the dot array reads {builder.lanes} neighbouring channels a cycle"
        value = channels_last(builder, self.value, why, group.inputs[1])
        access = windows(self.head, value.access, self.kernel, 0)
        if access is None:
            value = channels_last(builder, _plain(builder, value), why, group.inputs[1])
            access = windows(self.head, value.access, self.kernel, 0)
            assert access is not None
        if not whole_input:
            access = _part(access, 1, group.inputs)
        positions, taps = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
        left = Operand(value.fmt, builder.buffers[value.buffer].layout, access.permute((0, *positions, *taps, 1)))
        depth = product(self.kernel) * group.inputs[1]
        total = accumulator(value.fmt, self.weight_fmt, depth)
        part = Operand(out.fmt, out.layout, _part(out.access, len(self.domain) - 1, group.outputs))
        drain = Drain(builder, self.head, self.tree, self.domain, _channel_order(len(self.domain)))
        expr, placed = drain.epilogue(total, self.weight_fmt, out.fmt, [value.buffer], part, group.outputs)
        spec = self._array(left, group, expr, placed.operands, part)
        tag = f"conv {group} {spec.family}"
        weights = builder.weight(
            self.head.args[1], self.weight_fmt, spec.right.layout, lambda stored: spec.pack(self._taps(stored, group)), tag
        )
        builder.call(spec, [value.buffer, weights, *placed.buffers], [buffer])

    def _array(
        self, left: Operand, group: _Group, expr: Expr, extras: tuple[Operand, ...], part: Operand
    ) -> Dot:
        view = self.builder.view
        arguments = (left, self.weight_fmt, group.outputs[1], dot_columns(view), expr, extras, part)
        return dot(*arguments, view.options.multiplier_stages, 1 + len(self.kernel))

    def _taps(self, weight: IntArray, group: _Group) -> IntArray:
        """Weights [features, *kernel, channels] of a group from torch's [Co, C / groups, *kernel]."""
        axes = len(self.kernel)
        array = np.asarray(weight)
        first, count = group.outputs
        if group.inputs[1] != self.channels or self.groups == 1:
            chosen = array[first : first + count]
        else:  # one dense product over all groups: zeros between them
            per_in, per_out = self.channels // self.groups, self.features // self.groups
            chosen = np.zeros((self.features, self.channels, *self.kernel), dtype=np.int64)
            for g in range(self.groups):
                rows, columns = slice(g * per_out, (g + 1) * per_out), slice(g * per_in, (g + 1) * per_in)
                chosen[rows, columns] = array[rows]
        return chosen.transpose(0, *range(2, 2 + axes), 1)

    # ---- depthwise -------------------------------------------------------------------------------------------------------
    def _depthwise(self, out: Operand, buffer: str) -> None:
        """A multiply-accumulate a lane and cycle: products of window and weights, folded over the taps."""
        builder, axes = self.builder, len(self.kernel)
        why = f"the vector multipliers read {builder.lanes} neighbouring channels a cycle"
        value = channels_last(builder, self.value, why)
        access = windows(self.head, value.access, self.kernel, 0)
        if access is None:
            value = channels_last(builder, _plain(builder, value), why)
            access = windows(self.head, value.access, self.kernel, 0)
            assert access is not None
        positions, taps = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
        left = Operand(value.fmt, builder.buffers[value.buffer].layout, access.permute((0, *positions, 1, *taps)))
        shape = (*self.kernel, self.channels)
        layout = rows_of_last_axis(shape, builder.lanes)
        weights = builder.weight(
            self.head.args[1],
            self.weight_fmt,
            layout,
            lambda stored: np.asarray(stored).reshape(self.channels, -1).T,
            "depthwise",
        )
        order = (axes, *range(axes))
        turned = whole(shape, layout).permute(order).expand((*self.domain, *self.kernel))
        right = Operand(self.weight_fmt, layout, turned)
        b = ExprBuilder()
        product_index = b.mul(b.input(value.fmt), b.input(self.weight_fmt))
        exact = b.value(product_index)
        prologue = b.build(product_index, NumberFormat("fixed", exact.width, exact.frac))
        total = fold_range("add", result_value(prologue), product(self.kernel))
        drain = Drain(builder, self.head, self.tree, self.domain, _channel_order(len(self.domain)))
        taken = [value.buffer, weights]
        expr, placed = drain.epilogue(total, self.weight_fmt, out.fmt, taken, out, (0, self.features))
        rank = len(self.domain)
        spec: KernelSpec = reduce(
            "add",
            prologue,
            [left, right],
            tuple(range(rank, rank + axes)),
            expr,
            out,
            placed.operands,
            builder.view.options.multiplier_stages,
        )
        builder.call(spec, [*taken, *placed.buffers], [buffer])


def _channel_order(rank: int) -> tuple[int, ...]:
    """Axes of (N, C, *spatial) in the order of the domain (N, *spatial, C)."""
    return (0, *range(2, rank), 1)


def _part(access: Access, dim: int, part: tuple[int, int]) -> Access:
    """First and count of one loop dimension."""
    rank = len(access.sizes)
    starts = tuple(part[0] if d == dim else 0 for d in range(rank))
    sizes = tuple(part[1] if d == dim else n for d, n in enumerate(access.sizes))
    return access.slice(starts, (1,) * rank, sizes)


# ---- pooling -------------------------------------------------------------------------------------------------------------

POOLS = ("max_pool", "sum_pool")


def _pool_fused(view: GraphView, node: Node) -> Match | Reject:
    found = fused_head(view, node, POOLS)
    if isinstance(found, Reject):
        return found
    return _pool_match(found[0], found[1], node)


def _pool_alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in POOLS:
        return Reject(f"{node.op} is not a pooling")
    return _pool_match(node, tree_of(view, set()), node)


def _pool_match(head: Node, tree: Tree, root: Node) -> Match:
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = (head.name, *(n.name for n in tree.nodes))
    return Match(covers, (*head.args, *others), lambda builder: _build_pool(builder, head, tree, root))


def _build_pool(builder: SelectionBuilder, head: Node, tree: Tree, root: Node) -> Located:
    """A fold over the taps of the windows, channels over the lanes."""
    kernel = head.ints("kernel")
    axes, largest = len(kernel), head.op == "max_pool"
    value = channels_last(builder, builder.value(head.args[0]), "pooling reads neighbouring channels")
    fill = value.fmt.min if largest else 0
    access = windows(head, value.access, kernel, fill)
    if access is None:
        value = channels_last(builder, _plain(builder, value), "pooling reads neighbouring channels")
        access = windows(head, value.access, kernel, fill)
        assert access is not None
    positions, taps = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    left = Operand(value.fmt, builder.buffers[value.buffer].layout, access.permute((0, *positions, 1, *taps)))
    batch, channels, *spatial = head.shape
    domain = (batch, *spatial, channels)
    layout: Layout = rows_of_last_axis(domain, builder.lanes)
    fmt = builder.view.formats[root.name]
    out = Operand(fmt, layout, whole(domain, layout))
    b = ExprBuilder()
    prologue = b.build(b.input(value.fmt), value.fmt)
    total = fold_range("max" if largest else "add", result_value(prologue), product(kernel))
    drain = Drain(builder, head, tree, domain, _channel_order(len(domain)))
    expr, placed = drain.epilogue(total, value.fmt, fmt, [value.buffer], out, (0, channels))
    rank = len(domain)
    spec = reduce(
        "max" if largest else "add",
        prologue,
        [left],
        tuple(range(rank, rank + axes)),
        expr,
        out,
        placed.operands,
        builder.view.options.multiplier_stages,
    )
    buffer = builder.buffer(root.name, fmt, layout)
    builder.call(spec, [value.buffer, *placed.buffers], [buffer])
    return Located(buffer, out.access.permute((0, rank - 1, *range(1, rank - 1))), fmt)


# ---- upsampling ----------------------------------------------------------------------------------------------------------


def _upsample(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "upsample":
        return Reject(f"{node.op} does not repeat elements")
    return Match((node.name,), node.args, lambda builder: _build_upsample(builder, node))


def _build_upsample(builder: SelectionBuilder, node: Node) -> Located:
    """A copy in which each position is read once for every position it becomes."""
    value = channels_last(builder, builder.value(node.args[0]), "upsampling copies words of neighbouring channels")
    scales, rank = node.ints("scales"), len(node.shape)
    shape = (node.shape[0], *node.shape[2:], node.shape[1])
    layout = rows_of_last_axis(shape, builder.lanes)
    out = whole(shape, layout)
    split = (shape[0], *(n for s, k in zip(value.shape[2:], scales, strict=True) for n in (s, k)), shape[-1])
    target = out.reshape(split)
    source = value.access.permute((0, *range(2, rank), 1))
    repeated = source.reshape((shape[0], *(n for s in value.shape[2:] for n in (s, 1)), shape[-1]))
    assert target is not None and repeated is not None, "splitting an axis is always affine"
    fmt = builder.view.formats[node.name]
    buffer = builder.buffer(node.name, fmt, layout)
    operand = Operand(value.fmt, builder.buffers[value.buffer].layout, repeated.expand(split))
    builder.call(copy_kernel(operand, Operand(fmt, layout, target)), [value.buffer], [buffer])
    return Located(buffer, out.permute((0, rank - 1, *range(1, rank - 1))), fmt)


RULES = (
    Rule("upsampling", _upsample),
    Rule("convolution with epilogue", _conv_fused),
    Rule("convolution", _conv_alone),
    Rule("pooling with epilogue", _pool_fused),
    Rule("pooling", _pool_alone),
)
