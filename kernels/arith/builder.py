"""Builds expressions: formats of intermediates follow from their operands, fractions are aligned exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .numerics import BOOL, NumberFormat, saturate, shift_round
from .ops import Expr, Op, OpName, Value, value_of


@dataclass
class ExprBuilder:
    """Builds an `Expr`; each method returns the index of the new operation."""

    inputs: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    _places: dict[Op, int] = field(default_factory=dict)

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
        if x.high <= y.low:
            return a
        if y.high <= x.low:
            return b
        return self._add("min", (a, b), Value(x.frac, min(x.low, y.low), min(x.high, y.high)))

    def maximum(self, a: int, b: int) -> int:
        """The larger of a and b."""
        a, b, x, y = self._align(a, b)
        if x.low >= y.high:
            return a
        if y.low >= x.high:
            return b
        return self._add("max", (a, b), Value(x.frac, max(x.low, y.low), max(x.high, y.high)))

    def floor(self, a: int) -> int:
        """The greatest integer not above a (frac 0)."""
        x = self.value(a)
        if x.frac <= 0:
            return self._at(a, 0)
        return self._add("floor", (a,), Value(0, x.low >> x.frac, x.high >> x.frac), x.frac)

    def wrap(self, a: int, fmt: NumberFormat) -> int:
        """a modulo the range of an integer format, as integers of a fixed width wrap; free in hardware."""
        a = self._at(a, 0) if self.value(a).frac < 0 else a
        x = self.value(a)
        if fmt.min <= x.low and x.high <= fmt.max:
            return a
        return self._add("wrap", (self.floor(a),), Value(0, fmt.min, fmt.max), 0, fmt)

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
        a, b, x, y = self._align(a, b)
        if x.high < y.low or x.low >= y.high:
            return self.const(int(x.high < y.low))
        return self._add("lt", (a, b), value_of(BOOL))

    def equal(self, a: int, b: int) -> int:
        """1 when a == b, else 0."""
        a, b, x, y = self._align(a, b)
        if x.high < y.low or y.high < x.low:
            return self.const(0)
        return self._add("eq", (a, b), value_of(BOOL))

    def logic_not(self, a: int) -> int:
        """1 - a for a value that is 0 or 1."""
        return self.sub(self.const(1), a)

    def bitwise(self, name: Literal["and", "or", "xor"], a: int, b: int) -> int:
        """Bitwise operation on two's complement integers."""
        x, y = self.value(a), self.value(b)
        bits = max(x.width, y.width)
        if name == "and" and max(x.low, y.low) >= 0:  # it has no bits that the unsigned operand has not
            high = min(v.high for v in (x, y) if v.low >= 0)
            return self._add(name, (a, b), Value(0, 0, high))
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

    # ---- steps of an approximation ---------------------------------------------------------------------
    def shift(self, a: int, places: int) -> int:
        """a * 2**places, which only moves the binary point."""
        return self.scale_by(a, 1, -places)

    def floor_to(self, a: int, frac: int) -> int:
        """The greatest multiple of 2**-frac not above a, with `frac` fraction bits; free in hardware."""
        if self.value(a).frac <= frac:
            return self._at(a, frac)
        return self.shift(self.floor(self.shift(a, frac)), -frac)

    def rom(self, index: int, table: Sequence[int], first: int = 0, frac: int = 0) -> int:
        """table[index - first] * 2**-frac; the caller answers for the index staying inside the table."""
        low, high = min(table), max(table)
        if low == high:
            return self.const(low, frac)
        if self.ops[index].name == "const":
            return self.const(table[self.ops[index].param - first], frac)
        return self._add("rom", (index,), Value(frac, low, high), first, table=tuple(table))

    def normalise(self, a: int, bits: int, most: int | None = None) -> tuple[int, int]:
        """Leading zeros of the stored integer in `bits` bits, and the integer moved left by so many places.

        The moved integer has its first one in the highest bit, or is 0. most: zeros count up to this only, so
        smaller integers move by `most` places. ValueError unless 0 <= a < 2**bits.
        """
        x = self.value(a)
        if x.low < 0 or x.high >> bits:
            raise ValueError(f"an integer in {x.low}..{x.high} is not an unsigned number of {bits} bits")
        count = Value(0, bits - x.high.bit_length(), bits - x.low.bit_length())
        zeros = self._add("clz", (a,), count, bits)
        if most is not None:
            zeros = self.minimum(zeros, self.const(most))
        return zeros, self._add("shl", (a, zeros), Value(0, 0, (1 << bits) - 1))

    def shift_left(self, a: int, count: int) -> int:
        """a * 2**count for a count that is not negative."""
        x, n = self.value(a), self.value(count)
        if n.low < 0 or n.frac or n.high > 1 << 14:
            raise ValueError(f"a shift by {n.low}..{n.high} (frac {n.frac})")
        ends = [e << k for e in (x.low, x.high) for k in (n.low, n.high)]
        return self._add("shl", (a, count), Value(x.frac, min(ends), max(ends)))

    # ---- the result ------------------------------------------------------------------------------------
    def quant(self, a: int, fmt: NumberFormat) -> int:
        """a rounded half to even and saturated to `fmt`; nothing is added when `a` fits as it is."""
        x = self.value(a)
        if x.frac == fmt.frac and fmt.min <= x.low and x.high <= fmt.max:
            return a
        shift = x.frac - fmt.frac
        low, high = (
            int(saturate(shift_round(np.array([e], dtype=object), shift), fmt)[0][0]) for e in (x.low, x.high)
        )
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
            Op(o.name, tuple(place[a] for a in o.args), o.value, o.param, o.fmt, o.table)
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
        self,
        name: OpName,
        args: tuple[int, ...],
        value: Value,
        param: int = 0,
        fmt: NumberFormat | None = None,
        table: tuple[int, ...] = (),
    ) -> int:
        op = Op(name, args, value, param, fmt, table)
        if op not in self._places:  # common subexpressions are computed once
            self._places[op] = len(self.ops)
            self.ops.append(op)
        return self._places[op]


def narrowing(source: Value | NumberFormat, out: NumberFormat) -> Expr:
    """The expression that only narrows its single operand to `out`."""
    builder = ExprBuilder()
    return builder.build(builder.input(source), out)
