"""Ranges and slopes of sampled functions, by looking at many points."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Node
from torchcalyx.kernels.functions.known import definition
from torchcalyx.kernels.functions.real import Definition
from torchcalyx.kernels.functions.sampled import Sampled
from torchcalyx.quantize.reals import HUGE

Real = npt.NDArray[np.float64]

OCTAVES = 48
"""Octaves of distance from a singular point that are looked at."""


def image(node: Node, low: float, high: float, least: float) -> tuple[float, float, float]:
    """Least and greatest value, and the smallest magnitude that is not zero where one sign is all there is
    (else 0).
    """
    found = _of(node)
    y = _values(found, _points(found, low, high, least))
    if not y.size:
        return -HUGE, HUGE, 0.0
    first, last = float(max(y.min(), -HUGE)), float(min(y.max(), HUGE))
    away = np.abs(y[y != 0])
    small = float(away.min()) if away.size and (first >= 0 or last <= 0) else 0.0
    return first, last, small


def slopes(node: Node, low: float, high: float, least: float, largest: float) -> tuple[Real, Real, Real]:
    """|x|, |f(x)| and |f'(x)| at points where |f(x)| is at most `largest`."""
    found = _of(node)
    x = _points(found, low, high, least)
    step = np.maximum(np.abs(x) * 2.0**-20, max(abs(low), abs(high)) * 2.0**-40)
    before, here, after = (_values(found, x + d, keep=True) for d in (-step, 0.0 * step, step))
    with np.errstate(all="ignore"):
        steep = np.fmax(np.abs(after - here), np.abs(here - before)) / step
    good = np.isfinite(here) & np.isfinite(steep) & (np.abs(here) <= max(largest, 2.0**-60))
    return np.abs(x[good]), np.abs(here[good]), steep[good]


def _of(node: Node) -> Definition:
    params = node.attr("params")
    assert isinstance(params, tuple)
    return definition(str(node.attr("name")), tuple(float(p) for p in params if isinstance(p, float)))


def _values(found: Definition, x: Real, keep: bool = False) -> Real:
    """f(x); without `keep` only where it is a number."""
    with np.errstate(all="ignore"):
        y = np.asarray((found.meaning if isinstance(found, Sampled) else found.exact)(x), np.float64)
    return y if keep else y[~np.isnan(y)]


def _points(found: Definition, low: float, high: float, least: float) -> Real:
    """Evenly over low..high, and by octaves of distance from 0 and from singular points."""
    size = max(abs(low), abs(high), 2.0**-60)
    marks = {0.0, low, high}
    if isinstance(found, Sampled):
        limited = max(low, -1e6), min(high, 1e6)
        marks |= set(found.splits(*limited)[:64]) | {e for e in found.domain if math.isfinite(e)}
    away = size * 2.0 ** -np.arange(0.0, OCTAVES, 0.25)
    away = away[away >= least] if least else away
    parts = [np.linspace(low, high, 1025), np.array(sorted(marks))]
    parts += [mark + sign * away for mark in marks for sign in (-1.0, 1.0)]
    every = np.unique(np.concatenate(parts))
    kept = every[(every >= low) & (every <= high)]
    return kept[(np.abs(kept) >= least) | (kept == 0.0)] if least else kept
