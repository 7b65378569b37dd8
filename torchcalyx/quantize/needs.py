"""How exact an intermediate must be for what its consumers make of it.

An error d of a value v is harmless where |d| <= max(absolute, relative * |v|). Needs run backwards from the
stored results, each operation passing on what it can tell apart: a product or a quotient needs its operands
relative to their size, a sum in absolute terms, a logarithm relatively, an exponential absolutely. The rules
are first derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.quantize.bounds import Bound
from torchcalyx.quantize.reals import power_of
from torchcalyx.quantize.sampling import slopes

NOTHING = math.inf


@dataclass(frozen=True, slots=True)
class Need:
    """Errors up to max(absolute, relative * |value|) do no harm; infinite: any error does."""

    absolute: float = NOTHING
    relative: float = NOTHING

    def both(self, other: Need) -> Need:
        """What satisfies two consumers."""
        return Need(min(self.absolute, other.absolute), min(self.relative, other.relative))

    def at(self, size: float) -> float:
        """Harmless error of a value of that magnitude."""
        return max(self.absolute, self.relative * size)

    def share(self, largest: float) -> float:
        """Harmless error relative to the value's own size, for values of at most that magnitude."""
        return max(self.relative, self.absolute / largest if largest else NOTHING)


@dataclass(frozen=True, slots=True)
class Place:
    """A node with its need and its bound, and the bounds of its operands."""

    node: Node
    need: Need
    bound: Bound
    args: tuple[Bound, ...]

    @property
    def absolute(self) -> float:
        """Harmless error of the result, whatever its size."""
        return self.need.at(self.bound.smallest)

    @property
    def share(self) -> float:
        """Harmless relative error of the result."""
        return self.need.share(self.bound.largest)


def backward(place: Place, count: int) -> tuple[Need, ...]:
    """What a node asks of each operand. count: operands folded into one result by a reduction."""
    rule = _RULES.get(place.node.op)
    if rule is None:
        return tuple(Need() for _ in place.args)
    return rule(place, count)


Rule: TypeAlias = Callable[[Place, int], tuple[Need, ...]]


def _same(p: Place, count: int) -> tuple[Need, ...]:
    return tuple(p.need for _ in p.args)


def _sum_of_two(p: Place, count: int) -> tuple[Need, ...]:
    together = all(a.low >= 0 for a in p.args) and p.node.op == "add"
    return tuple(Need(p.absolute, p.need.relative if together else 0.0) for _ in p.args)


def _product(p: Place, count: int) -> tuple[Need, ...]:
    x, y = p.args
    twice = 2.0 if p.node.args[0] == p.node.args[1] else 1.0
    return tuple(
        Need(p.absolute / (twice * other.largest) if other.largest else NOTHING, p.share / twice)
        for other in (y, x)
    )


def _quotient(p: Place, count: int) -> tuple[Need, ...]:
    y = p.args[1]
    largest = p.bound.largest
    absolute = p.absolute * y.smallest / largest if largest else NOTHING
    return (Need(p.absolute * y.smallest, p.share), _apart_from_zero(absolute, p.share, y))


def _apart_from_zero(absolute: float, relative: float, x: Bound) -> Need:
    """Needs of a value beside a pole at 0: derivatives hold for errors well below the value itself."""
    return Need(min(absolute, x.smallest / 4), min(relative, 0.25))


def _by_constant(p: Place, count: int) -> tuple[Need, ...]:
    value = abs(float(p.node.number("value")))
    return (Need(p.absolute * value, p.need.relative),)


def _power(exponent: float) -> Rule:
    """x ** exponent: |dz / z| = |exponent| * |dx / x|."""

    def rule(p: Place, count: int) -> tuple[Need, ...]:
        x = p.args[0].smallest
        slope = abs(exponent) * power_of(x, exponent - 1.0)
        least = p.absolute / slope if slope else NOTHING
        if exponent < 0:
            return (_apart_from_zero(least, p.share / -exponent, p.args[0]),)
        least = max(
            least, power_of(p.absolute, 1.0 / exponent)
        )  # a root below its own error may as well be 0
        return (Need(least, p.share / exponent),)

    return rule


