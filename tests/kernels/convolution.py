"""Convolutions as kernels: activations in memory and windows over them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kernels.gemm import ACT, BIAS, WEIGHT, epilogue, padded
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.kernels.ports.access import Access, Operand
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.kernels.products.dot import Dot
from torchcalyx.kernels.products.window import WindowDot


@dataclass(frozen=True)
class Conv:
    """A convolution of any number of spatial axes. pads: before and after each axis."""

    batch: int
    channels: int
    spatial: tuple[int, ...]
    features: int
    kernel: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    pads: tuple[tuple[int, int], ...] = ()
    dilation: int | tuple[int, ...] = 1
    fill: int = 0

    def each(self, value: int | tuple[int, ...]) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else (value,) * len(self.kernel)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels, *self.spatial)

    @property
    def inner(self) -> int:
        return self.channels * product(self.kernel)

    def access(self, stored: Access) -> Access:
        """(batch, *positions, *taps, channel) from an access over (batch, channel, *spatial)."""
        axes = len(self.kernel)
        pads = self.pads or ((0, 0),) * axes
        view = stored.pad((0, 0, *(b for b, _ in pads)), (0, 0, *(a for _, a in pads)), self.fill)
        assert view is not None
        for axis, (size, stride, gap) in enumerate(
            zip(self.kernel, self.each(self.stride), self.each(self.dilation), strict=True)
        ):
            view = view.window(2 + axis, size, stride, gap)
        return view.permute((0, *range(2, 2 + 2 * axes), 1))


def stored(conv: Conv, fmt: NumberFormat, lanes: int, order: str) -> Operand:
    """The input over (batch, channel, *spatial). order: "pixels" (a word starts each pixel) or "planes"."""
    axes = len(conv.spatial)
    if order == "planes":
        return padded(conv.shape, fmt, lanes)
    operand = padded((conv.batch, *conv.spatial, conv.channels), fmt, lanes)
    return Operand(fmt, operand.layout, operand.access.permute((0, axes + 1, *range(1, axes + 1))))


def left_of(conv: Conv, fmt: NumberFormat, lanes: int, order: str) -> Operand:
    """The windows over the stored input."""
    memory = stored(conv, fmt, lanes, order)
    return Operand(fmt, memory.layout, conv.access(memory.access))


def window(
    conv: Conv,
    lanes: int,
    columns: int,
    order: str = "pixels",
    left: NumberFormat = ACT,
    weight: NumberFormat = WEIGHT,
    out: NumberFormat = ACT,
    mul_stages: int = 1,
) -> WindowDot:
    """relu(conv(x) + bias) on the window kernel."""
    windows, contracted = left_of(conv, left, lanes, order), len(conv.kernel) + 1
    domain = (*windows.access.sizes[:-contracted], conv.features)
    return WindowDot(
        windows, weight, conv.features, columns, epilogue(accumulator(left, weight, conv.inner), out),
        (padded((conv.features,), BIAS, lanes, domain),), padded(domain, out, lanes, exact=True),
        mul_stages, contracted,
    )  # fmt: skip


def dot_of(spec: WindowDot) -> Dot:
    """The same convolution on the dot kernel."""
    return Dot(
        spec.left, spec.weight_fmt, spec.features, spec.columns, spec.epilogue, spec.extras, spec.out,
        spec.mul_stages, spec.contracted,
    )  # fmt: skip
