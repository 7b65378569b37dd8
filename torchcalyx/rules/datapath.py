"""Graph operations as lane expressions: what each elementwise operation of the normal form means in fixed
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.functions.multiply import multiply
from torchcalyx.match import Reject
from torchcalyx.rules.functions import FUNCTIONS, emit_function, function_multiplications, function_refusal
from torchcalyx.rules.shifts import shifted, shifting

SPARE_BITS = 4
"""Significant bits of a scalar beyond the element width: its rounding stays below the rounding of the
result.
"""

Emit: TypeAlias = "Callable[[Datapath, Node, list[int]], int]"


class Datapath:
    """An expression under construction. node: the one at hand, to which scalars belong; width: of its widest
    real format.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.node: Node | None = None
        self.width = 0
        self.b = ExprBuilder()

    def scalar(self, value: float) -> int:
        """A constant: integers exactly, real numbers rounded so finely that the node at hand cannot tell."""
        integer, frac = significant(value, self._bits)
        finest = self._finest
        if finest is not None and frac > finest and not self._is_factor:
            return self.b.const(round(math.ldexp(value, finest)), finest)
        return self.b.const(integer, frac)

    def times(self, a: int, value: float) -> int:
        """a * value by shifts and adds."""
        return self.b.scale_by(a, *significant(value, self._bits))

    @property
    def _is_factor(self) -> bool:
        return self.node is not None and self.node.op in ("mul", "div_const")

    @property
    def _bits(self) -> int:
        """Significant bits of a scalar."""
        if self.node is not None and self._is_factor and self.view.formats[self.node.name].kind == "fixed":
            return factor_bits(self.view, self.node)
        return self.width + SPARE_BITS

    @property
    def _finest(self) -> int | None:
        """Fraction bits beyond which an addend of an intermediate is not seen."""
        if self.node is None or self.node.name in self.view.stored:
            return None
        fmt = self.view.formats[self.node.name]
        return fmt.frac + SPARE_BITS if fmt.kind == "fixed" else None

    def emit(self, node: Node, args: list[int]) -> int:
        """Add the operation of `node`; its operands are earlier operations. Integers wrap as their dtype
        does.
        """
        return self.wrapped(node, _EMIT[node.op](self, node, args))

    def wrapped(self, node: Node, value: int) -> int:
        """The value of an integer node within its format; others are left as they are."""
        fmt = self.view.formats[node.name]
        return self.b.wrap(value, fmt) if fmt.kind == "int" and node.dtype != "bool" else value

    def at(self, node: Node) -> None:
        """Scalars from here on belong to `node`."""
        self.node = node
        formats = [self.view.formats[name] for name in (node.name, *node.args)]
        self.width = max((f.width for f in formats if f.kind == "fixed"), default=self.width)


def significant(value: float, bits: int) -> tuple[int, int]:
    """(integer, frac) nearest to `value` with at most `bits` significant bits; exact for integers."""
    if isinstance(value, int):
        return int(value), 0
    mantissa, exponent = math.frexp(value)
    bits = max(bits, min(exponent, 53)) if float(value).is_integer() else bits
    integer, frac = round(math.ldexp(mantissa, bits)), bits - exponent
    while integer and integer % 2 == 0:
        integer, frac = integer // 2, frac - 1
    return integer, frac


def supported(view: GraphView, node: Node) -> Reject | None:
    """Why an elementwise node has no exact datapath (None: it has one)."""
    if node.op not in _EMIT:
        return Reject(f"{node.op} is not elementwise", related=False)
    if node.op in ("floor_div_const", "remainder_const") and node.attr("value") == 0:
        return Reject("division by zero")
    if node.op == "div_const" and node.attr("value") == 0:
        return Reject("division by zero")
    return function_refusal(view, node) if node.op in FUNCTIONS else None


