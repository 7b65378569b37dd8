"""Transposed convolution as convolutions of stride 1, one for each residue of the result's index.

Along one axis y[o] = sum of x[i] * w[k] over i * stride + k * dilation = o + padding. For o = r + stride *
t only every (stride / g)-th tap takes part, g = gcd(stride, dilation), and i moves by dilation / g from one
such tap to the next: a convolution with part of the kernel, reversed. No zero is ever multiplied that torch
does not multiply.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype


@dataclass(frozen=True, slots=True)
class Geometry:
    """Arguments of a transposed convolution, the tuples with one int for each spatial axis."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True, slots=True)
class _Phase:
    """One residue along one axis: taps last, last - step, ... (count of them; none: the phase is zero) over
    x without its first and last `crop` elements and with `pad` zeros before and after.
    """

    last: int = 0
    step: int = 1
    count: int = 0
    dilation: int = 1
    crop: tuple[int, int] = (0, 0)
    pad: tuple[int, int] = (0, 0)

    @property
    def window(self) -> tuple[object, ...]:
        """Equal for phases that read the same elements of x."""
        return self.count, self.dilation, self.crop, self.pad


def _phase(residue: int, size: int, places: int, kernel: int, g: Geometry, axis: int) -> _Phase:
    stride, dilation, shifted = g.stride[axis], g.dilation[axis], residue + g.padding[axis]
    taps = [k for k in range(kernel) if (shifted - k * dilation) % stride == 0]
    if not taps:
        return _Phase()
    common = math.gcd(stride, dilation)
    apart, count = dilation // common, len(taps)
    newest = (shifted - taps[0] * dilation) // stride  # the element that the first tap meets at t = 0
    before = apart * (count - 1) - newest
    after = places + newest - size
    crop = max(0, -before), max(0, -after)
    if sum(crop) >= size:
        return _Phase()
    return _Phase(taps[-1], stride // common, count, apart, crop, (max(0, before), max(0, after)))


def transposed_convolution(b: Builder, x: Value, weight: Value, bias: Value | None, g: Geometry) -> Value:
    """x[N, C, *S] and weight[C, Co / groups, *K] -> [N, Co, *O]; O = (S - 1) * stride - 2 * padding +
    dilation * (K - 1) + output_padding + 1.
    """
    axes, kernel, spatial = len(g.stride), weight.shape[2:], x.shape[2:]
    out = [
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, k, s, p, o, d in zip(
            spatial, kernel, g.stride, g.padding, g.output_padding, g.dilation, strict=True
        )
    ]
    places = [-(-n // s) for n, s in zip(out, g.stride, strict=True)]
    weight = _turned(b, weight, g.groups)
    residues = itertools.product(*(range(s) for s in g.stride))
    phases = [[_phase(r[i], spatial[i], places[i], kernel[i], g, i) for i in range(axes)] for r in residues]
    whole = _together(b, x, weight, bias, phases, g)
    if whole is None:
        parts = [_one(b, x, weight, bias, phase, places, g.groups) for phase in phases]
        whole = b.cat([b.view(part, (part.shape[0], 1, *part.shape[1:])) for part in parts], 1)
    spread = _interleaved(b, whole, g.stride, places)
    for axis, size in enumerate(out, 2):
        spread = b.slice(spread, axis, 0, 1, size)
    return spread


def _turned(b: Builder, weight: Value, groups: int) -> Value:
    """[Co, C / groups, *K] from [C, Co / groups, *K]."""
    channels, features, *kernel = weight.shape
    apart = b.view(weight, (groups, channels // groups, features, *kernel))
    order = (0, 2, 1, *range(3, 3 + len(kernel)))
    return b.view(b.permute(apart, order), (groups * features, channels // groups, *kernel))


def _taps(b: Builder, weight: Value, phases: Sequence[_Phase]) -> Value:
    for axis, p in enumerate(phases, 2):
        weight = b.slice(weight, axis, p.last, -p.step, p.count)
    return weight


def _convolved(
    b: Builder, x: Value, weight: Value, bias: Value | None, phases: Sequence[_Phase], groups: int
) -> Value:
    for axis, p in enumerate(phases, 2):
        x = b.slice(x, axis, p.crop[0], 1, x.shape[axis] - sum(p.crop))
    return b.emit(
        "conv",
        x,
        weight,
        *(() if bias is None else (bias,)),
        stride=(1,) * len(phases),
        before=tuple(p.pad[0] for p in phases),
        after=tuple(p.pad[1] for p in phases),
        dilation=tuple(p.dilation for p in phases),
        groups=groups,
    )


def _one(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    phases: Sequence[_Phase],
    places: Sequence[int],
    groups: int,
) -> Value:
    """One phase [N, Co, *places]."""
    if all(p.count for p in phases):
        return _convolved(b, x, _taps(b, weight, phases), bias, phases, groups)
    shape = (x.shape[0], weight.shape[0], *places)
    if bias is None:
        return Known(torch.zeros((), dtype=torch_dtype(x.dtype)).expand(shape))
    return b.expand(
        b.view(bias, (-1 if isinstance(bias, Known) else bias.shape[0], *[1] * len(places))), shape
    )


def _together(
    b: Builder, x: Value, weight: Value, bias: Value | None, phases: Sequence[Sequence[_Phase]], g: Geometry
) -> Value | None:
    """All phases [N, phase, Co, *places] by one convolution, where all read the same windows; else None."""
    windows = {tuple(p.window for p in phase) for phase in phases}
    if len(phases) == 1 or len(windows) > 1 or g.groups > 1 or not all(p.count for p in phases[0]):
        return None
    features = weight.shape[0]
    stacked = b.cat([_taps(b, weight, phase) for phase in phases], 0)
    biases = None if bias is None else b.cat([bias] * len(phases), 0)
    result = _convolved(b, x, stacked, biases, phases[0], 1)
    return b.view(result, (result.shape[0], len(phases), features, *result.shape[2:]))


def _interleaved(b: Builder, parts: Value, stride: Sequence[int], places: Sequence[int]) -> Value:
    """[N, Co, *(places * stride)] from [N, phase, Co, *places]."""
    axes, (batch, _, features) = len(stride), parts.shape[:3]
    apart = b.view(parts, (batch, *stride, features, *places))
    pairs = [axis for i in range(axes) for axis in (2 + axes + i, 1 + i)]
    mixed = b.permute(apart, (0, 1 + axes, *pairs))
    return b.view(mixed, (batch, features, *(n * s for n, s in zip(places, stride, strict=True))))
