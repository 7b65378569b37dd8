"""Masks become predicates: a position that is left out lies just so far below the others that its probability
is exactly zero, however large the number was that the model wrote.

With scores in -L..L a masked position at F = -(2 L + `GONE`) is never seen by a softmax, and a row of masked
positions only is uniform, as in torch, where a mask of -1e9 absorbs the scores in float32. Numbers that
float32 does not absorb (-1e4) stay as they are. Minus infinity is the same, except that a row without any
other position is not a number in torch: an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.masks import (
    EXPONENTIALS,
    Head,
    Leaf,
    infinite_leaves,
    is_switch,
    softmax_heads,
)
from torchcalyx.ir.reference import evaluate
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.quantize.empty_rows import refuse_constant_masks
from torchcalyx.quantize.fresh import fresh_name
from torchcalyx.quantize.observe import widened

GONE = 48.0
"""exp(-GONE) is 0 in every format of an intermediate."""
ABSORBS = 2.0**23
"""A float32 number this much larger than another does not change by it."""
FREE_BITS = 8
"""Bits that a mask of the caller has beyond the user's width: it may hold a bias as well."""


@dataclass(frozen=True)
class Masked:
    """graph: with masks near the scores. floors: least value of each input that is a mask. heads: those whose
    rows have to be looked at in every call, of the graph before.
    """

    graph: Graph
    floors: Mapping[str, float] = field(default_factory=dict)
    heads: tuple[Head, ...] = ()


def limit_masks(
    graph: Graph, samples: Sequence[Sequence[Array]], spare: int, given: Mapping[str, NumberFormat]
) -> Masked:
    """Rewrite every head whose masks absorb its scores. spare: bits of headroom of the scores. given: the
    user's formats, by value.

    Raises UnsupportedOpError where a constant mask of minus infinity leaves nothing of a row.
    """
    heads = [h for h in softmax_heads(graph) if _may_be_masked(graph, h)]
    if not heads:
        return Masked(graph)
    seen = _observe(graph, samples, {leaf.name for h in heads for leaf in h.leaves})
    rewriting = _Rewriting(graph)
    floors: dict[str, float] = {}
    watched = []
    for head in heads:
        masks = [leaf for leaf in head.leaves if _absorbing(seen[leaf.name], _scores(head, seen))]
        if not masks:
            continue
        if infinite_leaves(graph, head):
            refuse_constant_masks(graph, head, {m.name for m in masks})
        watched.append(head)
        scores = _scores(head, seen)
        if head.extreme:  # no lower than its format reaches anyway
            for leaf in masks:
                rewriting.floor(leaf, -math.ceil(scores * 2.0**spare))
            continue
        live = scores * 2.0 ** (spare + 1)
        kept = min(_least_kept(seen[m.name], scores) * m.factor for m in masks)
        floor = float(math.floor(2.0 * min(kept, 0.0) - 2.0 * live - GONE))
        held = _held(rewriting, head, masks, scores, given)
        if floor < held:  # so far down as the user's formats reach, if that is far enough
            enough = math.floor(min(kept, 0.0) - 2.0 * scores - _gone(graph, head, given))
            floor, live = max(floor, float(min(math.ceil(held), enough))), scores
        for leaf in masks:
            own = math.floor(floor / leaf.factor)
            if graph.node(leaf.name).op == "input":
                floors[leaf.name] = min(own, floors.get(leaf.name, own))
            else:
                rewriting.floor(leaf, float(own))
        rewriting.clamp(head.value, math.ceil(floor + live))
    return Masked(rewriting.graph(), floors, tuple(watched))


def _held(
    rewriting: _Rewriting, head: Head, masks: Sequence[Leaf], scores: float, given: Mapping[str, NumberFormat]
) -> float:
    """The lowest floor that the user's formats hold, minus infinity without any."""
    ends = [_lowest(given[head.value]) - scores] if head.value in given else []
    # Less the greatest score, and as much again for calls with greater ones.
    ends += [_lowest(given[name]) + scores for name in _shifted(rewriting.source, head) if name in given]
    for leaf in masks:
        fmt = given.get(rewriting.holder(leaf.name))
        ends += [] if fmt is None else [_lowest(fmt) * leaf.factor]
    return max(ends, default=-math.inf)


def _lowest(fmt: NumberFormat) -> float:
    return fmt.min * fmt.resolution


def _gone(graph: Graph, head: Head, given: Mapping[str, NumberFormat]) -> float:
    """A distance that no exponential of the head tells from infinity: less is enough in formats of the
    user.
    """
    shifted = _shifted(graph, head)
    powers = [n.name for n in graph.nodes if n.op in EXPONENTIALS and n.args[0] in shifted]
    if not all(name in given for name in powers):
        return GONE
    return max(given[name].frac + 2.0 for name in powers)