def multiplications(view: GraphView, node: Node) -> int:
    """Multipliers that one lane of a supported node needs."""
    if node.op in FUNCTIONS:
        return function_multiplications(view, node)
    product = node.op == "mul" and all(view.scalar(a) is None for a in node.args)
    return int(product and shifting(view, node) is None)


def _mul(d: Datapath, node: Node, args: list[int]) -> int:
    """Factors of ordinary width are multiplied exactly; wider ones by their leading digits."""
    narrowed = []
    for index, name in zip(args, node.args, strict=True):
        fmt = d.view.formats[name]
        wide = d.b.value(index).width > fmt.signed_width and d.b.ops[index].name != "const"
        narrowed.append(d.b.quant(index, fmt) if wide and fmt.kind == "fixed" else index)
    x, y = narrowed
    found = shifting(d.view, node)
    if found is not None:
        place, few = found
        return shifted(d.b, narrowed[1 - place], narrowed[place], few)
    if any(d.b.ops[i].name == "const" for i in narrowed) or d.view.formats[node.name].kind != "fixed":
        return d.b.mul(x, y)
    fmt = d.view.formats[node.name]
    places, bits = fmt.frac + SPARE_BITS, factor_bits(d.view, node)
    return multiply(d.b, x, y, places, bits, 2.0 * (fmt.max + 1) * fmt.resolution)


def factor_bits(view: GraphView, node: Node) -> int:
    """Leading bits of the factors of a product that its consumers can tell apart, and some to spare."""
    fmt, need = view.formats[node.name], view.needs.get(node.name)
    share = need.share((fmt.max + 1) * fmt.resolution) if need else 0.0
    bits = math.ceil(-math.log2(share)) + 2 if 0.0 < share < 0.5 else fmt.width + SPARE_BITS
    return max(bits, *(view.formats[a].signed_width for a in node.args if a in view.stored), 8)


def _clamp(d: Datapath, node: Node, args: list[int]) -> int:
    result = args[0]
    low, high = node.attr("min"), node.attr("max")
    if isinstance(low, (int, float)):
        result = d.b.maximum(result, d.scalar(low))
    if isinstance(high, (int, float)):
        result = d.b.minimum(result, d.scalar(high))
    return result


def _sign(d: Datapath, node: Node, args: list[int]) -> int:
    zero = d.b.const(0)
    return d.b.sub(d.b.less(zero, args[0]), d.b.less(args[0], zero))


def _cast(d: Datapath, node: Node, args: list[int]) -> int:
    if node.dtype == "bool":
        return d.b.logic_not(d.b.equal(args[0], d.b.const(0)))
    if node.dtype.startswith("float"):
        return args[0]
    fmt = d.view.formats[node.args[0]]
    # The integer's width is proved from this format: what leaves it saturates, counted, as anywhere else.
    whole = d.b.truncate(d.b.quant(args[0], fmt) if fmt.kind == "fixed" else args[0])
    # Narrow integers wrap, as torch's casts do; beyond 32 and 64 bits torch has no answer of its own.
    wide = fmt.kind == "fixed" and node.dtype in ("int32", "int64")
    return d.b.quant(whole, d.view.formats[node.name]) if wide else whole


