"""Straight-line fixed-point expressions: the datapath of one lane, and what it computes to the bit.

An `Expr` is a tuple of operations in evaluation order. Every operation is exact in a format wide enough for any operand;
only "quant" narrows (round half to even, then saturate). The same value serves elementwise kernels, the drain of the GEMM
engine and both ends of a reduction. `emulate` defines the meaning, `lane.py` builds the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from .numerics import (
    BOOL,
    IntArray,
    NumberFormat,
    as_exact,
    bits_for_range,
    narrow,
    saturate,
    shift_round,
)

OpName: TypeAlias = Literal[
    "in", "const", "add", "sub", "mul", "cmul", "neg", "abs", "min", "max", "lt", "eq",
    "and", "or", "xor", "not", "select", "scale", "floor", "quant",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """Format of an intermediate: two's complement integer in `low`..`high`, worth integer * 2**-frac."""

    frac: int
    low: int
    high: int

    @property
    def width(self) -> int:
        """Bits of the two's complement signal."""
        return bits_for_range(self.low, self.high)


def value_of(fmt: NumberFormat) -> Value:
    """The value range of a stored format."""
    return Value(fmt.frac, fmt.min, fmt.max)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. args: indices of earlier operations. param: input number, constant or shift. fmt: of a quant."""

    name: OpName
    args: tuple[int, ...]
    value: Value
    param: int = 0
    fmt: NumberFormat | None = None


@dataclass(frozen=True, slots=True)
class Expr:
    """inputs: formats of the operands. ops: operations; the last one is the result, of format `out`."""

    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    out: NumberFormat

    @property
    def multiplications(self) -> int:
        """Multipliers a lane needs."""
        return sum(op.name == "mul" for op in self.ops)

    def emulate(self, operands: Sequence[IntArray]) -> tuple[IntArray, int]:
        """Result integers of broadcastable operand integers, and how many elements saturated on the way."""
        results: list[IntArray] = []
        saturated = 0
        for op in self.ops:
            if op.name == "quant":
                assert op.fmt is not None
                source = results[op.args[0]]
                shifted = shift_round(as_exact(source, self._guard_bits(op)), op.param)
                result, count = saturate(shifted, op.fmt)
                saturated += count
            else:
                result = _evaluate(op, [results[a] for a in op.args], operands)
            results.append(result)
        return narrow(results[-1]), saturated

    def _guard_bits(self, op: Op) -> int:
        return self.ops[op.args[0]].value.width + max(0, -op.param) + 1

    def __str__(self) -> str:
        lines = []
        for index, op in enumerate(self.ops):
            args = ", ".join(f"%{a}" for a in op.args)
            extra = f" {op.param}" if op.name in ("in", "const", "cmul", "scale", "quant") else ""
            lines.append(f"%{index} = {op.name}{extra} {args} : {op.value.width} bits, frac {op.value.frac}")
        return "\n".join(lines)


def _evaluate(op: Op, args: list[IntArray], operands: Sequence[IntArray]) -> IntArray:
    """Exact result of one operation that does not narrow."""
    bits = op.value.width
    if op.name == "in":
        return as_exact(operands[op.param], bits)
    if op.name == "const":
        return as_exact(np.asarray(op.param, dtype=object), bits)
    wide = [as_exact(a, max(bits, 8)) for a in args]
    match op.name:
        case "add":
            return wide[0] + wide[1]
        case "sub":
            return wide[0] - wide[1]
        case "mul":
            return wide[0] * wide[1]
        case "cmul":
            return wide[0] * op.param
        case "scale":
            return wide[0] * (1 << op.param)
        case "floor":
            return as_exact(args[0] >> op.param, bits)
        case "neg":
            return -wide[0]
        case "abs":
            return np.abs(wide[0])
        case "min":
            return np.minimum(wide[0], wide[1])
        case "max":
            return np.maximum(wide[0], wide[1])
        case "lt":
            return (args[0] < args[1]).astype(np.int64)
        case "eq":
            return (args[0] == args[1]).astype(np.int64)
        case "and":
            return wide[0] & wide[1]
        case "or":
            return wide[0] | wide[1]
        case "xor":
            return wide[0] ^ wide[1]
        case "not":
            return ~wide[0]
        case "select":
            return np.where(args[0] != 0, wide[1], wide[2])
    raise AssertionError(op.name)


@dataclass
class ExprBuilder:
    """Builds an `Expr`; each method returns the index of the new operation. Fractions are aligned exactly."""

    inputs: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    def input(self, value: Value | NumberFormat) -> int:
        """A new operand."""
        value = value_of(value) if isinstance(value, NumberFormat) else value
        self.inputs.append(value)
        return self._add("in", (), value, len(self.inputs) - 1)

    def const(self, integer: int, frac: int = 0) -> int:
        """The constant integer * 2**-frac."""
        return self._add("const", (), Value(frac, integer, integer), integer)

    def add(self, a: int, b: int) -> int:
        """a + b."""
        a, b, x, y = self._align(a, b)
        return self._add("add", (a, b), Value(x.frac, x.low + y.low, x.high + y.high))

    def sub(self, a: int, b: int) -> int:
        """a - b."""
        a, b, x, y = self._align(a, b)
        return self._add("sub", (a, b), Value(x.frac, x.low - y.high, x.high - y.low))

    def mul(self, a: int, b: int) -> int:
        """a * b; a constant operand costs adders, not a multiplier."""
        for const, other in ((a, b), (b, a)):
            if self.ops[const].name == "const":
                return self.scale_by(other, self.ops[const].param, self.ops[const].value.frac)
        x, y = self.value(a), self.value(b)
        corners = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
        return self._add("mul", (a, b), Value(x.frac + y.frac, min(corners), max(corners)))

    def scale_by(self, a: int, integer: int, frac: int) -> int:
        """a * integer * 2**-frac, exactly (shifts and adds)."""
        x = self.value(a)
        if integer == 0:
            return self.const(0, x.frac + frac)
        while integer % 2 == 0:
            integer, frac = integer // 2, frac - 1
        ends = sorted((x.low * integer, x.high * integer))
        result = Value(x.frac + frac, ends[0], ends[1])
        if integer == 1:
            return self._add("scale", (a,), result, 0)
        return self._add("cmul", (a,), result, integer)

    def neg(self, a: int) -> int:
        """-a."""
        x = self.value(a)
        return self._add("neg", (a,), Value(x.frac, -x.high, -x.low))

    def abs(self, a: int) -> int:
        """|a|."""
        x = self.value(a)
        low = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
        return self._add("abs", (a,), Value(x.frac, low, max(abs(x.low), abs(x.high))))

    def minimum(self, a: int, b: int) -> int:
        """The smaller of a and b."""
        a, b, x, y = self._align(a, b)
        return self._add("min", (a, b), Value(x.frac, min(x.low, y.low), min(x.high, y.high)))

    def maximum(self, a: int, b: int) -> int:
        """The larger of a and b."""
        a, b, x, y = self._align(a, b)
        return self._add("max", (a, b), Value(x.frac, max(x.low, y.low), max(x.high, y.high)))

    def floor(self, a: int) -> int:
        """The greatest integer not above a (frac 0)."""
        x = self.value(a)
        if x.frac <= 0:
            return self._at(a, 0)
        return self._add("floor", (a,), Value(0, x.low >> x.frac, x.high >> x.frac), x.frac)

    def truncate(self, a: int) -> int:
        """a rounded towards zero (frac 0)."""
        x = self.value(a)
        if x.frac <= 0 or x.low >= 0:
            return self.floor(a)
        almost_one = self.const((1 << x.frac) - 1, x.frac)
        raised = self.select(self.less(a, self.const(0)), self.add(a, almost_one), a)
        return self.floor(raised)

    def less(self, a: int, b: int) -> int:
        """1 when a < b, else 0."""
        a, b, _, _ = self._align(a, b)
        return self._add("lt", (a, b), value_of(BOOL))

    def equal(self, a: int, b: int) -> int:
        """1 when a == b, else 0."""
        a, b, _, _ = self._align(a, b)
        return self._add("eq", (a, b), value_of(BOOL))

    def logic_not(self, a: int) -> int:
        """1 - a for a value that is 0 or 1."""
        return self.sub(self.const(1), a)

    def bitwise(self, name: Literal["and", "or", "xor"], a: int, b: int) -> int:
        """Bitwise operation on two's complement integers."""
        x, y = self.value(a), self.value(b)
        bits = max(x.width, y.width)
        low = 0 if x.low >= 0 and y.low >= 0 else -(1 << (bits - 1))
        return self._add(name, (a, b), Value(0, low, (1 << (bits - 1)) - 1))

    def bitwise_not(self, a: int) -> int:
        """~a of a two's complement integer."""
        x = self.value(a)
        return self._add("not", (a,), Value(0, ~x.high, ~x.low))

    def select(self, condition: int, a: int, b: int) -> int:
        """a where the condition (0 or 1) holds, else b."""
        a, b, x, y = self._align(a, b)
        bounds = Value(x.frac, min(x.low, y.low), max(x.high, y.high))
        return self._add("select", (condition, a, b), bounds)

    def quant(self, a: int, fmt: NumberFormat) -> int:
        """a rounded half to even and saturated to `fmt`; nothing is added when `a` fits as it is."""
        x = self.value(a)
        if x.frac == fmt.frac and fmt.min <= x.low and x.high <= fmt.max:
            return a
        shift = x.frac - fmt.frac
        low, high = (int(saturate(shift_round(np.array([e], dtype=object), shift), fmt)[0][0]) for e in (x.low, x.high))
        return self._add("quant", (a,), Value(fmt.frac, low, high), shift, fmt)

    def build(self, result: int, out: NumberFormat) -> Expr:
        """The finished expression with its result narrowed to `out`; unreachable operations are dropped."""
        result = self.quant(result, out)
        needed = {result}
        for index in range(len(self.ops) - 1, -1, -1):
            if index in needed:
                needed.update(self.ops[index].args)
        kept = [i for i in range(len(self.ops)) if i in needed and i != result] + [result]
        place = {old: new for new, old in enumerate(kept)}
        ops = tuple(
            Op(o.name, tuple(place[a] for a in o.args), o.value, o.param, o.fmt)
            for o in (self.ops[i] for i in kept)
        )
        return Expr(tuple(self.inputs), ops, out)

    def value(self, index: int) -> Value:
        """Format of an operation's result."""
        return self.ops[index].value

    def _align(self, a: int, b: int) -> tuple[int, int, Value, Value]:
        """Both operands at the finer fraction (left shifts are exact)."""
        frac = max(self.value(a).frac, self.value(b).frac)
        a, b = self._at(a, frac), self._at(b, frac)
        return a, b, self.value(a), self.value(b)

    def _at(self, a: int, frac: int) -> int:
        x = self.value(a)
        shift = frac - x.frac
        if shift == 0:
            return a
        if self.ops[a].name == "const":
            return self.const(self.ops[a].param << shift, frac)
        return self._add("scale", (a,), Value(frac, x.low << shift, x.high << shift), shift)

    def _add(
        self, name: OpName, args: tuple[int, ...], value: Value, param: int = 0, fmt: NumberFormat | None = None
    ) -> int:
        op = Op(name, args, value, param, fmt)
        if op in self.ops:  # common subexpressions are computed once
            return self.ops.index(op)
        self.ops.append(op)
        return len(self.ops) - 1


def narrowing(source: Value | NumberFormat, out: NumberFormat) -> Expr:
    """The expression that only narrows its single operand to `out`."""
    builder = ExprBuilder()
    return builder.build(builder.input(source), out)
