"""Discrete Fourier transforms as products with constant matrices.

A length that is neither short nor prime is two shorter transforms with twiddle factors between them
(Cooley-Tukey). Everything is written with real torch tensors, for tracing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchcalyx.normalize.complex_numbers import Z, apart, each, matrix_product

DIRECT = 64
"""Longest transform that is one matrix product where it could be split."""


def complex_to_complex(_: Any, self: Z | Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Z:
    """aten._fft_c2c: along each of `dim`."""
    z = self if isinstance(self, Z) else Z(self)
    scale = _scale(normalization, [z.shape[d] for d in dim])
    for number, d in enumerate(dim):
        z = transform(z, d, forward, scale if number == 0 else 1.0)
    return z


def real_to_complex(_: Any, self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Z:
    """aten._fft_r2c: the last of `dim` first, whose upper half can be left out."""
    scale = _scale(normalization, [self.shape[d] for d in dim])
    half = self.shape[dim[-1]] // 2 + 1 if onesided else None
    z = transform(Z(self), dim[-1], True, scale, half)
    for d in dim[:-1]:
        z = transform(z, d, True, 1.0)
    return z


def complex_to_real(
    _: Any, self: Z | Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    """aten._fft_c2r: the upper half of the last of `dim` follows by symmetry."""
    z = self if isinstance(self, Z) else Z(self)
    sizes = [last_dim_size if d == dim[-1] else z.shape[d] for d in dim]
    for d in dim[:-1]:
        z = transform(z, d, False, 1.0)
    return _real_inverse(z, dim[-1], last_dim_size, _scale(normalization, sizes))


def _scale(normalization: int, sizes: Sequence[int]) -> float:
    """torch's numbers: 0 none, 1 by the root of the size, 2 by the size."""
    size = math.prod(sizes)
    return (1.0, size**-0.5, 1.0 / size)[normalization]


def transform(z: Z, dim: int, forward: bool, scale: float, keep: int | None = None) -> Z:
    """The transform along one axis, times `scale`; `keep` of its results (None: all)."""
    size = z.shape[dim]
    moved = Z(z.re.movedim(dim, -1), None if z.im is None else z.im.movedim(dim, -1))
    if size == 1:
        found = _times(moved, scale)
    elif _factors(size) is not None:
        found = _split(moved, forward, scale)
        if keep is not None:
            found = Z(found.re[..., :keep], found.imag[..., :keep])
    else:
        found = _product(moved, forward, scale, keep or size)
    return Z(found.re.movedim(-1, dim), found.imag.movedim(-1, dim))


def _times(z: Z, factor: float) -> Z:
    return z if factor == 1.0 else Z(z.re * factor, None if z.im is None else z.im * factor)


def _factors(size: int) -> tuple[int, int] | None:
    """How a long transform is split: the two factors most alike; None where it is not."""
    first = next((f for f in range(math.isqrt(size), 1, -1) if size % f == 0), None)
    return None if first is None or size <= DIRECT else (first, size // first)


def _split(z: Z, forward: bool, scale: float) -> Z:
    """X[k1 + a k2] = sum over n2 of W_b^(n2 k2) W_N^(n2 k1) sum over n1 of W_a^(n1 k1) x[b n1 + n2]."""
    size = z.shape[-1]
    factors = _factors(size)
    assert factors is not None
    a, b = factors
    rows = each(z, lambda t: apart(t, a, b))
    inner = transform(rows, -2, forward, scale)
    turned = inner * twiddles(a, b, size, forward, z.re.dtype)
    outer = transform(turned, -1, forward, 1.0)
    return Z(outer.re.transpose(-1, -2).flatten(-2), outer.imag.transpose(-1, -2).flatten(-2))


def twiddles(rows: int, columns: int, size: int, forward: bool, dtype: torch.dtype, scale: float = 1.0) -> Z:
    """scale * exp(-+ 2 pi i j k / size) for j < rows, k < columns; exponents are reduced exactly."""
    place = torch.arange(rows).unsqueeze(-1) * torch.arange(columns) % size
    angle = place.to(torch.float64) * (2 * math.pi / size)
    sign = -1.0 if forward else 1.0
    return Z((angle.cos() * scale).to(dtype), (angle.sin() * (sign * scale)).to(dtype))


def _product(z: Z, forward: bool, scale: float, keep: int) -> Z:
    """One real matrix product that gives both parts side by side."""
    size = z.shape[-1]
    w = twiddles(size, keep, size, forward, z.re.dtype, scale)
    matrix = torch.cat([w.re, w.imag], -1)
    x = z.re
    if z.im is not None:
        x, matrix = torch.cat([z.re, z.im], -1), torch.cat([matrix, torch.cat([-w.imag, w.re], -1)], 0)
    both = matrix_product(x, matrix)
    return Z(both[..., :keep], both[..., keep:])


def _real_inverse(z: Z, dim: int, size: int, scale: float) -> Tensor:
    """The real result of a symmetric spectrum of which the lower half is given, forward or not."""
    re, im = z.re.movedim(dim, -1), z.imag.movedim(dim, -1)
    half = size // 2 + 1
    if _factors(size) is not None:
        upper = slice(1, size - half + 1)
        whole = Z(torch.cat([re, re[..., upper].flip(-1)], -1), torch.cat([im, -im[..., upper].flip(-1)], -1))
        return _split(whole, False, scale).re.movedim(-1, dim)
    w = twiddles(half, size, size, False, re.dtype, scale)
    place = torch.arange(half).unsqueeze(-1)  # all but the first, and the last of an even size, stand for two
    weight = torch.where((place == 0) | (2 * place == size), 1.0, 2.0).to(re.dtype)
    matrix = torch.cat([w.re * weight, -w.imag * weight])
    return matrix_product(torch.cat([re, im], -1), matrix).movedim(-1, dim)
