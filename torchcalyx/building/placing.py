"""Finds places for the operands of a kernel: as they lie, or copied when the kernel cannot read them so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.ports.access import Access, Layout, Operand, row_major
from torchcalyx.kernels.ports.stage import reading_mode


@dataclass(frozen=True)
class Placed:
    """Operands over one domain and the buffers they read, pairwise different."""

    operands: tuple[Operand, ...]
    buffers: tuple[str, ...]


def broadcast(value: Located, domain: tuple[int, ...]) -> Access:
    """Access of a value broadcast to the domain by numpy's rules."""
    return value.access.expand(domain)


def distinct(named: Sequence[tuple[str, Located]]) -> tuple[list[tuple[str, Located]], dict[str, str]]:
    """The different places among named values, and for each name left out the name that stands for it.

    A memory has one port: values that are the same elements are read once.
    """
    kept: dict[Located, str] = {}
    same = {}
    for name, value in named:
        first = kept.setdefault(value, name)
        if first != name:
            same[name] = first
    return [(name, value) for value, name in kept.items()], same


Fits: TypeAlias = "Callable[[Operand], str | None]"
"""Why a kernel cannot read an operand as it lies (None: it can)."""


def place_operands(
    builder: SelectionBuilder,
    values: Sequence[Located],
    domain: tuple[int, ...],
    order: tuple[int, ...],
    fits: Fits,
    why: str,
    taken: Sequence[str] = (),
) -> Placed:
    """Operands for a kernel that loops over `domain` with its dimensions in `order`, the last one over the
    lanes.

    A value that the kernel cannot read as it lies is copied first; so is one whose memory another operand
    reads already (`taken`: memories that other ports of the kernel read).
    """
    operands: list[Operand] = []
    buffers: list[str] = []
    for value in values:
        operand = ordered(builder, value, domain, order)
        reason = fits(operand)
        if reason is None and value.buffer in (*taken, *buffers):
            reason = "the kernel reads this memory through another port in the same cycle"
        if reason is not None:
            value = _copied(builder, value, domain, order, f"{why}: {reason}", (*taken, *buffers))
            operand = ordered(builder, value, domain, order)
        operands.append(operand)
        buffers.append(value.buffer)
    return Placed(tuple(operands), tuple(buffers))


def lane_fit(operand: Operand) -> str | None:
    """Fit of a stage that runs its last dimension over the lanes."""
    mode = reading_mode(operand, len(operand.access.sizes) - 1)
    return mode.removeprefix("no: ") if mode.startswith("no: ") else None


def elementwise_fit(out: Operand) -> Fits:
    """Fit of an elementwise kernel that writes `out`."""

    def fits(operand: Operand) -> str | None:
        try:
            elementwise(narrowing(operand.fmt, out.fmt), (operand,), out)
        except KernelParameterError as error:
            return str(error).rpartition("operand 0: ")[2]
        return None

    return fits


def ordered(
    builder: SelectionBuilder, value: Located, domain: tuple[int, ...], order: tuple[int, ...]
) -> Operand:
    """A value as an operand over the broadcast domain, its dimensions in loop order."""
    access = broadcast(value, domain).permute(order)
    return Operand(value.fmt, builder.buffers[value.buffer].layout, access)


def _copied(
    builder: SelectionBuilder,
    value: Located,
    domain: tuple[int, ...],
    order: tuple[int, ...],
    reason: str,
    taken: Sequence[str],
) -> Located:
    """A copy whose memory order is the kernel's loop order."""
    rank = len(domain)
    padded = (1,) * (rank - len(value.shape)) + value.shape
    access = value.access.reshape(padded)
    assert access is not None, "leading dimensions of size 1 always fit"
    turned = access.permute(order)
    shape = tuple(padded[d] for d in order)
    layout = row_major(shape, builder.lanes)
    copy = builder.relayout(Located(value.buffer, turned, value.fmt), layout, shape, reason, taken)
    inverse = tuple(sorted(range(rank), key=lambda d: order[d]))
    return Located(copy.buffer, copy.access.permute(inverse), value.fmt)


def loop_orders(
    builder: SelectionBuilder, values: Sequence[Located], domain: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Orders of the domain worth trying: row-major first, then the memory order of each full operand."""
    natural = tuple(range(len(domain)))
    orders = [natural]
    for value in values:
        if product(value.shape) == product(domain):
            orders.append(memory_order(builder, Located(value.buffer, broadcast(value, domain), value.fmt)))
    return list(dict.fromkeys(orders))


def memory_order(builder: SelectionBuilder, value: Located) -> tuple[int, ...]:
    """Axes of a value from the longest step in memory to the shortest; axes of size 1 keep their place as
    far as possible.
    """
    layout = builder.buffers[value.buffer].layout
    row = layout.row_words * layout.lanes
    rows, columns = value.access.steps[:2]
    steps = [abs(r * row + c) for r, c in zip(rows, columns, strict=True)]
    moving = [d for d, size in enumerate(value.shape) if size > 1]
    turned = iter(sorted(moving, key=lambda d: (-steps[d], d)))
    return tuple(next(turned) if size > 1 else d for d, size in enumerate(value.shape))


def copies_needed(
    builder: SelectionBuilder,
    values: Sequence[Located],
    domain: tuple[int, ...],
    order: tuple[int, ...],
    fits: Fits,
) -> int:
    """Elements that would have to be copied for this loop order."""
    return sum(product(v.shape) for v in values if fits(ordered(builder, v, domain, order)) is not None)


def result_layouts(shape: tuple[int, ...], lanes: int) -> list[Layout]:
    """Packings of a row-major result worth trying: the natural one, then one row for each index of the
    leading axes.
    """
    natural = row_major(shape, lanes)
    if not shape:
        return [natural]
    return list(dict.fromkeys([natural, rows_of_last_axis(shape, lanes)]))


def rows_of_last_axis(shape: tuple[int, ...], lanes: int) -> Layout:
    """The last axis over the lanes even when it has one element: what a kernel that makes rows can write."""
    if shape[-1] % lanes == 0:
        return Layout(1, product(shape), lanes)
    return Layout(product(shape[:-1]), shape[-1], lanes)


def unpermuted(access: Access, order: tuple[int, ...]) -> Access:
    """An access in loop order, turned back to the axes of the value."""
    return access.permute(tuple(sorted(range(len(order)), key=lambda d: order[d])))
