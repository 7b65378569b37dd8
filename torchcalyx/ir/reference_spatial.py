"""Meaning of the operations over spatial axes, in numpy: windows of a padded array, then one contraction or
fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Tensor: TypeAlias = "npt.NDArray[Any]"


def _windows(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    fill: float,
) -> Tensor:
    """[N, C, *positions, *taps] of x[N, C, *S] padded with `fill`."""
    axes = len(kernel)
    border = [(0, 0), (0, 0), *zip(before, after, strict=True)]
    padded = np.pad(x, border, constant_values=fill)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    every = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, 2 + axes)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in (*stride, *dilation)))
    found: Tensor = every[steps]
    return found


def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    axes = x.ndim - 2
    windows = _windows(x, weight.shape[2:], stride, before, after, dilation, 0)
    taps = tuple(range(2 + axes, 2 + 2 * axes))
    parts = []
    for channels, filters in zip(np.split(windows, groups, axis=1), np.split(weight, groups), strict=True):
        total = np.tensordot(channels, filters, axes=((1, *taps), tuple(range(1, 2 + axes))))
        parts.append(np.moveaxis(total, -1, 1))
    y: Tensor = np.concatenate(parts, axis=1)
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


def _max_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    least = -np.inf if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min
    windows = _windows(x, kernel, stride, before, after, dilation, least)
    return np.asarray(windows.max(axis=tuple(range(x.ndim, windows.ndim))))


def _sum_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], before: Sequence[int], after: Sequence[int]
) -> Tensor:
    windows = _windows(x, kernel, stride, before, after, (1,) * len(kernel), 0)
    return np.asarray(windows.sum(axis=tuple(range(x.ndim, windows.ndim)), dtype=x.dtype))


def _upsample(x: Tensor, scales: Sequence[int]) -> Tensor:
    for axis, scale in enumerate(scales, 2):
        x = np.repeat(x, scale, axis)
    return x


EVALUATORS: Mapping[str, Callable[..., Tensor]] = {
    "conv": _conv,
    "max_pool": _max_pool,
    "sum_pool": _sum_pool,
    "upsample": _upsample,
}
