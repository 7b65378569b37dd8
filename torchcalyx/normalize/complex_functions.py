"""Functions of one complex number, from real functions of its parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from torchcalyx.normalize.complex_numbers import Z


def log(x: Z, base: float = math.e) -> Z:
    """The logarithm to a base; its imaginary part lies between -pi and pi."""
    scale = 1 / math.log(base)
    return Z(0.5 * scale * x.square_abs().log(), scale * x.angle() if base != math.e else x.angle())


def sqrt(x: Z) -> Z:
    """Principal root: both parts from the length, without cancellation where one of them is small."""
    size, zero = x.abs(), torch.zeros_like(x.re)
    re = torch.sqrt(torch.clamp_min(0.5 * (size + x.re), 0.0))
    im = torch.sqrt(torch.clamp_min(0.5 * (size - x.re), 0.0))
    return Z(re, torch.where(x.imag < zero, -im, im))


def sinh(x: Z) -> Z:
    """Hyperbolic sine."""
    up, down = x.re.exp(), (-x.re).exp()
    return Z(0.5 * (up - down) * x.imag.cos(), 0.5 * (up + down) * x.imag.sin())


def cosh(x: Z) -> Z:
    """Hyperbolic cosine."""
    up, down = x.re.exp(), (-x.re).exp()
    return Z(0.5 * (up + down) * x.imag.cos(), 0.5 * (up - down) * x.imag.sin())


def turned(function: Callable[[Z], Z]) -> Callable[[Z], Z]:
    """sin and tan from sinh and tanh: f(z) = -i g(i z)."""
    return lambda x: -(function(x.times_i()).times_i())


def tanh(x: Z) -> Z:
    """From tanh(2 re), whose values stay below 1: sinh(2 re) alone would span the square of the range."""
    twice, angle = torch.tanh(2 * x.re), 2 * x.imag
    inverse = 2 / ((2 * x.re).exp() + (-2 * x.re).exp())  # 1 / cosh(2 re)
    divisor = 1 + angle.cos() * inverse
    return Z(twice / divisor, angle.sin() * inverse / divisor)


def sgn(x: Z) -> Z:
    """z / |z|, zero at zero."""
    size, zero = x.abs(), torch.zeros_like(x.re)
    some = size > 0
    safe = torch.where(some, size, torch.ones_like(size))
    return Z(torch.where(some, x.re / safe, zero), torch.where(some, x.imag / safe, zero))
