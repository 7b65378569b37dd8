"""The nonlinear functions as real functions, and what about them a table can use: symmetry, limits, scaling.

Everything here is float64 and says what a function means; `function.py` turns it into a datapath.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .sampled import Sampled
from .values import Real, RealFunction

erf: RealFunction = np.vectorize(math.erf, otypes=[np.float64])
erfc: RealFunction = np.vectorize(math.erfc, otypes=[np.float64])


@dataclass(frozen=True)
class Curve:
    """f(x) = offset + slope * max(x, 0) + rest, where the rest has limits so that a table of finite length
    holds it.

    rest: of x ("none"), of |x| ("even"), or of |x| with the sign of x ("odd"). left, right: limits of the
    rest (None: it grows without bound); left only counts for "none". rising: f never falls. jump: beyond this
    x the rest is dropped.
    """

    rest: RealFunction
    symmetry: Literal["none", "odd", "even"]
    left: float | None
    right: float | None
    slope: float = 0.0
    offset: float = 0.0
    rising: bool = False
    jump: float | None = None

    def exact(self, x: Real) -> Real:
        """f(x)."""
        rest = self.rest(x if self.symmetry == "none" else np.abs(x))
        rest = np.where(x < 0, -rest, rest) if self.symmetry == "odd" else rest
        if self.jump is not None:
            rest = np.where(x > self.jump, 0.0, rest)
        return self.offset + self.slope * np.maximum(x, 0.0) + rest


@dataclass(frozen=True)
class Power:
    """f(x) = x ** exponent for an exponent of 1/2, -1/2 or -1; signs: an odd function of negative x too.

    f(0) is the largest number of the output for negative exponents, and so is f of a negative number without
    `signs`; for a positive exponent it is 0.
    """

    exponent: float
    signs: bool = False

    def exact(self, x: Real) -> Real:
        """f(x), infinite where the power is."""
        with np.errstate(divide="ignore"):
            size = np.power(np.abs(x) if self.signs else np.maximum(x, 0.0), self.exponent)
        return np.where((x < 0) & self.signs, -size, size)


@dataclass(frozen=True)
class Logarithm:
    """f(x) = scale * ln(x + addend); minus infinity where x + addend is not positive."""

    scale: float
    addend: int = 0

    def exact(self, x: Real) -> Real:
        """f(x)."""
        with np.errstate(divide="ignore"):
            log = np.log1p(np.maximum(x, -1.0)) if self.addend == 1 else np.log(np.maximum(x, 0.0))
        return self.scale * log


@dataclass(frozen=True)
class Exponential:
    """f(x) = 2 ** (rate * x)."""

    rate: float

    def exact(self, x: Real) -> Real:
        """f(x)."""
        return np.exp2(np.minimum(self.rate * x, 1023.99))  # finite


@dataclass(frozen=True)
class Wave:
    """f(x) = sin(x + quarters * pi / 2)."""

    quarters: int

    def exact(self, x: Real) -> Real:
        """f(x)."""
        return np.cos(x) if self.quarters else np.sin(x)


Definition: TypeAlias = Curve | Power | Logarithm | Exponential | Wave | Sampled


def _sigmoid(x: Real) -> Real:
    """Without overflow and without loss for very negative x."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _gate(cdf: RealFunction) -> Curve:
    """x * cdf(x) with cdf(-x) = 1 - cdf(x): max(x, 0) - |x| * cdf(-|x|)."""
    return Curve(lambda u: -u * cdf(-u), "even", None, 0.0, slope=1.0)


def _gelu_tanh_cdf(x: Real) -> Real:
    return _sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def _softplus(beta: float, threshold: float) -> Curve:
    return Curve(
        lambda u: np.log1p(np.exp(-beta * u)) / beta,
        "even", None, 0.0, slope=1.0, rising=True, jump=threshold / beta,
    )  # fmt: skip


def _elu(alpha: float, scale: float, input_scale: float) -> Curve:
    def rest(x: Real) -> Real:
        return scale * alpha * np.expm1(input_scale * np.minimum(x, 0.0))

    rising = scale * alpha >= 0 and scale >= 0
    return Curve(rest, "none", -scale * alpha, 0.0, slope=scale, rising=rising)


def _mish_rest(x: Real) -> Real:
    """x * tanh(softplus(x)) - max(x, 0), with tanh(ln(1 + e^x)) = w / (w + 2), w = e^x * (e^x + 2)."""
    e = np.exp(-np.abs(x))
    below = e * (e + 2.0)  # w for x < 0
    return np.where(x < 0, x * below / (below + 2.0), -2.0 * x * e * e / (1.0 + 2.0 * e + 2.0 * e * e))


FUNCTIONS: Mapping[str, Callable[..., Definition]] = {
    "sigmoid": lambda: Curve(lambda u: 0.5 * np.tanh(0.5 * u), "odd", None, 0.5, offset=0.5, rising=True),
    "tanh": lambda: Curve(np.tanh, "odd", None, 1.0, rising=True),
    "erf": lambda: Curve(erf, "odd", None, 1.0, rising=True),
    "exp": lambda: Exponential(1.0 / math.log(2.0)),
    "exp2": lambda: Exponential(1.0),
    "expm1": lambda: Curve(lambda x: np.expm1(np.minimum(x, 709.0)), "none", -1.0, None, rising=True),
    "gelu": lambda: _gate(lambda x: 0.5 * erfc(-x * math.sqrt(0.5))),
    "gelu_tanh": lambda: _gate(_gelu_tanh_cdf),
    "silu": lambda: _gate(_sigmoid),
    "mish": lambda: Curve(_mish_rest, "none", 0.0, 0.0, slope=1.0),
    "elu": _elu,
    "softplus": _softplus,
    "log": lambda: Logarithm(1.0),
    "log2": lambda: Logarithm(1.0 / math.log(2.0)),
    "log10": lambda: Logarithm(1.0 / math.log(10.0)),
    "log1p": lambda: Logarithm(1.0, addend=1),
    "sqrt": lambda: Power(0.5),
    "rsqrt": lambda: Power(-0.5),
    "reciprocal": lambda: Power(-1.0, signs=True),
    "sin": lambda: Wave(0),
    "cos": lambda: Wave(1),
}
"""Functions by name; parameters of elu: alpha, scale, input_scale; of softplus: beta, threshold."""
