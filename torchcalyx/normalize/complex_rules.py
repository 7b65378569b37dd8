"""What each operation of torch means for real and imaginary parts. Operations that are not here are taken
apart by torch's own decompositions.

A rule gets the operation and its arguments, complex tensors as `Z`, and returns `Z` or real tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torchcalyx.normalize import complex_functions as functions
from torchcalyx.normalize import fourier, frames
from torchcalyx.normalize.complex_numbers import Number, Z, as_z, bilinear, matrix_product, parts, polar

aten, prims = torch.ops.aten, torch.ops.prims

ComplexRule: TypeAlias = Callable[..., Any]

_STEADY = ("index", "indices", "mask", "condition")
"""Arguments that say where, not what: both parts use them as they are."""
_NUMBERS = ("value", "fill_value", "other", "self", "src")


def _each_half(target: Any, *args: Any, **kwargs: Any) -> Any:
    """An operation that is linear in all its tensors together, for each part on its own."""
    named = _named(target, args, kwargs)
    like = next(v.re for v in pytree.tree_leaves(list(named.values())) if isinstance(v, Z))

    def half(which: int) -> Any:
        found = {name: value if name in _STEADY else _half(name, value, which, like)
                 for name, value in named.items()}  # fmt: skip
        return target(**found)

    re, im = half(0), half(1)
    if isinstance(re, Tensor):
        return Z(re, im)
    return [Z(a, b) for a, b in zip(re, im, strict=True)]


def _named(target: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    return {**{a.name: v for a, v in zip(target._schema.arguments, args, strict=False)}, **kwargs}


def _half(name: str, value: Any, which: int, like: Tensor) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Z, Tensor)) for v in value):
        return [_half(name, v, which, like) for v in value]
    if isinstance(value, Tensor):
        return value if which == 0 else torch.zeros_like(value)
    if isinstance(value, Z):
        return value.imag if which else value.re
    if isinstance(value, torch.dtype):
        return value.to_real() if value.is_complex else value
    if isinstance(value, (bool, int, float, complex)) and name in _NUMBERS:
        return value.imag if which else value.real
    if isinstance(value, complex):
        raise ValueError(f"a complex {name} has no rule: multiply by it first")
    return value


def _added(sign: int) -> ComplexRule:
    def rule(_: Any, self: Number, other: Number, alpha: Any = 1) -> Z:
        like = next(v.re for v in (self, other) if isinstance(v, Z)) if _any_z(self, other) else None
        x = as_z(self, _like(self, other, like))
        y = as_z(other, x.re) if alpha == 1 else as_z(other, x.re) * alpha
        return x + y if sign > 0 else x - y

    return rule


def _any_z(*values: Any) -> bool:
    return any(isinstance(v, Z) for v in values)


def _like(x: Any, y: Any, like: Tensor | None) -> Tensor:
    """A tensor of the dtype in which two operands meet; one of them is a complex number or tensor."""
    if like is not None:
        return like
    tensor = x if isinstance(x, Tensor) else y
    assert isinstance(tensor, Tensor)
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())


def _z(value: Any, other: Any = None) -> Z:
    found = next((v.re for v in (value, other) if isinstance(v, Z)), None)
    return as_z(value, _like(value, other, found))


def _rsub(_: Any, self: Number, other: Number, alpha: Any = 1) -> Z:
    result: Z = _added(-1)(_, other, self, alpha)
    return result


def _mul(_: Any, self: Number, other: Number) -> Z:
    x, y = _z(self, other), _z(other, self)
    return x * y


def _div(_: Any, self: Number, other: Number, rounding_mode: str | None = None) -> Z:
    if rounding_mode is not None:
        raise ValueError("complex numbers have no quotient rounded to whole numbers")
    x = _z(self, other)
    re, im = parts(other)
    if im is None:
        return x / re
    return x / _z(other, self)


def _product(target: Any, x: Number, y: Number, **others: Any) -> Z:
    return bilinear(lambda a, b: target(a, b, **others), _z(x, y), _z(y, x))


def _pow(_: Any, self: Number, exponent: Number) -> Z:
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and abs(exponent) <= 8:
        x = _z(self)
        if exponent == 0:
            return Z(torch.ones_like(x.re))
        result = x
        for bit in bin(int(abs(exponent)))[3:]:
            result = result * result
            result = result * x if bit == "1" else result
        return result if exponent > 0 else result.reciprocal()
    x, y = _z(self, exponent), _z(exponent, self)
    return (functions.log(x) * y).exp()


def _equal(_: Any, self: Number, other: Number) -> Tensor:
    difference = _z(self, other) - _z(other, self)
    return ~difference.nonzero()


def _to_copy(_: Any, self: Any, dtype: torch.dtype | None = None, **others: Any) -> Any:
    z = self if isinstance(self, Z) else Z(self)
    if dtype is None or dtype.is_complex:
        real = z.re.dtype if dtype is None else torch.float64 if dtype == torch.complex128 else torch.float32
        return Z(z.re.to(real), None if z.im is None else z.im.to(real))
    return z.nonzero() if dtype == torch.bool else z.re.to(dtype)


def _filled(value: float | None) -> ComplexRule:
    def rule(target: Any, *args: Any, **kwargs: Any) -> Any:
        named = _named(target, args, kwargs)
        x = named["self"].re if isinstance(named["self"], Z) else named["self"]
        fill = complex(named["fill_value"] if value is None else value)
        shape, dtype = named.get("size", x.shape), named.get("dtype")
        if dtype is not None and not dtype.is_complex:
            return torch.full(shape, fill.real, dtype=dtype)
        real = x.dtype if dtype is None else dtype.to_real()
        return Z(torch.full(shape, fill.real, dtype=real), torch.full(shape, fill.imag, dtype=real))

    return rule


def _of(function: Callable[[Z], Any]) -> ComplexRule:
    """A function of one complex number."""

    def rule(_: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self if isinstance(self, Z) else Z(self))

    return rule


def _view_as_complex(_: Any, self: Tensor) -> Z:
    return Z(self[..., 0], self[..., 1])


def _truth(target: Any, self: Z, *args: Any, **kwargs: Any) -> Any:
    return target(self.nonzero(), *args, **kwargs)


def _spread(target: Any, self: Z, *args: Any, **kwargs: Any) -> Tensor:
    """The variance of complex numbers is that of both parts together."""
    variance = getattr(aten.var, target._overloadname)
    total: Tensor = variance(self.re, *args, **kwargs) + variance(self.imag, *args, **kwargs)
    return total.sqrt() if target.overloadpacket is aten.std else total


def _broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shape = np.broadcast_shapes(a.shape, b.shape)
    return a.expand(shape), b.expand(shape)


def _complex(_: Any, real: Tensor, imag: Tensor) -> Z:
    return Z(*_broadcast(real, imag))


def _polar(_: Any, abs: Tensor, angle: Tensor) -> Z:
    return polar(*_broadcast(abs, angle))


_LINEAR = (
    aten.view, aten._unsafe_view, aten.reshape, aten.squeeze, aten.unsqueeze, aten.flatten, aten.unflatten,
    aten._reshape_alias, aten.permute, aten.transpose, aten.t, aten.select, aten.slice, aten.split,
    aten.split_with_sizes, aten.chunk, aten.unbind, aten.flip, aten.diagonal, aten.expand, aten.cat,
    aten.stack, aten.constant_pad_nd, aten.pad, aten.repeat, aten.repeat_interleave, aten.roll, aten.tril,
    aten.triu, aten.index_select, aten.index, aten._unsafe_index, aten.index_put, aten.gather, aten.unfold,
    aten.slice_scatter, aten.select_scatter, aten.diagonal_scatter, aten.scatter, aten.scatter_add,
    aten.index_add, aten.index_copy, aten.index_fill, aten.take, aten.masked_fill, aten.where, aten.clone,
    aten.alias, aten.detach, aten.contiguous, aten.lift_fresh, aten.lift_fresh_copy, aten.positive,
    aten.sum, aten.mean, aten.cumsum, aten.trace, aten.as_strided, aten.diag_embed, aten.squeeze_copy,
    aten.unsqueeze_copy, aten.rot90, aten.diff, aten.swapaxes, aten.mT, aten.movedim, aten.fill,
)  # fmt: skip

RULES: Mapping[Any, ComplexRule] = {
    **{packet: _each_half for packet in _LINEAR},
    **{packet: _product for packet in (aten.mm, aten.bmm, aten.mv, aten.dot)},
    aten.matmul: lambda _, self, other: bilinear(matrix_product, _z(self, other), _z(other, self)),
    aten.add: _added(1),
    aten.sub: _added(-1),
    aten.rsub: _rsub,
    aten.mul: _mul,
    aten.div: _div,
    aten.true_divide: _div,
    aten.pow: _pow,
    aten.eq: _equal,
    aten.ne: lambda *a: ~_equal(*a),
    aten.any: _truth,
    aten.all: _truth,
    aten.logical_not: _truth,
    aten._to_copy: _to_copy,
    **{packet: _spread for packet in (aten.var, aten.std)},
    aten.complex: _complex,
    aten.polar: _polar,
    aten.view_as_complex: _view_as_complex,
    aten.view_as_real: _of(lambda x: torch.stack([x.re, x.imag], -1)),
    aten.real: _of(lambda x: x.re),
    aten.imag: _of(lambda x: x.imag),
    **{p: _of(Z.conj) for p in (aten._conj, aten.conj, aten._conj_physical, aten.conj_physical)},
    **{p: _of(lambda x: x) for p in (aten.resolve_conj, aten.resolve_neg)},
    aten.neg: _of(lambda x: -x),
    aten._neg_view: _of(lambda x: -x),
    aten.abs: _of(Z.abs),
    aten.angle: _of(Z.angle),
    aten.sgn: _of(functions.sgn),
    aten.square: _of(lambda x: x * x),
    aten.reciprocal: _of(Z.reciprocal),
    aten.exp: _of(Z.exp),
    aten.exp2: _of(lambda x: (x * math.log(2)).exp()),
    aten.expm1: _of(lambda x: x.exp() - 1),
    aten.log: _of(functions.log),
    aten.log2: _of(lambda x: functions.log(x, 2)),
    aten.log10: _of(lambda x: functions.log(x, 10)),
    aten.log1p: _of(lambda x: functions.log(x + 1)),
    aten.sqrt: _of(functions.sqrt),
    aten.rsqrt: _of(lambda x: functions.sqrt(x).reciprocal()),
    aten.sinh: _of(functions.sinh),
    aten.cosh: _of(functions.cosh),
    aten.tanh: _of(functions.tanh),
    aten.sin: _of(functions.turned(functions.sinh)),
    aten.cos: _of(lambda x: functions.cosh(x.times_i())),
    aten.tan: _of(functions.turned(functions.tanh)),
    aten.sigmoid: _of(lambda x: (functions.tanh(x * 0.5) + 1) * 0.5),
    aten.isfinite: _of(lambda x: torch.isfinite(x.re)),
    aten.isnan: _of(lambda x: torch.isnan(x.re)),
    aten.isinf: _of(lambda x: torch.isinf(x.re)),
    **{p: _filled(0) for p in (aten.zeros_like, aten.new_zeros, aten.empty_like, aten.new_empty)},
    **{p: _filled(1) for p in (aten.ones_like, aten.new_ones)},
    **{p: _filled(None) for p in (aten.full_like, aten.new_full)},
    aten._fft_c2c: fourier.complex_to_complex,
    aten._fft_r2c: fourier.real_to_complex,
    aten._fft_c2r: fourier.complex_to_real,
    aten.stft: lambda target, *args, **kwargs: frames.stft(target, **_named(target, args, kwargs)),
    aten.istft: frames.istft,
}
