"""At few bits: one factor for all values that share it, by which they and the weights fill their formats.

A power of two as the unit of a format wastes up to one bit of its range; any other factor costs nothing where
constants take it in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.quantize.labels import FIXED, Labelled, Labels
from torchcalyx.quantize.observe import Seen
from torchcalyx.quantize.rescale import Factors, channels
from torchcalyx.quantize.scales import Reals, best_format, row_fracs, square_error

STEPS = 16
"""Factors tried between 1 and 2."""
_SWEEPS = 2
_SAMPLE = 4096
"""Values of a tensor that judge a factor."""
_ROWS, _COLUMNS = 16, 512
"""Channels of a layer, and weights of each, that do."""


@dataclass(frozen=True)
class _Value:
    """A stored value all of whose elements have factor number `group`."""

    group: int
    sample: Reals
    largest: float
    width: int
    signed: bool

    def error(self, factor: float) -> float:
        """Mean square error relative to the mean square, nothing clipped."""
        values = self.sample * factor
        fmt = best_format(self.largest * factor, self.width, signed=self.signed)
        with np.errstate(over="ignore"):
            return square_error(values, fmt) / max(float(np.mean(np.square(values))), 1e-300)


@dataclass(frozen=True)
class _Weights:
    """Some channels of the weights between values of two factors (0: factor 1)."""

    into: int
    out: int
    rows: Reals
    largest: Reals
    width: int

    def error(self, factor: float) -> float:
        """As of a value, mean of the channels."""
        found = row_fracs(self.rows * factor, self.largest * factor, self.width)[1]
        with np.errstate(over="ignore", invalid="ignore"):  # of weights beyond 1e154 no factor is the best
            return float(np.mean(found / np.square(self.rows * factor).mean(axis=1)))


def fill_factors(
    graph: Graph,
    found: Labelled,
    seen: Seen,
    widths: Mapping[str, int],
    unsigned: Collection[str],
) -> Factors:
    """The factor of every label, from 1 to 2: those that leave the least relative error in stored values and
    weights. widths: bits of the values and constants that count.
    """
    groups = found.together()
    values, weights = _values(found, groups, seen, widths, unsigned), _weights(graph, found, groups, widths)
    chosen = np.ones(found.count)
    for _ in range(_SWEEPS):
        for group in sorted({v.group for v in values}):
            chosen[group] = _best(group, chosen, values, weights)
    return chosen[groups]


def _best(group: int, chosen: Factors, values: list[_Value], weights: list[_Weights]) -> float:
    mine = [v for v in values if v.group == group]
    around = [w for w in weights if (w.into == group) != (w.out == group)]

    def error(factor: float) -> float:
        total = sum(v.error(factor) for v in mine)
        for w in around:
            into, out = (factor if side == group else chosen[side] for side in (w.into, w.out))
            total += w.error(float(out / into))
        return total

    tried = [2.0 ** (step / STEPS) for step in range(STEPS)]
    errors = [error(factor) for factor in tried]
    return float(tried[int(np.argmin(errors))])


def _values(
    found: Labelled, groups: Labels, seen: Seen, widths: Mapping[str, int], unsigned: Collection[str]
) -> list[_Value]:
    result = []
    for name, sample in seen.values.items():
        group = int(groups[found.members(name)[0]]) if name in found.labels else FIXED
        if group != FIXED and name in widths and sample.any():
            few = sample[:: max(1, sample.size // _SAMPLE)]
            result.append(_Value(group, few, seen.largest[name], widths[name], signed=name not in unsigned))
    return result


def _weights(graph: Graph, found: Labelled, groups: Labels, widths: Mapping[str, int]) -> list[_Weights]:
    result = []
    for node in graph.nodes:
        if node.name in found.scalable and node.op in ("linear", "conv") and node.args[1] in widths:
            into, out = (int(groups[channels(found.labels[n], node)[0]]) for n in (node.args[0], node.name))
            rows = _rows(graph, node)
            if into != out and rows.any():
                few = rows[:, :: max(1, rows.shape[1] // _COLUMNS)]
                seen = few.any(axis=1)
                largest = np.abs(rows).max(axis=1)
                result.append(_Weights(into, out, few[seen], largest[seen], widths[node.args[1]]))
    return result


def _rows(graph: Graph, node: Node) -> Reals:
    """Some channels of the weights of a layer."""
    weight = graph.constants[node.args[1]]
    few = weight[:: max(1, weight.shape[0] // _ROWS)].astype(np.float64)
    return few.reshape(len(few), -1)
