"""Few bits, and channels far larger than the others: the others are stored enlarged by powers of two.

The residual stream of a trained transformer has channels a hundred times larger than the rest, and so has
what leaves its activation functions. One binary point for all leaves most channels two or three bits. Where
linear layers read such a tensor, their weights undo the factor of each channel. Factors come from the
constants of an affine step in front (that of a layer norm), or from a product with powers of two, which the
datapath computes as a choice between shifts; so does a sum that reads the same tensor (the residual).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from torchcalyx.ir.graph import Array, Graph, Node
from torchcalyx.ir.reference import reference
from torchcalyx.quantize.fresh import fresh_name
from torchcalyx.quantize.precision import Precisions
from torchcalyx.quantize.scales import NARROW, Reals, choose_format, row_fracs, stored, stored_rows

MOST = 2
"""Octaves by which a channel may be enlarged: a shift of one level of logic."""
CLEARLY = 0.8
"""Share of the square error that is left where factors are worth it."""
SAMPLES, ROWS = 4, 64
"""Calibration inputs, and rows of a tensor, that are looked at."""
OUTPUTS = 96
"""Output channels of a layer that judge factors."""
FEWEST = 16
"""Rows that tell how large a channel becomes."""
_SUMS = ("add", "sub")
_UNBOUNDED = ("gelu", "silu", "mish", "elu", "softplus")
"""Functions that leave outliers as they are."""


@dataclass(frozen=True)
class Site:
    """A stored tensor whose last axis may have factors. layers: that undo them in their weights. others:
    sums that need it as it was. affine: product and sum with constants that make it; None: it gets a product.
    """

    value: Node
    layers: tuple[Node, ...]
    others: tuple[Node, ...]
    affine: tuple[Node, Node] | None


def separated(graph: Graph, samples: Sequence[Sequence[Array]], precisions: Precisions) -> Graph:
    """The same model with factors at every site where they lower the error of what follows clearly."""
    sites = tuple(_sites(graph, precisions))
    if not sites or not samples:
        return graph
    seen = _rows(graph, samples, sites)
    for site in sites:
        factors = best_factors(
            seen[site.value.name],
            [_some_outputs(graph.constants[layer.args[1]]) for layer in site.layers],
            _width(precisions, site.value),
            [_width(precisions, graph.node(layer.args[1])) for layer in site.layers],
            beside=bool(site.others),
        )
        if np.any(factors != 1.0):
            graph = _with_factors(graph, site, factors)
    return graph


def best_factors(
    rows: Reals, weights: Sequence[Reals], width: int, weight_widths: Sequence[int], *, beside: bool
) -> Reals:
    """Powers of two, at least 1, that enlarge the channels (last axis) of `rows`, all 1 where nothing is won.

    weights: (out, in) of the layers that read them. beside: something reads the values themselves too.
    """
    peaks = np.abs(rows).max(axis=0)
    plain = np.ones(rows.shape[1])
    if not peaks.any() or len(rows) < FEWEST:
        return plain
    below = np.rint(np.log2(peaks.max() / np.maximum(peaks, peaks.max() * 2.0**-40)))
    tried = [plain, *(np.exp2(np.minimum(below, most)) for most in range(1, MOST + 1))]
    tried = [factors / factors.min() for factors in tried]
    errors = [_error(rows, weights, width, weight_widths, factors, beside=beside) for factors in tried]
    best = int(np.argmin(errors))
    return tried[best] if errors[best] < CLEARLY * errors[0] else plain


def _error(
    rows: Reals,
    weights: Sequence[Reals],
    width: int,
    weight_widths: Sequence[int],
    factors: Reals,
    *,
    beside: bool,
) -> float:
    """Mean square errors of what the layers compute (and of the values), relative to the mean squares."""
    scaled = rows * factors
    fmt = choose_format(float(np.abs(scaled).max()), scaled, width, 0)
    lost = stored(scaled, fmt) / factors - rows
    total = _share(lost, rows) if beside else 0.0
    for weight, bits in zip(weights, weight_widths, strict=True):
        product = rows @ weight.T
        total += _share(lost @ weight.T, product)
        total += _share(rows @ (_rounded(weight / factors, bits) * factors - weight).T, product)
    return total


def _rounded(weight: Reals, width: int) -> Reals:
    """Weights as their channels' binary points hold them."""
    largest = np.abs(weight).max(axis=1)
    some = largest > 0
    found = np.zeros_like(weight)
    found[some] = stored_rows(weight[some], row_fracs(weight[some], largest[some], width)[0], width)
    return found


