"""Formats of intermediates: as many bits as their consumers can tell apart, not as many as tensors have.

A float value is *stored* when a matrix product, a convolution, a pooling or the caller reads it, and has the
width the user chose. Every other one is an intermediate: statistics of rows, scores in front of a softmax,
steps of a chain. Its binary point follows from what `needs` tells of its consumers, its range from `bounds`,
limited by calibration where a product can grow far beyond what occurs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.kernels.functions.real import FUNCTIONS
from torchcalyx.quantize.bounds import Bound, constant_bound, forward, stored
from torchcalyx.quantize.needs import Need, Place, backward, folded
from torchcalyx.quantize.reals import HUGE, times_power_of_two

READERS = ("linear", "matmul", "conv", "max_pool", "sum_pool", "upsample", "cumsum", "cummax", "cummin",
           "sort", "prod", "put")  # fmt: skip
"""Operations whose operands are stored tensors."""
STORED = ("input", "constant", "max_pool", "sum_pool", "upsample", "cumsum", "prod", "cat", "pad", "put")
"""Operations whose results are."""
MOVES = ("view", "permute", "slice", "expand", "amax", "amin", "cummax", "cummin", "sort", "take", "scale")
"""Operations whose result has exactly the operand's stored elements: they keep its format."""
INVERSES = ("rsqrt", "reciprocal")
PROBABILITY_BITS = 3
"""Bits of a probability beyond the user's width where a matrix product reads it: rows of them make averages,
and an average of values of one size errs by a unit of theirs as soon as all weights err.
"""

GROWING = ("exp", "exp2", "expm1")
"""Operations whose range would be squared by one bit of headroom of the operand."""

PRODUCTS = ("linear", "matmul", "conv")
TABLES = ("sigmoid", "tanh", "erf", "gelu", "silu", "mish", "elu", "softplus", "sin", "cos")
"""Functions that one table of at most 512 entries holds where the operand has 9 bits."""
TABLE_BITS = 1
"""Bits beyond the user's width of a product's result that such a table alone reads: it is in no memory."""
SIGNS = ("neg", "abs", "relu")
"""Operations that give nothing to round."""

SPARE = 3
"""Bits of an intermediate behind the last place of the result it leads to."""
WIDEST = 62
"""Bits of the widest intermediate: sums of two still fit a word of the emulator."""
FAR = 8
"""Octaves above the calibrated range that an intermediate keeps whatever else it has to hold."""
NARROWEST = 4
BYTE = 8


def stored_values(graph: Graph, choices: Mapping[str, int | NumberFormat]) -> frozenset[str]:
    """Names of the float values that have the user's width. choices: the width or format wanted of each."""
    nodes = graph.by_name
    found = {n.name for n in graph.nodes if n.op in STORED} | set(graph.outputs)
    found |= {name for name, choice in choices.items() if isinstance(choice, NumberFormat)}
    for node in reversed(graph.nodes):
        if node.op in TABLES and nodes[node.args[0]].op in PRODUCTS:
            width = choices[node.args[0]]
            if isinstance(width, int) and width <= BYTE:
                found.update(node.args)
        if node.op in READERS or (node.op == "cast" and not node.dtype.startswith("float")):
            found.update(node.args)
        if node.name in found and node.op in (*MOVES, "pad"):
            found.update(node.args)
    return frozenset(found)


def table_operands(graph: Graph, choices: Mapping[str, int | NumberFormat]) -> frozenset[str]:
    """Results of products that go nowhere but into the table of a function."""
    nodes = graph.by_name
    uses = Counter([a for n in graph.nodes for a in n.args] + list(graph.outputs))
    names = {n.args[0] for n in graph.nodes if n.op in TABLES and nodes[n.args[0]].op in PRODUCTS}
    return frozenset(n for n in names if uses[n] == 1 and isinstance(c := choices[n], int) and c <= BYTE)