def _logarithm(scale: float) -> Rule:
    """dz = scale * dx / x."""

    def rule(p: Place, count: int) -> tuple[Need, ...]:
        error = p.absolute / scale
        return (_apart_from_zero(error * p.args[0].smallest, error, p.args[0]),)

    return rule


def _log1p(p: Place, count: int) -> tuple[Need, ...]:
    above = max(1.0 + p.args[0].low, 2.0**-40)
    return (Need(p.absolute * above, p.need.relative if p.args[0].low >= 0 else 0.0),)


def _exponential(rate: float) -> Rule:
    """dz / z = rate * dx."""

    def rule(p: Place, count: int) -> tuple[Need, ...]:
        return (Need(p.share / rate, 0.0),)

    return rule


def _slope(most: float) -> Rule:
    """A function that is nowhere steeper than `most`."""

    def rule(p: Place, count: int) -> tuple[Need, ...]:
        return (Need(p.absolute / most, 0.0),)

    return rule


def _sampled(p: Place, count: int) -> tuple[Need, ...]:
    """What every point of the operand's range allows, by differences of the function itself."""
    x = p.args[0]
    sizes, values, steep = slopes(p.node, x.low, x.high, x.smallest, p.bound.largest)
    if not sizes.size:
        return (Need(),)
    harmless = np.maximum(p.need.absolute, p.need.relative * np.maximum(values, p.bound.smallest))
    allowed = harmless / np.maximum(steep, 2.0**-200)
    near = sizes > 0
    relative = float((allowed[near] / np.maximum(sizes[near], 2.0**-200)).min()) if near.any() else 0.0
    return (Need(float(allowed.min()), min(relative, 0.25)),)


def _elu(p: Place, count: int) -> tuple[Need, ...]:
    alpha, scale, inner = (abs(float(p.node.number(k))) for k in ("alpha", "scale", "input_scale"))
    return (Need(p.absolute / max(scale, scale * alpha * inner, 2.0**-20), 0.0),)


def _expm1(p: Place, count: int) -> tuple[Need, ...]:
    return (Need(p.absolute / (p.bound.largest + 1.0), 0.0),)


def _total(p: Place, count: int) -> tuple[Need, ...]:
    x = p.args[0]
    error = p.absolute if p.node.op == "mean" else p.absolute / count
    return (Need(error, p.need.relative if x.sign else 0.0),)


def _choice(p: Place, count: int) -> tuple[Need, ...]:
    return (Need(), p.need, p.need)


def _taken(p: Place, count: int) -> tuple[Need, ...]:
    return (p.need, Need())


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("neg", "abs", "relu", "clamp", "minimum", "maximum", "amax", "amin", "view", "permute", "slice",
         "cummax", "cummin", "sort", "expand", "cat", "cast"),
        _same,
    ),
    **dict.fromkeys(("add", "sub"), _sum_of_two), "mul": _product,
    "div": _quotient, "div_const": _by_constant,
    "where": _choice, "take": _taken, **dict.fromkeys(("sum", "mean"), _total),
    "sqrt": _power(0.5), "rsqrt": _power(-0.5), "reciprocal": _power(-1.0),
    "log": _logarithm(1.0), "log2": _logarithm(1.0 / math.log(2.0)),
    "log10": _logarithm(1.0 / math.log(10.0)), "log1p": _log1p,
    "function": _sampled,
    "exp": _exponential(1.0), "exp2": _exponential(math.log(2.0)), "expm1": _expm1,
    "sigmoid": _slope(0.25), "erf": _slope(1.13), "elu": _elu,
    **dict.fromkeys(("tanh", "softplus", "sin", "cos"), _slope(1.0)),
    **dict.fromkeys(("gelu", "silu", "mish"), _slope(1.13)),
}  # fmt: skip


def folded(node: Node, source: Node) -> int:
    """Elements that a reduction folds into one result."""
    return product(source.shape[d] for d in node.ints("dims")) if node.op in ("sum", "mean") else 1
