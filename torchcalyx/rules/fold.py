"""Long one-dimensional kernels over one channel: taps run over the lanes.

The stride need not be a multiple of the lanes L: A = L / gcd(L, stride) neighbouring outputs share one
window that begins at a whole word, and are A times as many features of a product over K + stride * (A - 1)
taps, with zeros where a feature's own K taps are not. So the kernel is an ordinary dot product, at K / (K +
stride * (A - 1) + L) of the full rate or better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.numerics import IntArray, ceil_div, product
from torchcalyx.kernels.ports.access import Operand
from torchcalyx.kernels.ports.stage import reading_mode
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.kernels.products.dot import dot
from torchcalyx.rules.arrays import dot_columns
from torchcalyx.rules.drain import Drain
from torchcalyx.rules.tree import Tree


@dataclass(frozen=True)
class Fold:
    """axis: the spatial axis with the kernel. group: outputs that share a window. lead: taps in front of
    the first one. taps: of a window.

    left: windows over (N, groups, taps).
    """

    tree: Tree
    axis: int
    group: int
    lead: int
    taps: int
    value: Located
    left: Operand


def fold_of(builder: SelectionBuilder, head: Node, tree: Tree, out: Operand) -> Fold | None:
    """How a convolution is folded; None when it has more channels, more axes, or does not come out even."""
    view = builder.view
    x, weight = view.args(head)[:2]
    kernel = weight.shape[2:]
    long = [a for a, size in enumerate(kernel) if size > 1]
    lanes, features = builder.lanes, weight.shape[0]
    if x.shape[1] != 1 or len(long) != 1 or features % lanes or any(v != head.name for v in tree.leaves):
        return None
    axis = long[0]
    others = [s for a, s in enumerate(x.shape[2:]) if a != axis]
    before, after = head.ints("before"), head.ints("after")
    padded = any(before[a] or after[a] for a in range(len(kernel)) if a != axis)
    stride, positions = head.ints("stride")[axis], head.shape[2 + axis]
    group = lanes // math.gcd(lanes, stride)
    if product(others) != 1 or padded or head.ints("dilation")[axis] != 1 or positions % group:
        return None
    lead = -before[axis] % lanes
    taps = ceil_div(lead + kernel[axis] + stride * (group - 1), lanes) * lanes
    size = x.shape[2 + axis]
    reach = stride * (positions - group) + taps - before[axis] - lead
    value = builder.value(x.name)
    access = value.access.reshape((x.shape[0], size))
    assert access is not None, "only axes of size 1 are dropped"
    covered = access.pad((0, before[axis] + lead), (0, max(0, reach - size)), 0)
    if covered is None:
        return None
    window = covered.window(1, taps, stride * group)
    window = window.slice((0, 0, 0), (1, 1, 1), (x.shape[0], positions // group, taps))
    left = Operand(value.fmt, builder.buffers[value.buffer].layout, window)
    if reading_mode(left, 2) != "vector":
        return None
    return Fold(tree, axis, group, lead, taps, value, left)


def build_fold(builder: SelectionBuilder, head: Node, fold: Fold, out: Operand, buffer: str) -> None:
    """Append the call of a folded convolution."""
    view = builder.view
    weight = view.args(head)[1]
    weight_fmt, features = view.formats[weight.name], weight.shape[0]
    wide = fold.group * features
    domain = (*fold.left.access.sizes[:2], wide)
    written = out.access.reshape(domain)
    assert written is not None, "features fill whole words, so the result is one long row"
    target = Operand(out.fmt, out.layout, written)
    total = accumulator(fold.value.fmt, weight_fmt, fold.taps)
    drain = Drain(builder, head, fold.tree, domain, ())
    expr, values = drain.repeated(total, weight_fmt, out.fmt, fold.group)
    extras = tuple(Operand(v.fmt, builder.buffers[v.buffer].layout, v.access.expand(domain)) for v in values)
    channels = drain.channels(total, weight_fmt, out.fmt)
    stages = view.options.multiplier_stages
    spec = dot(fold.left, weight_fmt, wide, dot_columns(view), expr, extras, target, stages)

    def pack(stored: IntArray) -> IntArray:
        taps = np.asarray(stored).reshape(features, -1)
        grown = np.zeros((fold.group, features, fold.taps), dtype=np.int64)
        stride = head.ints("stride")[fold.axis]
        for member in range(fold.group):
            first = fold.lead + stride * member
            grown[member, :, first : first + taps.shape[1]] = taps
        return spec.pack(grown.reshape(wide, fold.taps))

    more = () if channels is None else channels.more
    weights = builder.weight(weight.name, weight_fmt, spec.right.layout, pack, f"fold {fold.group}", more)
    macs = product(head.shape) * product(weight.shape[2:])
    builder.call(spec, [fold.value.buffer, weights, *(v.buffer for v in values)], [buffer], operations=macs)
