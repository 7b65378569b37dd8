"""Interval arithmetic over integer values of the normal form: the proof behind exact integer widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat, product

INPUT_BITS = 32
"""Width assumed for integer inputs of wider dtypes; a call with a value outside is refused."""


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from low to high."""

    low: int
    high: int


def interval(
    node: Node, graph: Graph, ranges: Mapping[str, Interval], formats: Mapping[str, NumberFormat]
) -> Interval:
    """Range of an integer value, given the ranges of its integer and bool operands and the formats of float
    ones.
    """
    if node.op == "input":
        return _index_interval(node, graph) or _input_interval(node.dtype)
    if node.op == "constant":
        values = np.asarray(graph.constants[node.name])
        return Interval(int(values.min()), int(values.max())) if values.size else Interval(0, 0)
    if node.op in ("argmax", "argmin", "argsort"):
        dim = node.attr("dim")
        assert isinstance(dim, int)
        return Interval(0, graph.node(node.args[0]).shape[dim] - 1)
    if node.op == "cast" and node.args[0] not in ranges:
        fmt = formats[node.args[0]]
        ends = [_shift(fmt.min, fmt.frac), _shift(fmt.max, fmt.frac)]
        return _within_dtype(Interval(min(ends), max(ends)), node.dtype)
    args = [ranges[a] for a in node.args]
    return _OPS[node.op](node, graph, args) if node.op in _OPS else _union(args)


def _shift(stored: int, frac: int) -> int:
    """Stored integer as a whole number, towards zero."""
    magnitude = abs(stored) >> frac if frac >= 0 else abs(stored) << -frac
    return magnitude if stored >= 0 else -magnitude


def dtype_interval(dtype: str) -> Interval:
    """Every value of an integer dtype."""
    info = np.iinfo(dtype)
    return Interval(int(info.min), int(info.max))


def _input_interval(dtype: str) -> Interval:
    bound, own = 1 << (INPUT_BITS - 1), dtype_interval(dtype)
    return Interval(max(own.low, -bound), min(own.high, bound - 1))


def _index_interval(node: Node, graph: Graph) -> Interval | None:
    """What an input may be that is read as an index only; a call with another value is refused."""
    readers = [n for n in graph.nodes if node.name in n.args]
    if not readers or node.name in graph.outputs or any(n.op != "checked" for n in readers):
        return None
    own = dtype_interval(node.dtype)
    low = max(-n.whole("size") if n.attr("wrap") else 0 for n in readers)
    return Interval(max(own.low, low), min(own.high, *(n.whole("size") - 1 for n in readers)))


def _put(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    base, source = a[0], a[2]
    if node.attr("mode") != "add":
        return _union([base, source])
    dim = node.whole("dim")
    count = max(graph.node(n).shape[dim] for n in node.args[1:])
    return Interval(base.low + count * min(source.low, 0), base.high + count * max(source.high, 0))


def _within_dtype(found: Interval, dtype: str) -> Interval:
    info = np.iinfo(dtype)
    return Interval(max(found.low, int(info.min)), min(found.high, int(info.max)))


def _union(args: list[Interval]) -> Interval:
    return Interval(min(a.low for a in args), max(a.high for a in args))


def _corners(values: list[int]) -> Interval:
    return Interval(min(values), max(values))


def _mul(x: Interval, y: Interval) -> Interval:
    return _corners([a * b for a in (x.low, x.high) for b in (y.low, y.high)])


def _count(node: Node, graph: Graph) -> int:
    shape = graph.node(node.args[0]).shape
    dims = node.attr("dims")
    assert isinstance(dims, tuple)
    return product(shape[d] for d in dims if isinstance(d, int))


def _sum(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    count = _count(node, graph)
    return Interval(count * a[0].low, count * a[0].high) if count else Interval(0, 0)


def _prod(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    result = Interval(1, 1)
    for _ in range(_count(node, graph)):
        result = _mul(result, a[0])
    return result


def _cumsum(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    dim = node.attr("dim")
    assert isinstance(dim, int)
    count = node.shape[dim] if node.shape else 1
    return Interval(min(a[0].low, count * a[0].low), max(a[0].high, count * a[0].high))


def _matmul(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    one = _mul(a[0], a[1])
    inner = graph.node(node.args[0]).shape[-1]
    total = Interval(inner * one.low, inner * one.high)
    return _add(total, a[2]) if len(a) == 3 else total


def _add(x: Interval, y: Interval) -> Interval:
    return Interval(x.low + y.low, x.high + y.high)


def _clamp(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    low, high = a[0].low, a[0].high
    minimum, maximum = node.attr("min"), node.attr("max")
    if isinstance(minimum, (int, float)):
        low, high = max(low, int(minimum)), max(high, int(minimum))
    if isinstance(maximum, (int, float)):
        low, high = min(low, int(maximum)), min(high, int(maximum))
    return Interval(low, high)


def _bits(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    """Bitwise results stay within the two's complement width of the operands."""
    ends = [abs(e) for i in a for e in (i.low, i.high)]
    bound = 1 << max(ends).bit_length()
    return Interval(0 if all(i.low >= 0 for i in a) else -bound, bound - 1)


def _value(node: Node) -> int:
    value = node.attr("value")
    assert isinstance(value, (int, float))
    return int(value)


def _floor_div(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    divisor = _value(node)
    return _corners([a[0].low // divisor, a[0].high // divisor])


def _remainder(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    divisor = _value(node)
    return Interval(0, divisor - 1) if divisor > 0 else Interval(divisor + 1, 0)


def _pad(node: Node, graph: Graph, a: list[Interval]) -> Interval:
    value = _value(node)
    return Interval(min(a[0].low, value), max(a[0].high, value))


_OPS = {
    "add": lambda n, g, a: _add(a[0], a[1]),
    "sub": lambda n, g, a: Interval(a[0].low - a[1].high, a[0].high - a[1].low),
    "mul": lambda n, g, a: _mul(a[0], a[1]),
    "neg": lambda n, g, a: Interval(-a[0].high, -a[0].low),
    "abs": lambda n, g, a: Interval(
        0 if a[0].low <= 0 <= a[0].high else min(abs(a[0].low), abs(a[0].high)),
        max(abs(a[0].low), abs(a[0].high)),
    ),
    "sign": lambda n, g, a: Interval(-1, 1),
    "relu": lambda n, g, a: Interval(max(a[0].low, 0), max(a[0].high, 0)),
    "minimum": lambda n, g, a: Interval(min(a[0].low, a[1].low), min(a[0].high, a[1].high)),
    "maximum": lambda n, g, a: Interval(max(a[0].low, a[1].low), max(a[0].high, a[1].high)),
    "where": lambda n, g, a: _union(a[1:]),
    "cast": lambda n, g, a: a[0],
    "sum": _sum,
    "prod": _prod,
    "cumsum": _cumsum,
    "matmul": _matmul,
    "linear": _matmul,
    "clamp": _clamp,
    "bitwise_and": _bits,
    "bitwise_or": _bits,
    "bitwise_xor": _bits,
    "bitwise_not": lambda n, g, a: Interval(~a[0].high, ~a[0].low),
    "floor_div_const": _floor_div,
    "remainder_const": _remainder,
    "pad": _pad,
    "checked": lambda n, g, a: Interval(0, n.whole("size") - 1),
    "put": _put,
}
