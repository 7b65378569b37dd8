"""Matrix products on the systolic array: both operands may be computed, batch axes broadcast."""

from __future__ import annotations

import numpy as np

from torchcalyx.building.builder import Located
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.kernels.products.feed import feed_refusal
from torchcalyx.kernels.products.systolic import systolic
from torchcalyx.rules.arrays import systolic_rows
from torchcalyx.rules.product import Candidate, Product


def systolic_candidate(p: Product) -> Candidate:
    """The systolic array, operands copied where its feeds cannot read them."""
    rows = systolic_rows(p.view)
    right = _right(p)
    choices = []
    for copy_left in (False, True):
        for copy_right in (False, True):
            left_operand, right_operand = (
                _as_if(p, p.left, copy_left),
                _as_if(p, right, copy_right),
            )
            if _feeds_refusal(left_operand, right_operand, rows) is None:
                copied = copy_left * product(p.left.shape) + copy_right * product(right.shape)
                choices.append((copied, copy_left, copy_right))
    copied, copy_left, copy_right = min(choices)
    if right.buffer == p.left.buffer and not copy_left and not copy_right:
        copied, copy_right = product(right.shape), True
    period = max(rows, p.builder.lanes, p.inner)
    tiles = product(p.domain[:-2]) * -(-p.domain[-2] // rows) * -(-p.domain[-1] // p.builder.lanes)

    def make() -> tuple[KernelSpec, list[str]]:
        why = "the systolic array cannot feed from it"
        left = p.copied(p.left, why) if copy_left else p.left
        other = p.copied(right, why, [left.buffer]) if copy_right else right
        expr, placed = p.epilogue([left.buffer, other.buffer])
        spec = systolic(
            p.operand(left),
            p.operand(other),
            rows,
            expr,
            placed.operands,
            p.out,
            p.view.options.multiplier_stages,
        )
        return spec, [left.buffer, other.buffer, *placed.buffers]

    return Candidate(tiles * period + rows + p.builder.lanes + copied, make)


def _as_if(p: Product, value: Located, copied: bool) -> Operand:
    """The operand, as it lies or as it would lie after a copy."""
    if not copied:
        return p.operand(value)
    fresh = rows_of_last_axis(value.shape, p.builder.lanes)
    return Operand(value.fmt, fresh, whole(value.shape, fresh))


def _right(p: Product) -> Located:
    """The right operand as (..., k, n), batch axes broadcast."""
    shape = (*p.domain[:-2], p.inner, p.domain[-1])
    if p.head.op == "linear":
        if p.constant_right:
            layout = rows_of_last_axis(shape[-2:], p.builder.lanes)
            buffer = p.builder.weight(
                p.right_name, p.right_fmt, layout, lambda stored: np.asarray(stored).T, "transposed", p.more
            )
            return Located(buffer, whole(shape[-2:], layout).expand(shape), p.right_fmt)
        turned = p.builder.value(p.right_name)
        return Located(turned.buffer, turned.access.permute((1, 0)).expand(shape), turned.fmt)
    return p.located(p.right_name, shape)


def _feeds_refusal(left: Operand, right: Operand, rows: int) -> str | None:
    """Why the array cannot be fed from these operands (None: it can)."""
    last = len(left.access.sizes) - 1
    problem = feed_refusal("left", left, last - 1, last, rows)
    return problem or feed_refusal("right", right, last, last - 1, right.layout.lanes)
