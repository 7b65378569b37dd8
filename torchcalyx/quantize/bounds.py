"""What is known of a real value before the program runs: its range, smallest magnitude and last place.

Interval arithmetic over the normal form, from the formats of stored values. It is what tells an intermediate
how many bits its consumers need; calibration limits it only where intervals say nothing useful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from torchcalyx.ir.graph import Array, Node
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.kernels.functions.real import FUNCTIONS
from torchcalyx.quantize.reals import HUGE, dyadic, power_of
from torchcalyx.quantize.sampling import image

BELOW = 24
"""Octaves between the logarithm of the smallest number and what stands for that of 0."""


@dataclass(frozen=True, slots=True)
class Bound:
    """low, high: every value lies between them. least: no value but zero is smaller in magnitude (0:
    unknown). frac: values are whole multiples of 2**-frac (None: unknown).
    """

    low: float
    high: float
    least: float = 0.0
    frac: int | None = None

    @property
    def largest(self) -> float:
        """Largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def smallest(self) -> float:
        """Smallest magnitude of a value that is not zero, 0 when nothing is known."""
        apart = max(self.low, -self.high, 0.0)
        steps = 0.0 if self.frac is None else 2.0**-self.frac
        return max(apart, self.least, steps)

    @property
    def sign(self) -> bool:
        """Whether all values have one sign (or are zero)."""
        return self.low >= 0 or self.high <= 0

    def within(self, other: Bound) -> Bound:
        """The same values, known to be in the other range too."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return replace(self, low=min(low, high), high=max(low, high))


Rule: TypeAlias = Callable[[Node, list[Bound], Mapping[str, Node]], Bound]


def stored(fmt: NumberFormat) -> Bound:
    """Everything that a format holds."""
    unit = fmt.resolution
    return Bound(fmt.min * unit, fmt.max * unit, unit, fmt.frac)


def constant_bound(values: Array, fmt: NumberFormat) -> Bound:
    """A constant: a tensor as it is stored; a single number as the datapath has it, with bits to spare."""
    real = np.asarray(values, dtype=np.float64)
    if real.size == 1:
        number = float(real.reshape(()))
        return Bound(number, number, abs(number), dyadic(number))
    if not real.size:
        return stored(fmt)
    least, most = fmt.dequantize(fmt.quantize(np.array([real.min(), real.max()])))  # rounding keeps order
    return Bound(float(least), float(most), fmt.resolution, fmt.frac)


def forward(node: Node, graph: Mapping[str, Node], of: Mapping[str, Bound]) -> Bound | None:
    """Bound of a float value computed from the bounds of its operands; None where intervals say nothing."""
    rule = _RULES.get(node.op)
    args = [of[a] for a in node.args]
    if rule is None:
        return None
    found = rule(node, args, graph)
    low, high = max(found.low, -HUGE), min(found.high, HUGE)
    return replace(found, low=low, high=high)


# ---- rules


def _corners(pairs: list[float]) -> tuple[float, float]:
    return min(pairs), max(pairs)


def _finer(x: Bound, y: Bound) -> int | None:
    return None if x.frac is None or y.frac is None else max(x.frac, y.frac)


def _add(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return Bound(a[0].low + a[1].low, a[0].high + a[1].high, 0.0, _finer(a[0], a[1]))


def _sub(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    found = Bound(a[0].low - a[1].high, a[0].high - a[1].low, 0.0, _finer(a[0], a[1]))
    if is_greatest_of(graph, node.args[1], node.args[0]):
        return replace(found, high=0.0)
    return found


def is_greatest_of(graph: Mapping[str, Node], peak: str, value: str) -> bool:
    """Whether `peak` is the greatest of `value` along some axes (seen through expansions)."""
    node = graph[peak]
    while node.op in ("expand", "view"):
        node = graph[node.args[0]]
    return node.op == "amax" and node.args[0] == value


def _mul(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    x, y = a
    low, high = _corners([p * q for p in (x.low, x.high) for q in (y.low, y.high)])
    if node.args[0] == node.args[1]:
        low = 0.0 if x.low <= 0 <= x.high else min(x.low * x.low, x.high * x.high)
    frac = None if x.frac is None or y.frac is None else x.frac + y.frac
    return Bound(low, high, x.smallest * y.smallest, frac)


def _div(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    x, y = a
    least = y.smallest
    if y.low > 0 or y.high < 0:
        low, high = _corners([p / q for p in (x.low, x.high) for q in (y.low, y.high)])
    else:
        most = x.largest / least if least else HUGE
        low, high = -most, most
        if x.low >= 0 and y.low >= 0:
            low = 0.0
    return Bound(low, high, x.smallest / y.largest if y.largest else 0.0)


def _div_const(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    value = float(node.number("value"))
    low, high = _corners([a[0].low / value, a[0].high / value])
    return Bound(low, high, a[0].smallest / abs(value))


def _pick(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return a[0]


def _neg(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return replace(a[0], low=-a[0].high, high=-a[0].low)


def _abs(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    low = 0.0 if a[0].low <= 0 <= a[0].high else min(abs(a[0].low), abs(a[0].high))
    return replace(a[0], low=low, high=a[0].largest)


def _relu(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return replace(a[0], low=max(a[0].low, 0.0), high=max(a[0].high, 0.0))


def _extreme(pick: Callable[[float, float], float]) -> Rule:
    def rule(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
        x, y = a
        low, high = pick(x.low, y.low), pick(x.high, y.high)
        return Bound(low, high, min(x.smallest, y.smallest), _finer(x, y))

    return rule


def _clamp(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    low, high, least, frac = a[0].low, a[0].high, a[0].smallest, a[0].frac
    for key in ("min", "max"):
        limit = node.attr(key)
        if isinstance(limit, (int, float)):
            pick = max if key == "min" else min
            low, high = pick(low, float(limit)), pick(high, float(limit))
            least = min(least, abs(limit)) if limit else least
            own = dyadic(float(limit))
            frac = None if frac is None or own is None else max(frac, own)
    return Bound(low, high, least, frac)


def _union(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    parts = a[1:] if node.op == "where" else a
    fracs = [p.frac for p in parts]
    frac = None if any(f is None for f in fracs) else max(f for f in fracs if f is not None)
    return Bound(min(p.low for p in parts), max(p.high for p in parts), min(p.smallest for p in parts), frac)


def _total(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    count = product(graph[node.args[0]].shape[d] for d in node.ints("dims"))
    x = a[0]
    low = count * x.low
    source = graph[node.args[0]]
    if source.op in ("exp", "exp2") and graph[source.args[0]].op == "sub":
        inner = graph[source.args[0]]
        if is_greatest_of(graph, inner.args[1], inner.args[0]):
            low = 1.0  # the greatest element itself
    return Bound(low, count * x.high, x.smallest if x.sign else 0.0, x.frac)


def _mean(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    count = product(graph[node.args[0]].shape[d] for d in node.ints("dims"))
    x = a[0]
    least = x.smallest / count if x.sign or x.frac is not None else 0.0
    exact = x.frac is not None and count & (count - 1) == 0
    frac = x.frac + count.bit_length() - 1 if exact and x.frac is not None else None
    return Bound(x.low, x.high, least, frac)


def _function(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    """A function that never falls, on the range of its operand."""
    name = node.op
    parameters = {"elu": ("alpha", "scale", "input_scale"), "softplus": ("beta", "threshold")}.get(name, ())
    exact = FUNCTIONS[name](*(float(node.number(p)) for p in parameters)).exact
    x = a[0]
    start = x.low if x.low > 0 or not name.startswith(("log", "sqrt")) else x.smallest
    if name in ("log1p", "sqrt"):
        start = max(x.low, -1.0 if name == "log1p" else 0.0)
    with np.errstate(all="ignore"):
        ends = exact(np.array([start, x.high]))
    low, high = (float(np.nan_to_num(e, nan=0.0, posinf=HUGE, neginf=-HUGE)) for e in ends)
    if name.startswith("log") and name != "log1p" and x.low <= 0:
        low -= BELOW * math.log(2.0)  # the logarithm of 0 lies far below that of anything else
    least = math.sqrt(x.smallest) if name == "sqrt" else 0.0
    return Bound(min(low, high), max(low, high), least)


def _sampled(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    """Least and greatest value on many points of the operand's range."""
    return Bound(*image(node, a[0].low, a[0].high, a[0].smallest))


