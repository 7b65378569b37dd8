"""Binary points for each output channel of constant weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Graph
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.quantize.precision import Precisions
from torchcalyx.quantize.scales import NARROW, row_fracs

SPREAD = 3
"""Bits between the coarsest and the finest channel from which on they have binary points of their own when
they are wider than `NARROW`.
"""


def channel_fracs(
    graph: Graph, precisions: Precisions, formats: dict[str, NumberFormat]
) -> dict[str, tuple[int, ...]]:
    """Fraction bits of each output channel of the weights that linear layers and convolutions read.

    `formats` of these weights becomes that of the coarsest channel. Weights whose channels are all alike, or
    whose format the user has given, are not in the result.
    """
    found: dict[str, tuple[int, ...]] = {}
    layers = [n for n in graph.nodes if n.op in ("linear", "conv")]
    for name in dict.fromkeys(layer.args[1] for layer in layers):
        width = precisions.choice(graph.node(name))
        if name not in graph.constants or isinstance(width, NumberFormat):
            continue
        fracs = _fracs(graph.constants[name].astype(np.float64), width)
        if not fracs:
            continue
        spread = max(fracs) - min(fracs)
        if width <= NARROW:
            formats[name] = fixed(width, min(fracs))
        if spread >= (1 if width <= NARROW else SPREAD):
            found[name] = fracs
    return found


def _fracs(weight: npt.NDArray[np.float64], width: int) -> tuple[int, ...]:
    """Fraction bits of each channel; a channel of zeros takes those of the finest. () when all are zero."""
    rows = weight.reshape(weight.shape[0], -1)
    largest = np.abs(rows).max(axis=1)
    some = largest > 0
    if not some.any():
        return ()
    chosen = row_fracs(rows[some], largest[some], width)[0]
    fracs = np.full(len(rows), chosen.max())
    fracs[some] = chosen
    return tuple(int(frac) for frac in fracs)