def _shifted(graph: Graph, head: Head) -> list[str]:
    """The head's value less its maximum."""
    return [n.name for n in graph.nodes if n.op == "sub" and n.args[0] == head.value]


def _may_be_masked(graph: Graph, head: Head) -> bool:
    """Whether any leaf can be a mask: a constant, an input, or a predicate times a number."""
    nodes = graph.by_name
    return any(
        nodes[leaf.name].op in ("constant", "input") or _switched(leaf.name, graph, nodes) is not None
        for leaf in head.leaves
    )


def _switched(name: str, graph: Graph, nodes: Mapping[str, Node]) -> str | None:
    """The constant factor of a predicate times a number."""
    node = nodes[name]
    if node.op != "mul":
        return None
    for switch, factor in (node.args, node.args[::-1]):
        if factor in graph.constants and is_switch(switch, graph, nodes):
            return factor
    return None


def clipped(
    graph: Graph, samples: Sequence[Sequence[Array]], floors: Mapping[str, float]
) -> Sequence[Sequence[Array]]:
    """Calibration inputs with masks no lower than their floors."""
    if not floors:
        return samples
    least = [floors.get(name, -math.inf) for name in graph.inputs]
    return [
        tuple(np.maximum(a, low) if a.dtype.kind == "f" else a for a, low in zip(sample, least, strict=True))
        for sample in samples
    ]


@dataclass(frozen=True, slots=True)
class _Seen:
    """values: everything a leaf was in calibration, as sorted distinct numbers."""

    values: npt.NDArray[np.float64]


def _observe(graph: Graph, samples: Sequence[Sequence[Array]], names: set[str]) -> Mapping[str, _Seen]:
    """What the leaves were in calibration."""
    found: dict[str, list[npt.NDArray[np.float64]]] = {name: [] for name in names}
    needed = _below(graph, names)
    for sample in samples:
        values: dict[str, Array] = dict(zip(graph.inputs, sample, strict=True))
        for node in graph.nodes:
            if node.name not in needed:
                continue
            if node.op == "constant":
                values[node.name] = graph.constants[node.name]
            elif node.op != "input":
                values[node.name] = evaluate(node, [widened(values[a]) for a in node.args])
            if node.name in names:
                found[node.name].append(np.unique(np.asarray(values[node.name], np.float64)))
    return {name: _Seen(np.unique(np.concatenate(parts))) for name, parts in found.items()}


def _below(graph: Graph, names: set[str]) -> set[str]:
    needed = set(names)
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.args)
    return needed


def _scores(head: Head, seen: Mapping[str, _Seen]) -> float:
    """Largest magnitude of the scores: of every leaf less what can only be a mask."""
    total = 1.0
    for leaf in head.leaves:
        values = np.abs(seen[leaf.name].values)
        total += float(values[values < ABSORBS].max(initial=0.0)) * leaf.factor
    return total


def _absorbing(seen: _Seen, scores: float) -> bool:
    return bool((seen.values <= -ABSORBS * scores).any())


def _least_kept(seen: _Seen, scores: float) -> float:
    """The lowest value of a mask that does not absorb the scores."""
    kept = seen.values[seen.values > -ABSORBS * scores]
    return float(kept.min(initial=0.0))


class _Rewriting:
    """The graph with floors under masks and clamps above heads."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self._nodes = graph.by_name
        self._constants = dict(graph.constants)
        self._clamps: dict[str, float] = {}

    def holder(self, name: str) -> str:
        """The value that gets a floor for a leaf: the constant factor of a predicate, or the leaf itself."""
        return _switched(name, self.source, self._nodes) or name

    def floor(self, leaf: Leaf, least: float) -> None:
        """No value of the leaf below `least`."""
        target = self.holder(leaf.name)
        if target not in self._constants:
            self.clamp(target, least)
            return
        value = self._constants[target]
        # Where the constant serves several heads the deepest floor is deep enough for all.
        limited = np.maximum(np.asarray(self.source.constants[target], np.float64), least)
        if not np.array_equal(value, self.source.constants[target]):
            limited = np.minimum(limited, value)
        self._constants[target] = limited.astype(value.dtype)

    def clamp(self, name: str, least: float) -> None:
        """Readers of a value see nothing below `least`."""
        self._clamps[name] = min(least, self._clamps.get(name, least))

    def graph(self) -> Graph:
        """The new graph."""
        taken = set(self._nodes)
        seen_as: dict[str, str] = {}
        order: list[Node] = []
        for node in self.source.nodes:
            order.append(replace(node, args=tuple(seen_as.get(a, a) for a in node.args)))
            if node.name in self._clamps:
                name = fresh_name(f"{node.name}_limited", taken)
                attrs = (("max", None), ("min", float(self._clamps[node.name])))
                order.append(replace(node, name=name, op="clamp", args=(node.name,), attrs=attrs))
                seen_as[node.name] = name
        return replace(self.source, nodes=tuple(order), constants=self._constants)