@dataclass(frozen=True)
class Inner:
    """Formats of the intermediates and what is needed of every float value, by node name.

    cut: intermediates that span more powers of two than `WIDEST` bits hold to their need.
    """

    formats: Mapping[str, NumberFormat]
    needs: Mapping[str, Need]
    cut: frozenset[str]


def inner_formats(
    graph: Graph,
    formats: Mapping[str, NumberFormat],
    widths: Mapping[str, int],
    largest: Mapping[str, float],
    spare: Mapping[str, int],
) -> Inner:
    """Formats of the float values that `formats` does not have yet.

    formats: of stored floats, integers and bools. widths: the user's width for each value. largest:
    calibrated magnitudes. spare: headroom in bits, by value.
    """
    nodes = graph.by_name
    bounds = _bounds(graph, nodes, formats, largest, spare)
    needs = _needs(graph, nodes, formats, bounds)
    chosen: dict[str, NumberFormat] = {}
    cut: set[str] = set()
    readers: dict[str, list[Node]] = {n.name: [] for n in graph.nodes}
    for node in graph.nodes:
        for name in node.args:
            readers[name].append(node)
    for node in graph.nodes:
        if node.name in formats:
            continue
        if node.op in MOVES:
            source = node.args[0]
            chosen[node.name] = chosen.get(source) or formats[source]
            continue
        width = widths[node.name]
        chosen[node.name] = _format(bounds[node.name], needs[node.name], largest[node.name], width)
        if chosen[node.name].resolution > 4 * needs[node.name].at(bounds[node.name].smallest):
            cut.add(node.name)
        once = None if bounds[node.name].frac is not None else _rounded_once(readers[node.name], formats)
        if once is not None and once.width <= chosen[node.name].width:
            chosen[node.name] = once
    return Inner(chosen, needs, frozenset(cut))


def _rounded_once(readers: Sequence[Node], formats: Mapping[str, NumberFormat]) -> NumberFormat | None:
    """The format of a stored result where nothing but a change of sign lies between: it is rounded there."""
    if len(readers) != 1 or readers[0].op not in SIGNS:
        return None
    fmt = formats.get(readers[0].name)
    return None if fmt is None or fmt.kind != "fixed" else fixed(fmt.signed_width + 1, fmt.frac)


def _bounds(
    graph: Graph,
    nodes: Mapping[str, Node],
    formats: Mapping[str, NumberFormat],
    largest: Mapping[str, float],
    spare: Mapping[str, int],
) -> dict[str, Bound]:
    found: dict[str, Bound] = {}
    for node in graph.nodes:
        fmt = formats.get(node.name)
        if node.op == "constant" and fmt is not None:
            found[node.name] = constant_bound(graph.constants[node.name], fmt)
            continue
        if fmt is not None and not node.dtype.startswith("float"):
            found[node.name] = stored(fmt)
            continue
        if node.op == "cast":
            derived: Bound | None = found[node.args[0]]
        else:
            derived = None if node.op == "input" else forward(node, nodes, found)
        if fmt is not None:
            own = stored(fmt)
            found[node.name] = own if derived is None else own.within(derived)
            continue
        peak = largest[node.name]
        if node.op in GROWING:
            derived = _calibrated_power(node, derived, largest[node.args[0]])
        limit = times_power_of_two(peak, spare[node.name] + 1) if peak else HUGE
        if derived is None:
            derived = Bound(-limit, limit)
        elif node.op in ("div", "function") or (
            node.op == "mul" and any(_inverse(a, nodes) for a in node.args)
        ):
            derived = derived.within(
                Bound(-limit, limit)
            )  # small divisors belong to small dividends, and poles are not met
        if derived.largest >= HUGE or derived.largest > times_power_of_two(peak or HUGE, 60):
            far = times_power_of_two(peak, 16) if peak else 1.0
            derived = derived.within(Bound(-far, far))
        found[node.name] = derived
    return found


