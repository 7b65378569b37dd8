"""Orthogonal polynomials of a constant degree, by their recurrences in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .sampled import Sampled
from .values import Real

Step = Callable[[int, Real, Real, Real], Real]
"""p[k + 1] from k, x, p[k] and p[k - 1]."""


def _chebyshev(k: int, x: Real, p: Real, before: Real) -> Real:
    return 2.0 * x * p - before


def _hermite(k: int, x: Real, p: Real, before: Real) -> Real:
    return 2.0 * (x * p - k * before)


def _hermite_e(k: int, x: Real, p: Real, before: Real) -> Real:
    return x * p - k * before


def _laguerre(k: int, x: Real, p: Real, before: Real) -> Real:
    return ((2 * k + 1 - x) * p - k * before) / (k + 1)


def _legendre(k: int, x: Real, p: Real, before: Real) -> Real:
    return ((2 * k + 1) * x * p - k * before) / (k + 1)


def _family(
    step: Step, slope: float, constant: float = 0.0, shifted: bool = False
) -> Callable[[float], Sampled]:
    """p[0] = 1, p[1] = slope * x + constant; shifted: of 2 * x - 1."""

    def make(degree: float) -> Sampled:
        n = int(degree)

        def real(x: Real) -> Real:
            x = 2.0 * x - 1.0 if shifted else np.asarray(x, np.float64)
            before, p = np.ones_like(x), slope * x + constant
            if n <= 0:
                return before * float(n == 0)
            for k in range(1, n):
                before, p = p, step(k, x, p, before)
            return p

        if shifted or constant:
            return Sampled(real)
        return Sampled(real, "odd" if n % 2 else "even")

    return make


POLYNOMIALS: Mapping[str, Callable[..., Sampled]] = {
    "chebyshev_t": _family(_chebyshev, 1.0),
    "chebyshev_u": _family(_chebyshev, 2.0),
    "chebyshev_v": _family(_chebyshev, 2.0, -1.0),
    "chebyshev_w": _family(_chebyshev, 2.0, 1.0),
    "shifted_chebyshev_t": _family(_chebyshev, 1.0, shifted=True),
    "shifted_chebyshev_u": _family(_chebyshev, 2.0, shifted=True),
    "shifted_chebyshev_v": _family(_chebyshev, 2.0, -1.0, shifted=True),
    "shifted_chebyshev_w": _family(_chebyshev, 2.0, 1.0, shifted=True),
    "hermite_h": _family(_hermite, 2.0),
    "hermite_he": _family(_hermite_e, 1.0),
    "laguerre_l": _family(_laguerre, -1.0, 1.0),
    "legendre_p": _family(_legendre, 1.0),
}
"""Polynomials by name; the parameter is the degree."""
