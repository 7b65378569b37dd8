"""Pooling: a fold over the taps of sliding windows, channels over the lanes; and repetition of positions."""

from __future__ import annotations

from torchcalyx.building.builder import Located, SelectionBuilder, copy_kernel
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.folds.fold import FoldOp, accumulator
from torchcalyx.kernels.folds.reduce import reduce
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.kernels.ports.reader import result_value
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.drain import Drain, fused_head
from torchcalyx.rules.tree import Tree, tree_of
from torchcalyx.rules.windows import channel_order, channels_first, channels_last, windowed

POOLS = ("max_pool", "sum_pool")


def _fused(view: GraphView, node: Node) -> Match | Reject:
    found = fused_head(view, node, POOLS)
    return found if isinstance(found, Reject) else _match(found[0], found[1], node)


def _alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in POOLS:
        return Reject(f"{node.op} is not a pooling", related=False)
    return _match(node, tree_of(view, set()), node)


def _match(head: Node, tree: Tree, root: Node) -> Match:
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = (head.name, *(n.name for n in tree.nodes))
    return Match(covers, (*head.args, *others), lambda builder: _build(builder, head, tree, root))


def _build(builder: SelectionBuilder, head: Node, tree: Tree, root: Node) -> Located:
    """One fold; padding is minus infinity for a maximum (the least stored integer), zero for a sum."""
    kernel, largest = head.ints("kernel"), head.op == "max_pool"
    source = builder.value(head.args[0])
    fill = source.fmt.min if largest else 0
    value = windowed(builder, head, source, kernel, fill, "pooling reads neighbouring channels")
    batch, channels, *spatial = head.shape
    domain = (batch, *spatial, channels)
    rank = len(domain)
    folded = tuple(range(rank, rank + len(kernel)))
    access = value.access.permute((*channel_order(rank), *folded))
    left = Operand(value.fmt, builder.buffers[value.buffer].layout, access)
    layout = rows_of_last_axis(domain, builder.lanes)
    fmt = builder.view.formats[root.name]
    out = Operand(fmt, layout, whole(domain, layout))
    prologue = narrowing(value.fmt, value.fmt)
    total = accumulator("max" if largest else "add", result_value(prologue), product(kernel))
    drain = Drain(builder, head, tree, domain, channel_order(rank))
    expr, placed = drain.epilogue(total, value.fmt, fmt, [value.buffer], out, (0, channels))
    stages = builder.view.options.multiplier_stages
    fold: FoldOp = "max" if largest else "add"
    spec = reduce(fold, prologue, [left], folded, expr, out, placed.operands, stages)
    buffer = builder.buffer(root.name, fmt, layout)
    builder.call(spec, [value.buffer, *placed.buffers], [buffer])
    return Located(buffer, channels_first(out.access), fmt)


def _upsample(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "upsample":
        return Reject(f"{node.op} does not repeat elements", related=False)
    return Match((node.name,), node.args, lambda builder: _build_upsample(builder, node))


def _build_upsample(builder: SelectionBuilder, node: Node) -> Located:
    """A copy in which each position is read once for every position it becomes."""
    value = channels_last(
        builder, builder.value(node.args[0]), "upsampling copies words of neighbouring channels"
    )
    scales, rank = node.ints("scales"), len(node.shape)
    shape = (node.shape[0], *node.shape[2:], node.shape[1])
    layout = rows_of_last_axis(shape, builder.lanes)
    out = whole(shape, layout)
    spatial = value.shape[2:]
    split = (shape[0], *(n for s, k in zip(spatial, scales, strict=True) for n in (s, k)), shape[-1])
    target = out.reshape(split)
    ones = (shape[0], *(n for s in spatial for n in (s, 1)), shape[-1])
    single = value.access.permute(channel_order(rank)).reshape(ones)
    assert target is not None and single is not None, "splitting an axis is always affine"
    fmt = builder.view.formats[node.name]
    buffer = builder.buffer(node.name, fmt, layout)
    operand = Operand(value.fmt, builder.buffers[value.buffer].layout, single.expand(split))
    builder.call(copy_kernel(operand, Operand(fmt, layout, target)), [value.buffer], [buffer])
    return Located(buffer, channels_first(out), fmt)


RULES = (
    Rule("pooling with epilogue", _fused),
    Rule("pooling", _alone),
    Rule("upsampling", _upsample),
)
