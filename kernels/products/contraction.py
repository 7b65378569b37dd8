"""What the matrix products share: exact integer sums of products, checks of the epilogue, operand words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith.expr import Expr, Value
from ..arith.numerics import IntArray, NumberFormat, product
from ..contract import Port
from ..ports.access import Access, Operand
from ..ports.epilogue import epilogue_problem
from ..ports.stage import element_lanes
from ..rtl.hw import Component, Signal

_EXACT_FLOAT = 1 << 53
"""float64 holds every integer below this magnitude, so sums that stay below are exact in any order."""
_SAFE_INT64 = 1 << 61


def accumulator(left: NumberFormat, right: NumberFormat, depth: int) -> Value:
    """Range of a sum of `depth` products, which is also the range of every part of it."""
    corners = [a * b for a in (left.min, left.max) for b in (right.min, right.max)]
    return Value(left.frac + right.frac, depth * min(0, *corners), depth * max(0, *corners))


def exact_matmul(left: IntArray, right: IntArray) -> IntArray:
    """left @ right of integer arrays (..., m, k) and (..., k, n), exactly.

    float64 products where every partial sum is provably below 2**53; otherwise the larger operand is split
    into two limbs. The result is int64, or Python integers where the bound passes 61 bits.
    """
    largest = [max((abs(int(a.min())), abs(int(a.max()))), default=0) if a.size else 0 for a in (left, right)]
    bound = largest[0] * largest[1] * left.shape[-1]
    if bound < _EXACT_FLOAT:
        sums: IntArray = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)
        return sums
    side = 0 if largest[0] >= largest[1] else 1
    wide = (left, right)[side]
    shift = max(1, largest[side].bit_length() // 2)
    high = wide >> shift
    parts = [high, wide - (high << shift)]
    upper, lower = (exact_matmul(p, right) if side == 0 else exact_matmul(left, p) for p in parts)
    if bound >= _SAFE_INT64:
        upper, lower = upper.astype(object), lower.astype(object)
    return upper * (1 << shift) + lower


def epilogue_refusal(total: Value, epilogue: Expr, extras: Sequence[Operand], out: Operand) -> str | None:
    """Why the drain cannot evaluate `epilogue` on sums of range `total` and memories `extras`, or None."""
    if epilogue.multiplications:
        return "the epilogue multiplies two operands; only constants can be multiplied in the drain"
    return epilogue_problem(total, epilogue, extras, out)


def widened(c: Component, operand: Operand, word: Signal, width: int) -> Signal:
    """A memory word with every element extended to `width` bits (the engine's operand)."""
    if operand.fmt.signed and operand.fmt.width == width:
        return word
    return c.concat([c.resize(lane, width) for lane in element_lanes(c, operand, word)])


def product_ports(left: Operand, right: Operand, extras: Sequence[Operand], out: Operand) -> tuple[Port, ...]:
    """Memory ports of a matrix product: left, right, x0, x1, ..., y."""
    first = (Port("left", left, "read"), Port("right", right, "read"))
    further = tuple(Port(f"x{i}", operand, "read") for i, operand in enumerate(extras))
    return (*first, *further, Port("y", out, "write"))


def merge_leading(
    left: Operand, right: Operand | None, extras: Sequence[Operand], out: Operand
) -> tuple[Operand, Operand | None, tuple[Operand, ...], Operand]:
    """The same product over fewer loops: size-1 batch dimensions dropped, neighbours merged where every
    access allows it.

    Batch dimensions merge into m only when the right operand does not depend on them. `right` None: it
    depends on none.
    """
    operands = [left, *([right] if right else []), *extras, out]
    columns = [[o.access.column(d) for d in range(len(o.access.sizes))] for o in operands]
    batch = len(out.access.sizes) - 2
    groups: list[list[int]] = []
    for dim in range(batch):
        size = out.access.sizes[dim]
        if size == 1:
            continue
        if groups and all(c[groups[-1][-1]] == _times(c[dim], size) for c in columns):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    rows = [batch]
    size = out.access.sizes[batch]
    if groups and _rows_join(columns, operands, right, groups[-1][-1], batch, size):
        rows = [*groups.pop(), batch]
    return _rebuilt(left, right, extras, out, groups, rows)


def _times(column: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(step * size for step in column)


def _rows_join(
    columns: Sequence[Sequence[tuple[int, ...]]],
    operands: Sequence[Operand],
    right: Operand | None,
    dim: int,
    m: int,
    size: int,
) -> bool:
    """Whether batch dimension `dim` continues the rows: the right operand ignores it, the others step on."""
    for column, operand in zip(columns, operands, strict=True):
        if operand is right:
            if any(column[dim]):
                return False
        elif size > 1 and column[dim] != _times(column[m], size):
            return False
    return True


def _rebuilt(
    left: Operand,
    right: Operand | None,
    extras: Sequence[Operand],
    out: Operand,
    groups: Sequence[Sequence[int]],
    rows: Sequence[int],
) -> tuple[Operand, Operand | None, tuple[Operand, ...], Operand]:
    last = len(out.access.sizes) - 1

    def rebuild(operand: Operand, middle: Sequence[int]) -> Operand:
        kept = [*groups, middle, [last]]
        access = operand.access
        sizes = tuple(product(access.sizes[d] for d in dims) for dims in kept)
        steps = tuple(tuple(s[_stepping(access, dims)] for dims in kept) for s in access.steps)
        return Operand(operand.fmt, operand.layout, access.over(sizes, steps))

    new_right = rebuild(right, [last - 1]) if right else None
    return rebuild(left, rows), new_right, tuple(rebuild(e, rows) for e in extras), rebuild(out, rows)


def _stepping(access: Access, dims: Sequence[int]) -> int:
    """The innermost dimension longer than 1, whose step the merged dimension takes."""
    return next((d for d in reversed(dims) if access.sizes[d] > 1), dims[-1])
