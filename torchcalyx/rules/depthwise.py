"""Depthwise convolutions: products of window and weights, folded over the taps, one word of channels a
cycle.
"""

from __future__ import annotations

import numpy as np

from torchcalyx.building.builder import SelectionBuilder
from torchcalyx.building.placing import rows_of_last_axis
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.kernels.folds.fold import accumulator
from torchcalyx.kernels.folds.reduce import reduce
from torchcalyx.kernels.ports.access import Operand, whole
from torchcalyx.kernels.ports.reader import result_value
from torchcalyx.rules.drain import Drain
from torchcalyx.rules.windows import channel_order, windowed


def depthwise(builder: SelectionBuilder, head: Node, drain: Drain, out: Operand, buffer: str) -> None:
    """Append the call that computes a convolution with as many groups as channels."""
    view = builder.view
    x, weight = view.args(head)[:2]
    kernel, weight_fmt = weight.shape[2:], view.formats[weight.name]
    channels, axes, rank = x.shape[1], len(kernel), len(out.access.sizes)
    why = f"the vector multipliers read {builder.lanes} neighbouring channels a cycle"
    value = windowed(builder, head, builder.value(x.name), kernel, 0, why)
    order = (*channel_order(rank), *range(rank, rank + axes))
    left = Operand(value.fmt, builder.buffers[value.buffer].layout, value.access.permute(order))
    shape = (*kernel, channels)
    layout = rows_of_last_axis(shape, builder.lanes)
    b = ExprBuilder()
    term = b.mul(b.input(value.fmt), b.input(weight_fmt))
    exact = b.value(term)
    prologue = b.build(term, NumberFormat("fixed", exact.width, exact.frac))
    total = accumulator("add", result_value(prologue), product(kernel))
    finer = drain.channels(total, weight_fmt, out.fmt)
    weights = builder.weight(
        weight.name,
        weight_fmt,
        layout,
        lambda stored: np.asarray(stored).reshape(channels, -1).T,
        "depthwise",
        () if finer is None else finer.more,
    )
    taps = whole(shape, layout).permute((axes, *range(axes))).expand((*out.access.sizes, *kernel))
    reads = [value.buffer, weights]
    expr, placed = drain.epilogue(total, weight_fmt, out.fmt, reads, out, (0, channels))
    spec = reduce(
        "add",
        prologue,
        [left, Operand(weight_fmt, layout, taps)],
        tuple(range(rank, rank + axes)),
        expr,
        out,
        placed.operands,
        view.options.multiplier_stages,
    )
    builder.call(spec, [*reads, *placed.buffers], [buffer])
