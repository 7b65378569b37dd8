"""Sliding windows as views: what convolutions and pooling share.

Activations are read channels-last (a word holds neighbouring channels of one position); padding is part of
the access, and nothing is unfolded in memory.
"""

from __future__ import annotations

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.ports.access import Access, Operand
from torchcalyx.kernels.ports.stage import reading_mode


def windows(node: Node, access: Access, kernel: tuple[int, ...], fill: int) -> Access | None:
    """Access over (N, C, *positions, *taps) from one over (N, C, *spatial); None when it is padded
    otherwise already.
    """
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


def windowed(
    builder: SelectionBuilder,
    node: Node,
    value: Located,
    kernel: tuple[int, ...],
    fill: int,
    why: str,
    step: int | None = None,
) -> Located:
    """The windows (N, C, *positions, *taps) of a value read channels-last, copied when it must be."""
    value = channels_last(builder, value, why, step)
    access = windows(node, value.access, kernel, fill)
    if access is None:
        value = channels_last(builder, _plain(builder, value), why, step)
        access = windows(node, value.access, kernel, fill)
        assert access is not None
    return Located(value.buffer, access, value.fmt)


def channel_order(rank: int) -> tuple[int, ...]:
    """Axes of (N, C, *spatial) in the order of the domain (N, *spatial, C)."""
    return (0, *range(2, rank), 1)


def channels_first(access: Access) -> Access:
    """An access over (N, *spatial, C), seen as (N, C, *spatial)."""
    rank = len(access.sizes)
    return access.permute((0, rank - 1, *range(1, rank - 1)))


def part_of(access: Access, dim: int, part: tuple[int, int]) -> Access:
    """First and count of one loop dimension."""
    rank = len(access.sizes)
    starts = tuple(part[0] if d == dim else 0 for d in range(rank))
    sizes = tuple(part[1] if d == dim else n for d, n in enumerate(access.sizes))
    return access.slice(starts, (1,) * rank, sizes)
