"""Short-time Fourier transforms: overlapping frames as views, their transforms, and overlapped sums."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torchcalyx.normalize import fourier
from torchcalyx.normalize.complex_numbers import Z, apart, each

PIECES = 64
"""Most slices that frames are joined from."""


def stft(
    _: Any,
    self: Z | Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Z | Tensor | None = None,
    center: bool | None = None,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Z | Tensor:
    """aten.stft in both overloads."""
    x = self if isinstance(self, Z) else Z(self)
    if align_to_window:
        raise ValueError("align_to_window is not supported")
    flat = x.re.dim() == 1
    x = each(x, lambda t: t.unsqueeze(0)) if flat else x
    if center:
        x = each(x, lambda t: F.pad(t.unsqueeze(0), (n_fft // 2,) * 2, pad_mode).squeeze(0))
    hop = hop_length or n_fft // 4
    cut = each(x, lambda t: framed(t, n_fft, hop))
    shape = _window(window, win_length, n_fft, x.re.dtype)
    cut = cut if shape is None else cut * shape
    real = cut.im is None
    one = real if onesided is None else onesided
    if real:
        found = fourier.real_to_complex(_, cut.re, [-1], int(normalized), one)
    else:
        found = fourier.complex_to_complex(_, cut, [-1], int(normalized), True)
    found = each(found, lambda t: t.transpose(1, 2))
    found = each(found, lambda t: t.squeeze(0)) if flat else found
    return found if return_complex is not False else torch.stack([found.re, found.imag], -1)


def istft(
    _: Any,
    self: Z,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Z | Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Z | Tensor:
    """aten.istft: windowed inverse transforms, added up and divided by the added squares of the window."""
    z = each(self, lambda t: t.unsqueeze(0)) if self.re.dim() == 2 else self
    z = each(z, lambda t: t.transpose(1, 2))
    hop, count = hop_length or n_fft // 4, z.shape[1]
    one = z.shape[-1] != n_fft if onesided is None else onesided
    norm = 1 if normalized else 2
    if return_complex:
        frames = fourier.complex_to_complex(_, z, [-1], norm, False)
    else:
        half = z if one else each(z, lambda t: t[..., : n_fft // 2 + 1])
        frames = Z(fourier.complex_to_real(_, half, [-1], norm, n_fft))
    shape = _window(window, win_length, n_fft, z.re.dtype) or Z(torch.ones(n_fft, dtype=z.re.dtype))
    total = each(frames * shape, lambda t: overlapped(t, hop))
    size = (shape * shape).re.expand(1, count, n_fft)
    divisor = overlapped(size, hop)
    start = n_fft // 2 if center else 0
    full = n_fft + hop * (count - 1)
    end = start + length if length is not None else full - start if center else full
    cut = slice(start, min(end, full))
    result = each(total, lambda t: t[:, cut] / divisor[:, cut])
    if end > full:
        result = each(result, lambda t: F.pad(t, (0, end - full)))
    result = each(result, lambda t: t.squeeze(0)) if self.re.dim() == 2 else result
    return result if return_complex else result.re


def framed(x: Tensor, size: int, hop: int) -> Tensor:
    """[batch, time] -> [batch, frames, size]: chunks of the common divisor, shifted, side by side."""
    count = (x.shape[-1] - size) // hop + 1
    chunk = math.gcd(size, hop)
    if size // chunk <= PIECES:
        used = (count - 1) * hop + size
        chunks = apart(x[:, :used], used // chunk, chunk)
        last, step = (count - 1) * hop // chunk + 1, hop // chunk
        return torch.cat([chunks[:, j : j + last : step] for j in range(size // chunk)], -1)
    if count <= PIECES:
        return torch.stack([x[:, f * hop : f * hop + size] for f in range(count)], 1)
    taps = torch.eye(size, dtype=x.dtype).unsqueeze(1)
    return F.conv1d(x.unsqueeze(1), taps, stride=hop).transpose(1, 2)


def overlapped(x: Tensor, hop: int) -> Tensor:
    """[batch, frames, size] -> [batch, time]: each frame added at its place."""
    count, size = x.shape[1], x.shape[2]
    full = size + hop * (count - 1)
    if size % hop == 0 and size // hop <= PIECES:
        parts = apart(x, size // hop, hop)
        shifted = [F.pad(parts[:, :, j], (0, 0, j, size // hop - 1 - j)) for j in range(size // hop)]
    elif count <= PIECES:
        shifted = [F.pad(x[:, f], (f * hop, full - f * hop - size)) for f in range(count)]
    else:
        taps = torch.eye(size, dtype=x.dtype).unsqueeze(1)
        shifted = [F.conv_transpose1d(x.transpose(1, 2), taps, stride=hop)]
    while len(shifted) > 1:  # a balanced tree: least rounding
        pairs = [shifted[i : i + 2] for i in range(0, len(shifted), 2)]
        shifted = [p[0] + p[1] if len(p) == 2 else p[0] for p in pairs]
    return shifted[0].reshape(x.shape[0], full)


def _window(window: Z | Tensor | None, win_length: int | None, n_fft: int, dtype: torch.dtype) -> Z | None:
    length = win_length or n_fft
    if window is None and length == n_fft:
        return None
    shape = Z(torch.ones(length, dtype=dtype)) if window is None else window
    shape = shape if isinstance(shape, Z) else Z(shape)
    left = (n_fft - length) // 2
    return each(shape, lambda t: F.pad(t, (left, n_fft - length - left))) if length < n_fft else shape
