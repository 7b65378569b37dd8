"""Functions that are sampled: values from scipy, and where they are singular, symmetric or undefined."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy import special

from .polynomials import POLYNOMIALS
from .sampled import Sampled, at, at_whole_numbers_up_to
from .values import Real, RealFunction

INF = math.inf
LEAST_GAMMA = -20.0
"""Below, the gamma function's relatives have no table: a pole a unit takes two regions each."""


def _odd(real: RealFunction, *points: float, end: float = INF) -> Callable[[], Sampled]:
    return lambda: Sampled(real, "odd", at(0.0, *points), (-end, end))


def _even(real: RealFunction) -> Callable[[], Sampled]:
    return lambda: Sampled(real, "even")


def _plain(real: RealFunction, *points: float, low: float = -INF, high: float = INF) -> Callable[[], Sampled]:
    return lambda: Sampled(real, "none", at(*points) if points else at(0.0), (low, high))


def _trigamma(x: Real) -> Real:
    """psi'(x), on the negative side by reflection."""
    with np.errstate(all="ignore"):
        mirrored = (np.pi / np.sin(np.pi * x)) ** 2 - special.polygamma(1, 1.0 - x)
    return np.asarray(np.where(x < 0.5, mirrored, special.polygamma(1, np.maximum(x, 0.5))))


def _polygamma(order: float) -> Sampled:
    n = int(order)
    if n == 0:
        real: RealFunction = special.psi
    elif n == 1:
        real = _trigamma
    else:
        factor = (-1.0) ** (n + 1) * special.gamma(n + 1.0)
        real = lambda x: factor * special.zeta(n + 1.0, x)  # noqa: E731
    return Sampled(real, "none", at_whole_numbers_up_to(0), (LEAST_GAMMA, INF))


def _power(exponent: float) -> Sampled:
    """x ** exponent; of a negative number for whole exponents only."""
    real: RealFunction = lambda x: np.power(x, exponent)  # noqa: E731
    if float(exponent).is_integer():
        return Sampled(real, "odd" if exponent % 2 else "even")
    return Sampled(real, "none", at(0.0), (0.0, INF))


def _ndtr(x: Real) -> Real:
    """As torch computes it: far below 0 it is 0, where scipy has a tail."""
    return np.asarray(0.5 * (1.0 + special.erf(x * math.sqrt(0.5))), np.float64)


def _tan(x: Real) -> Real:
    return np.asarray(np.tan(x))


SPECIAL: Mapping[str, Callable[..., Sampled]] = {
    "tan": lambda: Sampled(_tan, "odd", at(0.5 * math.pi), period=math.pi),
    "asin": _odd(np.arcsin, 1.0, end=1.0),
    "acos": _plain(np.arccos, -1.0, 1.0, low=-1.0, high=1.0),
    "atan": _odd(np.arctan),
    "sinh": _odd(np.sinh),
    "cosh": _even(np.cosh),
    "asinh": _odd(np.arcsinh),
    "acosh": _plain(np.arccosh, 1.0, low=1.0),
    "atanh": _odd(np.arctanh, 1.0, end=1.0),
    "erfinv": _odd(special.erfinv, 1.0, end=1.0),
    "erfc": _plain(special.erfc),
    "erfcx": _plain(special.erfcx),
    "lgamma": lambda: Sampled(special.gammaln, "none", at_whole_numbers_up_to(0), (LEAST_GAMMA, INF)),
    "polygamma": _polygamma,
    "power": _power,
    "i0": _even(special.i0),
    "i0e": _even(special.i0e),
    "i1": _odd(special.i1),
    "i1e": _odd(special.i1e),
    "bessel_j0": _even(special.j0),
    "bessel_j1": _odd(special.j1),
    "bessel_y0": _plain(special.y0, 0.0, low=0.0),
    "bessel_y1": _plain(special.y1, 0.0, low=0.0),
    "k0": _plain(special.k0, 0.0, low=0.0),
    "k1": _plain(special.k1, 0.0, low=0.0),
    "k0e": _plain(special.k0e, 0.0, low=0.0),
    "k1e": _plain(special.k1e, 0.0, low=0.0),
    "spherical_j0": _even(lambda x: special.spherical_jn(0, x)),
    "airy_ai": _plain(lambda x: special.airy(x)[0]),
    "sinc": _even(np.sinc),
    "entr": _plain(special.entr),
    "ndtr": _plain(_ndtr),
    "ndtri": _plain(special.ndtri, 0.0, 1.0, low=0.0, high=1.0),
    "log_ndtr": _plain(special.log_ndtr),
    "logit": _plain(special.logit, 0.0, 1.0, low=0.0, high=1.0),
    "zeta_of": lambda q: Sampled(lambda x: special.zeta(x, q), "none", at(1.0), (1.0, INF)),
    "zeta_from": lambda x: Sampled(
        lambda q: special.zeta(x, q), "none", at_whole_numbers_up_to(0), (LEAST_GAMMA, INF)
    ),
    **POLYNOMIALS,
}
"""Functions by name. Parameters: polygamma: order; power: exponent; zeta_of (of the exponent): the first
term; zeta_from (of the first term): the exponent; polynomials: degree.
"""