def _gate(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    """gelu, silu, mish: never below -0.31, and never above a positive operand."""
    return Bound(max(-0.31, min(a[0].low, 0.0)), max(a[0].high, 0.0))


def _inverse(power: float) -> Rule:
    """x ** -power."""

    def rule(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
        x = a[0]
        least = x.smallest
        most = power_of(least, -power)
        smallest = power_of(x.largest, -power) if x.largest else 0.0
        low = smallest if x.low >= 0 else (-most if node.op == "reciprocal" else 0.0)
        high = most if x.high > 0 else -smallest
        return Bound(min(low, high), max(low, high), smallest)

    return rule


def _unit(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return Bound(-1.0, 1.0)


def _sign(node: Node, a: list[Bound], graph: Mapping[str, Node]) -> Bound:
    return Bound(-1.0, 1.0, 1.0, 0)


_RULES: Mapping[str, Rule] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "div_const": _div_const,
    "neg": _neg, "abs": _abs, "relu": _relu, "sign": _sign, "clamp": _clamp, "where": _union, "cat": _union,
    "minimum": _extreme(min), "maximum": _extreme(max),
    "sum": _total, "mean": _mean,
    **dict.fromkeys(("amax", "amin", "cummax", "cummin", "sort"), _pick),
    **dict.fromkeys(("view", "permute", "slice", "expand", "take"), _pick),
    **dict.fromkeys(
        ("sigmoid", "tanh", "erf", "exp", "exp2", "expm1", "elu", "softplus", "log", "log2", "log10", "log1p",
         "sqrt"),
        _function,
    ),
    **dict.fromkeys(("gelu", "silu", "mish"), _gate),
    "rsqrt": _inverse(0.5), "reciprocal": _inverse(1.0),
    "function": _sampled,
    "sin": _unit, "cos": _unit,
}  # fmt: skip