def _some_outputs(weight: Array) -> Reals:
    return weight[:: max(1, len(weight) // OUTPUTS)].astype(np.float64)


def _share(lost: Reals, whole: Reals) -> float:
    size = float(np.mean(np.square(whole)))
    return float(np.mean(np.square(lost))) / size if size else 0.0


def _width(precisions: Precisions, node: Node) -> int:
    """The width of a value; 0 where the user gave a format, or where it is none of few bits."""
    choice = precisions.choice(node)
    narrow = isinstance(choice, int) and choice <= NARROW and not precisions.automatic(node)
    return choice if narrow and isinstance(choice, int) else 0


def _sites(graph: Graph, precisions: Precisions) -> Iterator[Site]:
    nodes = graph.by_name
    uses = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.args):
            readers.setdefault(name, []).append(node)

    def own(name: str, channels: int | None = None) -> bool:
        """Whether a factor may go into a constant: nothing else reads it, and it has a value a channel."""
        node = nodes[name]
        alone = node.op == "constant" and uses[name] == 1 and node.dtype in ("float32", "float64")
        return alone and (channels is None or node.shape[-1:] == (channels,) == (_size(node),))

    for node in graph.nodes:
        if node.name in graph.outputs or not _width(precisions, node) or len(node.shape) < 2:
            continue
        mine = readers.get(node.name, [])
        layers = tuple(
            r
            for r in mine
            if r.op == "linear" and own(r.args[1]) and r.args[0] == node.name
            and _width(precisions, nodes[r.args[1]])
        )  # fmt: skip
        others = tuple(r for r in mine if r not in layers)
        if not layers or any(r.op not in _SUMS or r.shape != node.shape for r in others):
            continue
        if node.op in _UNBOUNDED:
            if not others:
                yield Site(node, layers, others, None)
            continue
        product = nodes[node.args[0]] if node.op == "add" else None
        if product is not None and product.op == "mul" and uses[product.name] == 1:
            channels = node.shape[-1]
            if own(node.args[1], channels) and own(product.args[1], channels):
                yield Site(node, layers, others, (product, node))


def _size(node: Node) -> int:
    return int(np.prod(node.shape, dtype=np.int64))


def _rows(graph: Graph, samples: Sequence[Sequence[Array]], sites: Sequence[Site]) -> Mapping[str, Reals]:
    """Some rows (last axis) of the values of the sites."""
    names = tuple(site.value.name for site in sites)
    wanted = replace(graph, outputs=names)
    step = max(1, len(samples) // SAMPLES)
    few = samples[::step][:SAMPLES]
    parts: dict[str, list[Reals]] = {name: [] for name in names}
    for sample in few:
        for name, value in zip(names, reference(wanted, sample), strict=True):
            rows = value.reshape(-1, value.shape[-1])
            parts[name].append(rows[:: max(1, len(rows) * len(few) // ROWS)])
    return {name: np.concatenate(found) for name, found in parts.items()}


def _with_factors(graph: Graph, site: Site, factors: Reals) -> Graph:
    constants = dict(graph.constants)

    def scale(name: str, by: Reals) -> None:
        value = constants[name]
        constants[name] = (value.astype(np.float64) * by).astype(value.dtype)

    for layer in site.layers:
        scale(layer.args[1], 1.0 / factors)
    taken = {n.name for n in graph.nodes}
    value = site.value
    if site.affine is not None:
        for node in site.affine:
            scale(node.args[1], factors)
        moved, inner = {node.name for node in site.others}, 1.0 / factors
    else:
        moved, inner = {node.name for node in site.layers}, factors
    if not moved:
        return replace(graph, constants=constants)
    powers = fresh_name(f"{value.name}_powers", taken)
    shifted = fresh_name(f"{value.name}_shifted", taken)
    constants[powers] = inner.astype(value.dtype)
    more = (
        Node(powers, "constant", (), (), inner.shape, value.dtype, value.source),
        Node(shifted, "mul", (value.name, powers), (), value.shape, value.dtype, value.source),
    )
    order: list[Node] = []
    for node in graph.nodes:
        if node.name in moved:
            node = replace(node, args=tuple(shifted if a == value.name else a for a in node.args))
        order.append(node)
        if node.name == value.name:
            order += more
    return replace(graph, nodes=tuple(order), constants=constants)
