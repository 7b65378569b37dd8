"""Chooses the factors of activations: channels of unlike scales get like ones, and at few bits a tensor fills
its format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.quantize.fill import fill_factors
from torchcalyx.quantize.labels import FIXED, Labelled, Labels, core, label
from torchcalyx.quantize.observe import Seen, observe, spread
from torchcalyx.quantize.outputs import undone_by_reader
from torchcalyx.quantize.precision import Precisions
from torchcalyx.quantize.rescale import Factors, channels, rescaled
from torchcalyx.quantize.scales import NARROW
from torchcalyx.quantize.signs import never_negative

UNLIKE = 6
"""Bits between the largest and a smaller channel of one tensor from which on they are made alike."""
_MOST = 40
"""Bits of the greatest factor."""


@dataclass(frozen=True)
class Alike:
    """A graph whose channels have like scales, before anything is said about widths. seen: what calibration
    shows of it.
    """

    graph: Graph
    found: Labelled
    seen: Seen


AlikeByNodes: TypeAlias = "dict[tuple[frozenset[str], tuple[Node, ...]], Alike]"
"""By the stored values and the nodes: what does not depend on widths, for trying many of them."""


def balanced(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    precisions: Precisions,
    stored: frozenset[str],
    remembered: AlikeByNodes | None = None,
) -> tuple[Graph, Seen]:
    """The same model with activations of like scales, and what calibration shows of it.

    stored: values that have the user's width.
    """
    if remembered is None:
        alike = _alike(graph, samples, precisions, stored, precisions.clipping(graph, stored))
    else:
        key = (stored, graph.nodes)
        if key not in remembered:
            clipping = precisions.clipping(graph, stored, any_width=True)
            remembered[key] = _alike(graph, samples, precisions, stored, clipping)
        alike = remembered[key]
    graph, found, seen = alike.graph, alike.found, alike.seen
    choices = {n.name: precisions.choice(n) for n in graph.nodes if n.name in stored}
    widths = {name: c for name, c in choices.items() if isinstance(c, int) and c <= NARROW}
    if not widths or not any(found.members(n).any() for n in found.labels if n in stored):
        return graph, seen
    factors = fill_factors(graph, found, seen, widths, never_negative(graph))
    if np.all(factors == 1.0):
        return graph, seen
    graph = rescaled(graph, found, factors)
    return graph, scaled(graph, seen, found, factors)


def _alike(
    graph: Graph,
    samples: Sequence[Sequence[Array]],
    precisions: Precisions,
    stored: frozenset[str],
    clipping: Sequence[str],
) -> Alike:
    given = frozenset(precisions.given(graph))
    found = label(graph, given, opened=True)
    free = [n for n in found.labels if n in stored and found.members(n).any()]
    seen = observe(graph, samples, clipping, free)
    factors = channel_factors(graph, found, seen, free) if free else np.ones(found.count)
    if np.any(factors != 1.0):
        graph = undone_by_reader(rescaled(graph, found, factors), found, factors)
        seen = observe(graph, samples, clipping)
    return Alike(graph, label(graph, given), seen)


def scaled(graph: Graph, seen: Seen, found: Labelled, factors: Factors) -> Seen:
    """What calibration shows of the rescaled graph when all elements of a value have one factor."""
    one = {name: float(factors[found.members(name)[0]]) for name in found.labels if found.members(name).size}
    largest = {name: value * one.get(name, 1.0) for name, value in seen.largest.items()}
    values = {name: sample * one.get(name, 1.0) for name, sample in seen.values.items()}
    for name, value in graph.constants.items():
        if name in largest and value.size:
            largest[name] = float(np.abs(value.astype(np.float64)).max())
        if name in values:
            values[name] = spread(value)
    return Seen(largest, values)


def channel_factors(graph: Graph, found: Labelled, seen: Seen, names: Sequence[str]) -> Factors:
    """Powers of two that bring the channels of each stored value to like magnitudes, where some are more than
    `UNLIKE` bits smaller than the largest.

    A channel grows no more than the weights that make it are smaller than others: one that was merely quiet
    in calibration keeps its room, and one that was silent counts as much as its weights say. names: stored
    values with free elements.
    """
    peaks, sizes = np.zeros(found.count), np.zeros(found.count)
    for name in names:
        _largest(peaks, found.labels[name], seen.peaks[name])
    for node in graph.nodes:
        if node.name in found.scalable and node.op in ("linear", "conv"):
            _largest(sizes, channels(found.labels[node.name], node), _sizes(graph, node, seen))
    tensors = found.together()
    free = sizes > 0
    free[FIXED] = False
    gain = np.where(free, peaks, 0.0) / np.where(free, sizes, 1.0)
    peaks = np.where(free & (peaks == 0), sizes * _greatest(gain, tensors), peaks)
    free &= peaks > 0
    smaller, weaker = (_bits_below(values, tensors, free) for values in (peaks, sizes))
    bits = np.clip(np.floor(np.minimum(smaller, weaker)), 0, _MOST)
    return np.where(free & (_greatest(smaller, tensors) > UNLIKE), np.exp2(bits), 1.0)


def _largest(found: Factors, labels: Labels, values: Factors) -> None:
    """Raise the entry of each label to its largest value."""
    few = core(labels)[0]
    axes = tuple(d for d, (n, full) in enumerate(zip(few.shape, labels.shape, strict=True)) if n != full)
    np.maximum.at(found, few.ravel(), values.max(axis=axes, keepdims=True).ravel())


def _greatest(values: Factors, tensors: Labels) -> Factors:
    """For each label the largest value of those beside it."""
    most = np.zeros(len(values))
    np.maximum.at(most, tensors, values)
    return np.asarray(most[tensors])


def _bits_below(values: Factors, tensors: Labels, known: npt.NDArray[np.bool_]) -> Factors:
    """How many bits each label lies below the largest of those beside it; 0 where nothing is known."""
    most = np.where(known, _greatest(values, tensors), 1.0)
    return np.asarray(np.log2(most / np.where(known, values, 1.0)))


def _sizes(graph: Graph, node: Node, seen: Seen) -> Factors:
    """How large each channel of a layer's result can become, up to a factor that all share."""
    weight = graph.constants[node.args[1]].astype(np.float64)
    rows = weight.reshape(weight.shape[0], -1)
    peak = float(np.max(np.abs(rows), initial=0.0)) or 1.0  # squares of the weights may pass float64
    lengths = np.sqrt(np.square(rows / peak).sum(axis=1))
    sizes = lengths * np.minimum(peak * seen.largest[node.args[0]], np.finfo(np.float64).max / rows.size)
    if len(node.args) == 3:
        sizes = np.maximum(sizes, np.abs(graph.constants[node.args[2]].astype(np.float64)))
    return np.asarray(sizes)
