"""Lowerings of pooling: every window of torch's as one of "max_pool" or "sum_pool" with explicit padding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value, torch_dtype
from torchcalyx.normalize.division import divided
from torchcalyx.normalize.indexing import gathered
from torchcalyx.normalize.spatial import batched, each_axis

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Axis:
    """Windows along one axis as torch places them."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int = 1
    ceil_mode: bool = False

    @property
    def count(self) -> int:
        """Number of windows; with ceil_mode the last may reach over the padding but must not start behind
        x.
        """
        room = self.size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1
        count = (-(-room // self.stride) if self.ceil_mode else room // self.stride) + 1
        dropped = self.ceil_mode and (count - 1) * self.stride >= self.size + self.padding
        return count - 1 if dropped else count

    @property
    def after(self) -> int:
        """Padding behind x that the last window reads."""
        end = (self.count - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return max(0, end - self.size - self.padding)

    def divisors(self, with_padding: bool) -> list[int]:
        """Elements of each window that an average counts: never those that ceil_mode adds."""
        low, high = (-self.padding, self.size + self.padding) if with_padding else (0, self.size)
        starts = [i * self.stride - self.padding for i in range(self.count)]
        return [min(start + self.kernel, high) - max(start, low) for start in starts]


def windows_of(a: Args, name: str, axes: int) -> list[_Axis]:
    """The windows along each spatial axis, by the arguments of a pooling."""
    spatial = a.tensor(name).shape[-axes:]
    kernel = each_axis(a["kernel_size"], axes)
    stride = each_axis(a["stride"], axes) if a["stride"] not in ([], ()) else kernel
    padding, dilation = each_axis(a["padding"], axes), each_axis(a.get("dilation", 1), axes)
    ceil_mode: bool = a["ceil_mode"]
    zipped = zip(spatial, kernel, stride, padding, dilation, strict=True)
    return [_Axis(*numbers, ceil_mode) for numbers in zipped]


def _attrs(axes: Sequence[_Axis]) -> dict[str, tuple[int, ...]]:
    return {
        "kernel": tuple(x.kernel for x in axes),
        "stride": tuple(x.stride for x in axes),
        "before": tuple(x.padding for x in axes),
        "after": tuple(x.after for x in axes),
    }


def max_pool(rank: int) -> Lowering:
    """Greatest of each window."""

    def lower(b: Builder, a: Args) -> Result:
        axes = windows_of(a, "self", rank)
        attrs = {**_attrs(axes), "dilation": tuple(x.dilation for x in axes)}
        return batched(b, a, "self", rank, lambda x: b.emit("max_pool", x, **attrs))

    return lower


def _avg_pool(rank: int) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        axes, override = windows_of(a, "self", rank), a.get("divisor_override", None)
        include = a["count_include_pad"]
        attrs = _attrs(axes)

        def compute(x: Value) -> Value:
            total = b.emit("sum_pool", x, **attrs)
            return _averaged(b, total, [axis.divisors(include) for axis in axes], override)

        return batched(b, a, "self", rank, compute)

    return lower


def _averaged(b: Builder, total: Ref, counts: Sequence[Sequence[int]], override: int | None = None) -> Value:
    """Sums of windows divided by the product of the counts of their axes, or all by one number."""
    divisors = torch.tensor(1 if override is None else override, dtype=torch.float64)
    for axis, count in enumerate(counts):
        along = torch.tensor(count, dtype=torch.float64).reshape(-1, *[1] * (len(counts) - 1 - axis))
        divisors = divisors * along if override is None else divisors
    return divided(b, total, Known(divisors.to(torch_dtype(total.dtype))), total.shape)


# ---- adaptive pooling: the caller names the number of windows
# ------------------------------------------------------------


def adaptive_windows(size: int, count: int) -> list[tuple[int, int]]:
    """First element of each window and the one behind its last, as torch cuts an axis into windows."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _laid_out(
    b: Builder, x: Value, axis: int, windows: Sequence[tuple[int, int]], filler: Value | None
) -> tuple[Value, int, int] | Reject:
    """(x, kernel, stride) such that equal windows of x along the axis are the given ones.

    Windows that differ in length are copied one behind the other, the shorter ones filled up: with the
    filler's element, or with their own last one.
    """
    starts, kernel = [w[0] for w in windows], max(w[1] - w[0] for w in windows)
    stride = starts[1] - starts[0] if len(starts) > 1 else kernel
    if stride and all(w == (i * stride, i * stride + kernel) for i, w in enumerate(windows)):
        return x, kernel, stride
    places = []
    for start, end in windows:
        missing = end - 1 if filler is None else x.shape[axis]
        places += [place if place < end else missing for place in range(start, start + kernel)]
    found = gathered(b, [x] if filler is None else [x, filler], axis, places)
    return found if isinstance(found, Reject) else (found, kernel, kernel)


def adaptive(rank: int, op: str) -> Lowering:
    """Windows that cut each axis into a given number of parts."""

    def lower(b: Builder, a: Args) -> Result:
        counts = each_axis(a["output_size"], rank)
        given = a.tensor("self")
        x: Value = given if len(given.shape) == rank + 2 else b.view(given, (1, *given.shape))
        windows = [adaptive_windows(n, m) for n, m in zip(x.shape[2:], counts, strict=True)]
        kernel, stride = [], []
        for axis, spans in enumerate(windows, 2):
            shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
            zero = None if op == "max_pool" else Known(torch.zeros(shape, dtype=torch_dtype(x.dtype)))
            laid = _laid_out(b, x, axis, spans, zero)
            if isinstance(laid, Reject):
                return laid
            x = laid[0]
            kernel.append(laid[1])
            stride.append(laid[2])
        none = (0,) * rank
        attrs = {"kernel": tuple(kernel), "stride": tuple(stride), "before": none, "after": none}
        result = _adaptive_result(b, op, x, attrs, windows)
        return b.view(result, a.outs[0].shape if a.outs[0] else result.shape)

    return lower


def _adaptive_result(
    b: Builder,
    op: str,
    x: Value,
    attrs: dict[str, tuple[int, ...]],
    windows: Sequence[Sequence[tuple[int, int]]],
) -> Value:
    if math.prod(attrs["kernel"]) == 1 and attrs["stride"] == attrs["kernel"]:
        return x
    if op == "max_pool":
        return b.emit(op, x, **attrs, dilation=(1,) * len(windows))
    return _averaged(b, b.emit(op, x, **attrs), [[end - start for start, end in spans] for spans in windows])


LOWERINGS: Mapping[Any, Lowering] = {
    aten.max_pool1d.default: max_pool(1),
    aten.max_pool2d.default: max_pool(2),
    aten.max_pool3d.default: max_pool(3),
    aten.avg_pool1d.default: _avg_pool(1),
    aten.avg_pool2d.default: _avg_pool(2),
    aten.avg_pool3d.default: _avg_pool(3),
    aten.adaptive_avg_pool1d.default: adaptive(1, "sum_pool"),
    aten.adaptive_avg_pool2d.default: adaptive(2, "sum_pool"),
    aten._adaptive_avg_pool2d.default: adaptive(2, "sum_pool"),
    aten.adaptive_avg_pool3d.default: adaptive(3, "sum_pool"),
    aten._adaptive_avg_pool3d.default: adaptive(3, "sum_pool"),
}
