"""`Z`: complex arithmetic written with real torch tensors, for tracing into real operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

Part: TypeAlias = "Tensor | float"
Number: TypeAlias = "Z | Tensor | complex | float | int | bool"


@dataclass(frozen=True, slots=True, eq=False)
class Z:
    """re + i * im; im is None where it is known to be zero, so that real operands cost real operations."""

    re: Tensor
    im: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """Shape of the complex tensor."""
        return self.re.shape

    @property
    def imag(self) -> Tensor:
        """The imaginary part, zeros where there is none."""
        return torch.zeros_like(self.re) if self.im is None else self.im

    def __neg__(self) -> Z:
        return Z(-self.re, None if self.im is None else -self.im)

    def __add__(self, other: Number) -> Z:
        re, im = parts(other)
        if im is None or self.im is None:
            return _shaped(self.re + re, self.im if im is None else im)
        return Z(self.re + re, self.im + im)

    def __sub__(self, other: Number) -> Z:
        re, im = parts(other)
        if im is None or self.im is None:
            return _shaped(self.re - re, self.im if im is None else -im)
        return Z(self.re - re, self.im - im)

    def __mul__(self, other: Number) -> Z:
        return bilinear(torch.mul, self, other)

    def __truediv__(self, other: Number) -> Z:
        re, im = parts(other)
        if im is None:
            return Z(self.re / re, None if self.im is None else self.im / re)
        return self * as_z(other, self.re).reciprocal()

    def conj(self) -> Z:
        """re - i * im."""
        return Z(self.re, None if self.im is None else -self.im)

    def times_i(self) -> Z:
        """i * z."""
        return Z(-self.imag, self.re)

    def square_abs(self) -> Tensor:
        """|z| squared."""
        return self.re * self.re if self.im is None else self.re * self.re + self.im * self.im

    def abs(self) -> Tensor:
        """|z|."""
        return self.re.abs() if self.im is None else self.square_abs().sqrt()

    def angle(self) -> Tensor:
        """The argument, from -pi to pi."""
        return torch.atan2(self.imag, self.re)

    def reciprocal(self) -> Z:
        """1 / z."""
        if self.im is None:
            return Z(self.re.reciprocal())
        size = self.square_abs()
        return Z(self.re / size, -self.im / size)

    def exp(self) -> Z:
        """e to the power z."""
        if self.im is None:
            return Z(self.re.exp())
        return polar(self.re.exp(), self.im)

    def nonzero(self) -> Tensor:
        """Where z is not zero."""
        return self.re != 0 if self.im is None else (self.re != 0) | (self.im != 0)


def _shaped(re: Tensor, im: Part | None) -> Z:
    """Both parts of one shape, where one operand was real and only the other broadcast."""
    if im is None:
        return Z(re)
    return Z(re, im.expand(re.shape) if isinstance(im, Tensor) else torch.full_like(re, im))


def parts(value: Number) -> tuple[Part, Part | None]:
    """Real and imaginary part of an operand; the latter is None for a real one."""
    if isinstance(value, Z):
        return value.re, value.im
    if isinstance(value, complex):
        return value.real, value.imag
    return value, None


def as_z(value: Number, like: Tensor) -> Z:
    """An operand as `Z`; numbers in the dtype of `like`."""
    if isinstance(value, Z):
        return value
    if isinstance(value, Tensor):
        return Z(value.to(like.dtype))
    number = complex(value)
    re, im = (torch.full((), v, dtype=like.dtype) for v in (number.real, number.imag))
    return Z(re, im if number.imag else None)


def bilinear(function: object, x: Number, y: Number) -> Z:
    """A product of any kind by at most four real ones."""
    assert callable(function)
    (a, b), (c, d) = parts(x), parts(y)
    if b is None or d is None:
        re = function(a, c)
        if b is None and d is None:
            return Z(re)
        return Z(re, function(a, d) if b is None else function(b, c))
    return Z(function(a, c) - function(b, d), function(a, d) + function(b, c))


def each(z: Z, function: Callable[[Tensor], Tensor]) -> Z:
    """A function of each part on its own."""
    return Z(function(z.re), None if z.im is None else function(z.im))


def apart(x: Tensor, first: int, second: int) -> Tensor:
    """The last axis as two."""
    return x.reshape(*x.shape[:-1], first, second)


def matrix_product(x: Tensor, y: Tensor) -> Tensor:
    """torch.matmul, whose own decomposition works in place for vectors."""
    left = x.unsqueeze(0) if x.dim() == 1 else x
    right = y.unsqueeze(1) if y.dim() == 1 else y
    found = torch.matmul(left, right)
    found = found.select(-1, 0) if y.dim() == 1 else found
    return found.select(-1 if y.dim() == 1 else -2, 0) if x.dim() == 1 else found


def polar(size: Tensor, angle: Tensor) -> Z:
    """size * e ** (i * angle)."""
    return Z(size * angle.cos(), size * angle.sin())
