"""Binary points chosen by error: with few bits a rare large value is clipped where others gain by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.reference import evaluate
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed

Reals: TypeAlias = "npt.NDArray[np.float64]"
Follow: TypeAlias = Callable[[Reals], Reals]
"""What the only reader of a tensor makes of its elements, one by one."""
Ints: TypeAlias = "npt.NDArray[np.int64]"

NARROW = 8
"""Widest format, in bits, of which clipping may choose the binary point, and which may go without a sign."""

_CLEARLY = 0.8
"""Clipping must lower the mean square error to this share."""
_BOUNDED = ("sigmoid", "tanh", "erf")
_FINER = 3
"""Fraction bits that clipping may win."""


def best_format(largest: float, width: int, spare: int = 0, *, signed: bool = True) -> NumberFormat:
    """Format of `width` bits with the most fraction bits that holds +-`largest`, less `spare` bits."""
    bits = width - 1 if signed else width
    if largest == 0:
        return fixed(width, bits, signed=signed)
    frac = bits - math.frexp(largest)[1]
    if np.rint(math.ldexp(largest, frac)) > (1 << bits) - 1:
        frac -= 1
    return fixed(width, frac - spare, signed=signed)


def stored(values: Reals, fmt: NumberFormat) -> Reals:
    """The values as a format holds them."""
    integers = np.clip(np.rint(np.ldexp(values, fmt.frac)), fmt.min, fmt.max)
    return np.asarray(np.ldexp(integers, -fmt.frac), dtype=np.float64)


def square_error(values: Reals, fmt: NumberFormat, follow: Follow | None = None) -> float:
    """Mean square error of storing `values`, or of what follows; infinite where its square passes float64."""
    found, wanted = stored(values, fmt), values
    if follow is not None:
        found, wanted = follow(found), follow(wanted)
    with np.errstate(over="ignore"):
        return float(np.mean(np.square(found - wanted)))


def following(graph: Graph) -> dict[str, Follow]:
    """For each value that alone a function reads which tells large values no longer apart: that function."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.args:
            readers.setdefault(name, []).append(node)
    return {
        name: partial(_apply, nodes[0])
        for name, nodes in readers.items()
        if len(nodes) == 1 and nodes[0].op in _BOUNDED and name not in graph.outputs
    }


def _apply(node: Node, values: Reals) -> Reals:
    return np.asarray(evaluate(replace(node, shape=values.shape), [values]), dtype=np.float64)


def choose_format(
    largest: float,
    values: Reals | None,
    width: int,
    spare: int,
    *,
    signed: bool = True,
    follow: Follow | None = None,
) -> NumberFormat:
    """Format of a tensor with that largest magnitude.

    values: a sample of its elements; with it, at `NARROW` bits or less, the binary point is the one with the
    least mean square error (of what follows, where that is known) where clipping wins clearly, else the one
    that clips nothing.
    """
    whole = best_format(largest, width, spare, signed=signed)
    if values is None or width > NARROW or not values.size:
        return whole
    finer = [fixed(width, whole.frac + more, signed=signed) for more in range(_FINER + 1)]
    found = [square_error(values, fmt, follow) for fmt in finer]
    best = int(np.argmin(found))
    return finer[best] if found[best] < _CLEARLY * found[0] else whole


def row_fracs(rows: Reals, largest: Reals, width: int) -> tuple[Ints, Reals]:
    """Fraction bits of each row of weights, chosen as `choose_format` does, and its mean square error.

    largest: magnitude of each row, none 0. rows: all elements or a sample of them. Errors whose square
    passes float64 are infinite.
    """
    top = (1 << (width - 1)) - 1
    fracs = width - 1 - np.frexp(largest)[1].astype(np.int64)
    fracs -= np.rint(np.ldexp(largest, fracs)) > top
    errors = []
    for more in range(_FINER + 1 if width <= NARROW else 1):
        scaled = np.ldexp(rows, (fracs + more)[:, None])
        lost = np.clip(np.rint(scaled), -top - 1, top) - scaled
        with np.errstate(over="ignore"):
            errors.append(np.mean(np.square(lost), axis=1) * 4.0 ** -(fracs + more))
    best = np.argmin(errors, axis=0)
    best[np.min(errors, axis=0) >= _CLEARLY * errors[0]] = 0
    return fracs + best, np.take_along_axis(np.array(errors), best[None, :], axis=0)[0]


def stored_rows(rows: Reals, fracs: Ints, width: int) -> Reals:
    """The rows as formats with those fraction bits hold them."""
    top = (1 << (width - 1)) - 1
    scaled = np.clip(np.rint(np.ldexp(rows, fracs[:, None])), -top - 1, top)
    return np.asarray(np.ldexp(scaled, -fracs[:, None]), dtype=np.float64)
