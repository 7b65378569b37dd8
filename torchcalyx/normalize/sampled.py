"""Functions of one variable that the kernel library samples: torch's operator, the function's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value
from torchcalyx.normalize.fold import emit

aten = torch.ops.aten


def function(b: Builder, name: str, x: Value, *params: float) -> Value:
    """The function of `x`, in the dtype of `x`."""
    return emit(b, "function", x, name=name, params=tuple(float(p) for p in params))


def _sampled(name: str, argument: str = "self") -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        return function(b, name, b.cast(a.tensor(argument), a.out.dtype))

    return lower


def constant(a: Args, name: str) -> float | None:
    """A number, or a tensor of equal numbers known at compile time; None for anything else."""
    value = a.operand(name)
    if isinstance(value, Ref):
        return None
    if isinstance(value, Known):
        flat = value.tensor.reshape(-1)
        return float(flat[0]) if flat.numel() and bool((flat == flat[0]).all()) else None
    return float(value)


def _polynomial(name: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        degree = constant(a, "n")
        if degree is None:
            return Reject(
                "the degree n is computed or differs between elements; a table needs one degree known at "
                "compile time"
            )
        x = a.operand("x")
        if not isinstance(x, (Ref, Known)):
            return Reject("the argument x must be a tensor")
        return b.expand(function(b, name, b.cast(x, a.out.dtype), float(int(degree))), a.out.shape)

    return lower


def _polygamma(b: Builder, a: Args) -> Result:
    return function(b, "polygamma", b.cast(a.tensor("self"), a.out.dtype), float(a["n"]))


def _digamma(b: Builder, a: Args) -> Result:
    return function(b, "polygamma", b.cast(a.tensor("self"), a.out.dtype), 0.0)


def _zeta(b: Builder, a: Args) -> Result:
    """zeta(self, other) where one of both is one number."""
    for name, other, known in (("zeta_of", "self", "other"), ("zeta_from", "other", "self")):
        number, x = constant(a, known), a.operand(other)
        if number is not None and isinstance(x, (Ref, Known)):
            return b.expand(function(b, name, b.cast(x, a.out.dtype), number), a.out.shape)
    return Reject("both arguments are computed; a table needs one of them known at compile time")


def _logit(b: Builder, a: Args) -> Result:
    x, eps = b.cast(a.tensor("self"), a.out.dtype), a["eps"]
    if eps is not None:
        x = b.emit("clamp", x, min=float(eps), max=1.0 - float(eps))
    return function(b, "logit", x)


_NAMES: Mapping[str, str] = {
    **{k: k for k in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfinv",
                      "erfc", "lgamma", "i0", "sinc")},
    **{f"special_{k}": k for k in (
        "erfinv", "erfc", "erfcx", "i0", "i0e", "i1", "i1e", "sinc", "entr", "ndtr", "ndtri", "log_ndtr",
        "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai")},
    "special_gammaln": "lgamma",
    "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "i1",
    "special_modified_bessel_k0": "k0", "special_modified_bessel_k1": "k1",
    "special_scaled_modified_bessel_k0": "k0e", "special_scaled_modified_bessel_k1": "k1e",
    "special_spherical_bessel_j0": "spherical_j0",
}  # fmt: skip
_X = ("special_airy_ai", "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1",
      "special_spherical_bessel_j0")  # fmt: skip
"""Operators that call their argument x."""

_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p",
)  # fmt: skip


def overloads(*names: str) -> list[Any]:
    """Every overload of some operators that takes tensors and makes its result itself."""
    packets = [getattr(aten, name) for name in names]
    found = [getattr(p, k) for p in packets for k in p.overloads() if "out" not in k.lower()]
    return [o for o in found if any(str(v.type) == "Tensor" for v in o._schema.arguments)]


LOWERINGS: Mapping[Any, Lowering] = {
    **{getattr(aten, op).default: _sampled(name, "x" if op in _X else "self") for op, name in _NAMES.items()},
    **{
        o: _polynomial(op.replace("_polynomial", ""))
        for op in _POLYNOMIALS
        for o in overloads(f"special_{op}")
    },
    **{o: _zeta for o in overloads("special_zeta")},
    aten.polygamma.default: _polygamma,
    aten.special_polygamma.default: _polygamma,
    aten.digamma.default: _digamma,
    aten.special_psi.default: _digamma,
    aten.special_digamma.default: _digamma,
    aten.logit.default: _logit,
    aten.special_logit.default: _logit,
}
