"""All functions by name: those with a datapath of their own, the sampled ones, and the user's."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from ...errors import KernelParameterError
from .real import FUNCTIONS, Definition
from .sampled import Sampled, at
from .special import SPECIAL
from .values import RealFunction

_OWN: dict[str, Callable[..., Definition]] = {}

KNOWN: Mapping[str, Callable[..., Definition]] = ChainMap(dict(FUNCTIONS), dict(SPECIAL), _OWN)
"""Functions by name: parameters in, definition out."""


@lru_cache(maxsize=1024)
def definition(name: str, params: tuple[float, ...] = ()) -> Definition:
    """The real function of that name; KeyError where there is none."""
    return KNOWN[name](*params)


def register_function(
    name: str,
    real: RealFunction,
    *,
    symmetry: Literal["none", "odd", "even"] = "none",
    poles: Sequence[float] = (),
    domain: tuple[float, float] = (-math.inf, math.inf),
) -> None:
    """Make a function of one variable known by a name: `real` maps float64 arrays to arrays of their shape.

    symmetry: f(-x) is -f(x) ("odd") or f(x) ("even"). poles: points near which f is steep or not smooth (also
    kinks and jumps); undeclared ones are looked for. domain: ends between which f has values.

    Raises KernelParameterError for a name that is taken and for values that are not float64 of the shape.
    """
    if name in KNOWN:
        raise KernelParameterError(f"function {name!r} exists already; choose another name")
    if symmetry not in ("none", "odd", "even"):
        raise KernelParameterError(f"function {name!r}: symmetry {symmetry!r} is not none, odd or even")
    low, high = domain
    if not low < high:
        raise KernelParameterError(f"function {name!r}: the domain {low} .. {high} is empty")
    points = np.clip(np.linspace(-2.0, 2.0, 9), low, high)
    with np.errstate(all="ignore"):
        shape = np.shape(real(points))
        mirrored = None if symmetry == "none" else (real(points), real(-points))
    if shape != points.shape:
        raise KernelParameterError(
            f"function {name!r}: of an array of shape {points.shape} it makes one of shape {shape}"
        )
    if mirrored is not None:
        sign = -1.0 if symmetry == "odd" else 1.0
        if not np.allclose(mirrored[0], sign * mirrored[1], rtol=1e-6, equal_nan=True):
            raise KernelParameterError(f"function {name!r} is not {symmetry}: f(-x) differs")
    found = Sampled(real, symmetry, at(0.0, *(float(p) for p in poles)), (float(low), float(high)))
    _OWN[name] = lambda: found