def _floor_div(d: Datapath, x: int, divisor: int) -> int:
    """floor(x / divisor) exactly: a multiplication by a rounded-up reciprocal, wide enough for the
    operand's range.

    For 0 <= x < 2**n and m = ceil(2**s / q) with s = n + bits(q), floor(x * m / 2**s) = floor(x / q); a
    negative x goes through floor(x / q) = -1 - floor((-1 - x) / q).
    """
    b = d.b
    if divisor < 0:
        return _floor_div(d, b.neg(x), -divisor)
    bits = b.value(x).width
    shift = bits + divisor.bit_length()
    reciprocal = -(-(1 << shift) // divisor)

    def quotient(a: int) -> int:
        return b.floor(b.scale_by(a, reciprocal, shift))

    if b.value(x).low >= 0:
        return quotient(x)
    negative = b.less(x, b.const(0))
    mirrored = b.sub(b.const(-1), x)
    magnitude = quotient(b.maximum(b.select(negative, mirrored, x), b.const(0)))
    return b.select(negative, b.sub(b.const(-1), magnitude), magnitude)


def _checked(d: Datapath, node: Node, args: list[int]) -> int:
    if not node.attr("wrap"):
        return args[0]
    negative = d.b.less(args[0], d.b.const(0))
    return d.b.select(negative, d.b.add(args[0], d.b.const(node.whole("size"))), args[0])


def _whole(node: Node) -> int:
    value = node.attr("value")
    assert isinstance(value, (int, float))
    return int(value)


def _floor_div_const(d: Datapath, node: Node, args: list[int]) -> int:
    return _floor_div(d, args[0], _whole(node))


def _remainder_const(d: Datapath, node: Node, args: list[int]) -> int:
    quotient = _floor_div(d, args[0], _whole(node))
    return d.b.sub(args[0], d.b.scale_by(quotient, _whole(node), 0))


def _div_const(d: Datapath, node: Node, args: list[int]) -> int:
    value = node.attr("value")
    assert isinstance(value, (int, float))
    return d.times(args[0], 1.0 / value)


def _bitwise_not(d: Datapath, node: Node, args: list[int]) -> int:
    return d.b.logic_not(args[0]) if node.dtype == "bool" else d.b.bitwise_not(args[0])


def _function(d: Datapath, node: Node, args: list[int]) -> int:
    return emit_function(d.view, d.b, node, args)


_EMIT: Mapping[str, Emit] = {
    **dict.fromkeys(FUNCTIONS, _function),
    "add": lambda d, n, a: d.b.add(a[0], a[1]),
    "sub": lambda d, n, a: d.b.sub(a[0], a[1]),
    "mul": _mul,
    "minimum": lambda d, n, a: d.b.minimum(a[0], a[1]),
    "maximum": lambda d, n, a: d.b.maximum(a[0], a[1]),
    "neg": lambda d, n, a: d.b.neg(a[0]),
    "abs": lambda d, n, a: d.b.abs(a[0]),
    "sign": _sign,
    "relu": lambda d, n, a: d.b.maximum(a[0], d.b.const(0)),
    "clamp": _clamp,
    "eq": lambda d, n, a: d.b.equal(a[0], a[1]),
    "ne": lambda d, n, a: d.b.logic_not(d.b.equal(a[0], a[1])),
    "lt": lambda d, n, a: d.b.less(a[0], a[1]),
    "le": lambda d, n, a: d.b.logic_not(d.b.less(a[1], a[0])),
    "gt": lambda d, n, a: d.b.less(a[1], a[0]),
    "ge": lambda d, n, a: d.b.logic_not(d.b.less(a[0], a[1])),
    "logical_and": lambda d, n, a: d.b.bitwise("and", a[0], a[1]),
    "logical_or": lambda d, n, a: d.b.bitwise("or", a[0], a[1]),
    "logical_xor": lambda d, n, a: d.b.bitwise("xor", a[0], a[1]),
    "logical_not": lambda d, n, a: d.b.logic_not(a[0]),
    "bitwise_and": lambda d, n, a: d.b.bitwise("and", a[0], a[1]),
    "bitwise_or": lambda d, n, a: d.b.bitwise("or", a[0], a[1]),
    "bitwise_xor": lambda d, n, a: d.b.bitwise("xor", a[0], a[1]),
    "bitwise_not": _bitwise_not,
    "where": lambda d, n, a: d.b.select(a[0], a[1], a[2]),
    "cast": _cast,
    "checked": _checked,
    "div_const": _div_const,
    "floor_div_const": _floor_div_const,
    "remainder_const": _remainder_const,
}

ELEMENTWISE = frozenset(_EMIT)
"""Operations that compute each element from the same element of their (broadcast) operands."""
