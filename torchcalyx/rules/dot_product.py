"""Matrix products with constant weights on the dot array."""

from __future__ import annotations

import numpy as np

from torchcalyx.building.placing import lane_fit, memory_order, ordered, rows_of_last_axis
from torchcalyx.kernels.arith.numerics import IntArray, product
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.ports.access import Operand
from torchcalyx.kernels.ports.stage import reading_mode
from torchcalyx.kernels.products.dot import dot
from torchcalyx.rules.arrays import dot_columns
from torchcalyx.rules.product import Candidate, Product


def dot_candidate(p: Product) -> Candidate:
    """The dot array over K."""
    features = p.domain[-1]
    columns = dot_columns(p.view)
    why = f"the dot array reads {p.builder.lanes} neighbours along k a cycle"
    fits = lane_fit(p.operand(p.left)) is None and _left_refusal(p) is None
    tiles = -(-features // columns) * -(-p.inner // p.builder.lanes)
    steps = product(p.domain[:-1]) * tiles
    copy = 0 if fits else product(p.left.shape)

    def make() -> tuple[KernelSpec, list[str]]:
        left = p.left if fits else p.copied(p.left, why)
        taken = [left.buffer]
        expr, placed = p.epilogue(taken)
        spec = dot(
            p.operand(left),
            p.right_fmt,
            features,
            columns,
            expr,
            placed.operands,
            p.out,
            p.view.options.multiplier_stages,
        )
        weights = p.builder.weight(
            p.right_name, p.right_fmt, spec.right.layout, spec.pack, f"dot {columns} columns", p.more
        )
        return spec, [left.buffer, weights, *placed.buffers]

    return Candidate(steps + copy, make)


def _left_refusal(p: Product) -> str | None:
    mode = reading_mode(p.operand(p.left), len(p.left.shape) - 1)
    return None if mode == "vector" else mode


def flattened_candidate(p: Product) -> Candidate:
    """The dot array over the axes of a flattened tensor in the order of memory; the weights are
    permuted instead.
    """
    assert p.flat is not None
    lead = len(p.root.shape) - 1
    value, stages = p.left, p.view.options.multiplier_stages
    trailing = [d for d in memory_order(p.builder, value) if d >= lead]
    trailing.sort(key=lambda d: value.shape[d] > 1)  # axes of size 1 outside: the last one is over the lanes
    order = (*range(lead), *trailing)
    if reading_mode(ordered(p.builder, value, value.shape, order), len(order) - 1) != "vector":
        layout = rows_of_last_axis(value.shape, p.builder.lanes)
        why = "the flattened axes do not lie in whole words"
        value, order = (
            p.builder.relayout(value, layout, value.shape, why),
            tuple(range(len(value.shape))),
        )
    access = value.access.permute(order)
    if lead == 0:
        access = access.over((1, *access.sizes), tuple((0, *s) for s in access.steps))
    left = Operand(value.fmt, p.builder.buffers[value.buffer].layout, access)
    sizes, turned = value.shape[lead:], tuple(d - lead for d in order[lead:])

    def make() -> tuple[KernelSpec, list[str]]:
        expr, placed = p.epilogue([value.buffer])
        columns, features = dot_columns(p.view), p.domain[-1]
        spec = dot(left, p.right_fmt, features, columns, expr, placed.operands, p.out, stages, len(sizes))

        def pack(stored: IntArray) -> IntArray:
            axes = np.asarray(stored).reshape(features, *sizes)
            return spec.pack(axes.transpose(0, *(1 + d for d in turned)))

        tag = f"flattened {turned} {columns} columns"
        weights = p.builder.weight(p.right_name, p.right_fmt, spec.right.layout, pack, tag, p.more)
        return spec, [value.buffer, weights, *placed.buffers]

    return Candidate(0, make)