def _inverse(name: str, nodes: Mapping[str, Node]) -> bool:
    while nodes[name].op in MOVES:
        name = nodes[name].args[0]
    return nodes[name].op in INVERSES


def probabilities(graph: Graph) -> frozenset[str]:
    """Results of softmax that a matrix product reads: quotients by the sum of what they divide."""
    nodes = graph.by_name
    read: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op == "matmul" or (node.name in read and node.op in MOVES):
            read.add(node.args[0])
    return frozenset(
        name for name in read if nodes[name].op == "mul" and _normalised(nodes[name], nodes)
    ) | frozenset(name for name in read if nodes[name].op in MOVES and _leads_to_softmax(name, nodes))


def _leads_to_softmax(name: str, nodes: Mapping[str, Node]) -> bool:
    while nodes[name].op in MOVES:
        name = nodes[name].args[0]
    return nodes[name].op == "mul" and _normalised(nodes[name], nodes)


def _normalised(node: Node, nodes: Mapping[str, Node]) -> bool:
    power, inverse = (nodes[a] for a in node.args)
    while inverse.op in MOVES:
        inverse = nodes[inverse.args[0]]
    total = nodes[inverse.args[0]] if inverse.op == "reciprocal" else None
    return power.op in GROWING and total is not None and total.op == "sum" and total.args[0] == power.name


def _calibrated_power(node: Node, derived: Bound | None, peak: float) -> Bound | None:
    """The range of an exponential whose operand is at most a quarter larger than in calibration."""
    if derived is None:
        return None
    exact = FUNCTIONS[node.op]().exact
    most = float(exact(np.array([1.25 * peak + 1.0]))[0])
    return derived.within(Bound(-HUGE, min(most, HUGE)))


def _needs(
    graph: Graph, nodes: Mapping[str, Node], formats: Mapping[str, NumberFormat], bounds: Mapping[str, Bound]
) -> dict[str, Need]:
    needs: dict[str, Need] = {n.name: Need() for n in graph.nodes}
    for node in reversed(graph.nodes):
        if not node.dtype.startswith("float") or node.op in ("input", "constant"):
            if node.op not in ("input", "constant") and node.name in formats:
                _picky(node, nodes, bounds, needs)
            continue
        fmt = formats.get(node.name)
        if fmt is not None:
            needs[node.name] = Need(times_power_of_two(fmt.resolution, -SPARE), 0.0)
        place = Place(node, needs[node.name], bounds[node.name], tuple(bounds[a] for a in node.args))
        count = folded(node, nodes[node.args[0]]) if node.args else 1
        for name, need in zip(node.args, backward(place, count), strict=True):
            needs[name] = needs[name].both(need)
    return needs


def _picky(
    node: Node, nodes: Mapping[str, Node], bounds: Mapping[str, Bound], needs: dict[str, Need]
) -> None:
    """A comparison or a choice of index tells its float operands apart as far as they are known."""
    for name in node.args:
        if nodes[name].dtype.startswith("float"):
            needs[name] = needs[name].both(Need(times_power_of_two(bounds[name].largest, -24), 0.0))


def _format(bound: Bound, need: Need, peak: float, width: int) -> NumberFormat:
    """The fewest bits that hold the range to the need."""
    size = bound.largest or peak or 1.0
    error = max(need.at(bound.smallest), times_power_of_two(peak or size, -2 * max(width, 16) - 6))
    frac = math.ceil(-math.log2(error)) if math.isfinite(error) else -math.frexp(size)[1] + width
    if bound.frac is not None:
        frac = min(frac, bound.frac)
    whole = math.frexp(size)[1]
    if whole + 1 + frac > WIDEST and peak:  # what is far beyond calibration goes before what is needed
        whole = max(WIDEST - 1 - frac, min(whole, math.frexp(peak)[1] + FAR))
    bits = max(NARROWEST, whole + 1 + frac)
    cut = max(0, bits - WIDEST)
    return fixed(bits - cut, frac - cut)
