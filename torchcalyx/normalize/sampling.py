"""Lowering of grid_sample: coordinates to indices and weights, elements read at the indices, their sum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Value
from torchcalyx.normalize.division import divided
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.fold import emit
from torchcalyx.normalize.places import taken

aten = torch.ops.aten

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_CUBIC = -0.75
"""The slope that torch gives its cubic filter."""


@dataclass(frozen=True, slots=True)
class _Tap:
    """One element along one axis: its index, anywhere, and its weight (None: 1)."""

    index: Value
    weight: Value | None


def _shifted(b: Builder, x: Value, by: float) -> Value:
    return x if by == 0 else b.emit("add", x, b.known(by, x.dtype))


def _clamped(b: Builder, x: Value, low: float, high: float) -> Value:
    return b.emit("clamp", x, min=low, max=high)


def _floor(b: Builder, x: Value) -> Value:
    """The greatest integer not above x: what truncation gives, one less where that lies above."""
    whole = b.cast(x, "int64")
    above = b.emit("lt", x, b.cast(whole, x.dtype))
    return b.emit("sub", whole, b.cast(above, "int64"))


def _nearest(b: Builder, x: Value) -> Value:
    """The nearest integer, the even one of two."""
    up = _shifted(b, x, 0.5)
    whole = _floor(b, up)
    odd = b.emit("eq", b.emit("remainder_const", whole, value=2), b.known(1, "int64"))
    half = b.emit("eq", up, b.cast(whole, x.dtype))
    return b.emit("sub", whole, b.cast(b.emit("logical_and", odd, half), "int64"))


def _reflected(b: Builder, x: Value, size: int, corners: bool) -> Value:
    """A coordinate reflected at the middle of the border elements, or at their outer edges."""
    low, span = (0.0, float(size - 1)) if corners else (-0.5, float(size))
    if span == 0:
        return scaled(b, x, 0.0)
    away = b.emit("abs", _shifted(b, x, -low))
    flips = b.cast(divided(b, away, b.known(span, x.dtype), x.shape), "int64")
    rest = b.emit("sub", away, scaled(b, b.cast(flips, x.dtype), span))
    odd = b.emit("eq", b.emit("remainder_const", flips, value=2), b.known(1, "int64"))
    back = b.emit("sub", b.known(span, x.dtype), rest)
    return _clamped(b, _shifted(b, b.emit("where", odd, back, rest), low), 0.0, float(size - 1))


def _whole_reflected(b: Builder, index: Value, size: int, corners: bool) -> Value:
    """The same for integers."""
    if corners and size == 1:
        return _clamped(b, index, 0, 0)
    period = 2 * (size - 1) if corners else 2 * size
    rest = b.emit("remainder_const", index, value=period)
    back = b.emit("sub", b.known(period if corners else period - 1, "int64"), rest)
    return b.emit("minimum", rest, back)


def _coordinate(b: Builder, x: Value, size: int, corners: bool) -> Value:
    """From -1 .. 1 to the axis."""
    factor = (size - 1) / 2 if corners else size / 2
    return _shifted(b, scaled(b, x, factor), factor if corners else factor - 0.5)


def _linear_taps(b: Builder, at: Value) -> list[_Tap]:
    first = _floor(b, at)
    above = b.emit("sub", at, b.cast(first, at.dtype))
    below = b.emit("sub", b.known(1.0, at.dtype), above)
    return [_Tap(first, below), _Tap(emit(b, "add", first, b.known(1, "int64")), above)]


def _cubic_taps(b: Builder, at: Value) -> list[_Tap]:
    """Four elements, weighted by two cubics of their distance."""
    first = _floor(b, at)
    t = b.emit("sub", at, b.cast(first, at.dtype))
    u = b.emit("sub", b.known(1.0, at.dtype), t)

    def inner(x: Value) -> Value:  # ((A + 2) x - (A + 3)) x^2 + 1
        slope = _shifted(b, scaled(b, x, _CUBIC + 2), -(_CUBIC + 3))
        return _shifted(b, b.emit("mul", b.emit("mul", slope, x), x), 1.0)

    def outer(x: Value) -> Value:  # A x (1 - x)^2, x the distance beyond 1
        rest = b.emit("sub", b.known(1.0, at.dtype), x)
        return scaled(b, b.emit("mul", b.emit("mul", rest, rest), x), _CUBIC)

    weights = [outer(t), inner(t), inner(u), outer(u)]
    return [_Tap(_moved(b, first, n - 1), w) for n, w in enumerate(weights)]


def _moved(b: Builder, index: Value, by: int) -> Value:
    return index if by == 0 else b.emit("add", index, b.known(by, "int64"))


def _taps(b: Builder, at: Value, size: int, mode: int, padding: int, corners: bool) -> list[_Tap]:
    """The elements of one axis for each coordinate, those outside still outside."""
    at = _coordinate(b, at, size, corners)
    if mode == _BICUBIC:
        found = _cubic_taps(b, at)
        if padding == _REFLECTION:
            return [_Tap(_whole_reflected(b, t.index, size, corners), t.weight) for t in found]
        if padding == _BORDER:
            return [_Tap(_clamped(b, t.index, 0, size - 1), t.weight) for t in found]
        return found
    if padding == _BORDER:
        at = _clamped(b, at, 0.0, float(size - 1))
    elif padding == _REFLECTION:
        at = _reflected(b, at, size, corners)
    return [_Tap(_nearest(b, at), None)] if mode == _NEAREST else _linear_taps(b, at)


def _inside(b: Builder, index: Value, size: int) -> Value:
    low = b.emit("ge", index, b.known(0, "int64"))
    return b.emit("logical_and", low, b.emit("lt", index, b.known(size, "int64")))


def _combine(b: Builder, op: str, values: Sequence[Value | None]) -> Value | None:
    result: Value | None = None
    for value in values:
        if value is not None:
            result = value if result is None else b.emit(op, result, value)
    return result


def _grid_sampler(rank: int) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        x, grid = a.tensor("input"), a.tensor("grid")
        mode, padding, corners = a["interpolation_mode"], a["padding_mode"], a["align_corners"]
        sizes, points = x.shape[2:], math.prod(a.out.shape[2:])
        if mode == _BICUBIC and rank != 2:
            return Reject("bicubic sampling is of two dimensions")
        batch = x.shape[0]
        flat = b.view(x, (batch, x.shape[1], math.prod(sizes)))
        places = b.view(grid, (batch, 1, points, rank))
        axes = []
        for axis, size in enumerate(sizes):  # the grid names the last axis first
            at = b.view(b.slice(places, 3, rank - 1 - axis, 1, 1), (batch, 1, points))
            axes.append(_taps(b, at, size, mode, padding, corners))
        terms = [_term(b, flat, taps, sizes, padding == _ZEROS) for taps in product(*axes)]
        total = _combine(b, "add", terms)
        assert total is not None
        return b.view(total, a.out.shape)

    return lower


def _term(b: Builder, flat: Value, taps: Sequence[_Tap], sizes: Sequence[int], zeros: bool) -> Value:
    """One element of each window times its weight; zeros: 0 where it lies outside."""
    index: Value | None = None
    for tap, size in zip(taps, sizes, strict=True):
        own = _clamped(b, tap.index, 0, size - 1)
        index = own if index is None else emit(b, "add", scaled(b, index, size), own)
    assert index is not None
    value = taken(b, flat, index, 2)
    inside = _combine(
        b,
        "logical_and",
        [_inside(b, t.index, n) if zeros else None for t, n in zip(taps, sizes, strict=True)],
    )
    weight = _combine(b, "mul", [t.weight for t in taps])
    nothing = b.known(0.0, value.dtype)
    if weight is None:
        return value if inside is None else b.emit("where", inside, value, nothing)
    weight = weight if inside is None else b.emit("where", inside, weight, nothing)
    return b.emit("mul", value, weight)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.grid_sampler_2d.default: _grid_sampler(2),
    aten.grid_sampler_3d.default: _grid_sampler(3),
}
