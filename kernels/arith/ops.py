"""The operations of a lane's datapath, and what they compute to the bit.

An `Expr` is a tuple of operations in evaluation order. Every operation is exact in a format wide enough for
any operand; only "quant" (round half to even, then saturate), "ramp" (a "quant" of the greater of its operand
and 0), "floor" and "wrap" narrow. The same value
serves elementwise kernels, the drain of the GEMM engine and both ends of a reduction. `emulate` defines the
meaning, `lane.py` builds the hardware, `expr_builder.py` makes expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .numerics import (
    IntArray,
    NumberFormat,
    as_exact,
    bits_for_range,
    narrow,
    shift_round,
)
from .saturation import Saturation, saturate_measured

OpName: TypeAlias = Literal[
    "in", "const", "add", "sub", "mul", "cmul", "neg", "abs", "min", "max", "lt", "eq",
    "and", "or", "xor", "not", "select", "scale", "floor", "wrap", "quant", "ramp", "rom", "clz", "shl",
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
    """One operation. args: indices of earlier operations.

    param: input number, constant, shift, index of a rom's first entry, or bits in which zeros are counted.
    fmt: of a quant or ramp. table: of a rom.
    """

    name: OpName
    args: tuple[int, ...]
    value: Value
    param: int = 0
    fmt: NumberFormat | None = None
    table: tuple[int, ...] = ()


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

    @property
    def adders(self) -> int:
        """Adders and comparators of a lane."""
        return sum(op.name in ("add", "sub", "min", "max", "quant", "ramp", "neg", "abs") for op in self.ops)

    @property
    def table_bits(self) -> int:
        """Bits stored in the tables of a lane."""
        return sum(len(op.table) * op.value.width for op in self.ops)

    def emulate(self, operands: Sequence[IntArray]) -> tuple[IntArray, Saturation]:
        """Result integers of broadcastable operand integers, and how many elements saturated on the way.

        The need of what was cut is a lower bound behind a table, whose entries end where its format ends.
        """
        results: list[IntArray] = []
        saturated = Saturation()
        for op in self.ops:
            if op.name in ("quant", "ramp"):
                assert op.fmt is not None
                source = results[op.args[0]]
                source = np.maximum(source, 0) if op.name == "ramp" else source
                shifted = shift_round(as_exact(source, self._guard_bits(op)), op.param)
                result, found = saturate_measured(shifted, op.fmt)
                if found and self._behind_table(op):
                    found = found.bounded()
                saturated += found
            else:
                result = _evaluate(op, [results[a] for a in op.args], operands)
                result = as_exact(result, op.value.width)
            results.append(result)
        return narrow(results[-1]), saturated

    def _behind_table(self, op: Op) -> bool:
        waiting, seen = list(op.args), set(op.args)
        while waiting:
            source = self.ops[waiting.pop()]
            if source.name == "rom":
                return True
            waiting += [a for a in source.args if a not in seen]
            seen.update(source.args)
        return False

    def _guard_bits(self, op: Op) -> int:
        return self.ops[op.args[0]].value.width + max(0, -op.param) + 1

    def __str__(self) -> str:
        lines = []
        for index, op in enumerate(self.ops):
            args = ", ".join(f"%{a}" for a in op.args)
            extra = f" {op.param}" if op.name in ("in", "const", "cmul", "scale", "quant", "ramp") else ""
            extra = f" [{len(op.table)} words]" if op.table else extra
            lines.append(f"%{index} = {op.name}{extra} {args} : {op.value.width} bits, frac {op.value.frac}")
        return "\n".join(lines)


def wrapped(values: IntArray, into: Value) -> IntArray:
    """The low bits of integers, read as a number of the power-of-two range `into`."""
    size = into.high - into.low + 1
    exact = np.asarray(values)
    if size > 1 << 62:
        exact = exact.astype(object)
    result: IntArray = (exact - into.low) % size + into.low
    return result


def _evaluate(op: Op, args: list[IntArray], operands: Sequence[IntArray]) -> IntArray:
    """Exact result of one operation that does not narrow."""
    bits = op.value.width
    if op.name == "in":
        return as_exact(operands[op.param], bits)
    if op.name == "const":
        return as_exact(np.asarray(op.param, dtype=object), bits)
    wide = [a if a.dtype == object else as_exact(a, bits) for a in args]
    match op.name:
        case "add":
            return wide[0] + wide[1]
        case "sub":
            return wide[0] - wide[1]
        case "mul":
            return wide[0] * wide[1]
        case "cmul":
            return _times(wide[0], op.param)
        case "scale":
            return _times(wide[0], 1 << op.param)
        case "floor":
            return as_exact(args[0] >> op.param, bits)
        case "wrap":
            return wrapped(args[0], op.value)
        case "neg":
            return -wide[0]
        case "abs":
            return np.abs(wide[0])
        case "min":
            return np.minimum(wide[0], wide[1])
        case "max":
            return np.maximum(wide[0], wide[1])
        case "lt":
            less: IntArray = (args[0] < args[1]).astype(np.int64)
            return less
        case "eq":
            equal: IntArray = (args[0] == args[1]).astype(np.int64)
            return equal
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
        case "rom":
            return as_exact(np.asarray(op.table, dtype=object), bits)[(args[0] - op.param).astype(np.intp)]
        case "clz":
            return op.param - _bit_length(args[0], op.param)
        case "shl":
            return wide[0] << wide[1]
    raise AssertionError(op.name)


def _times(values: IntArray, factor: int) -> IntArray:
    """values * factor. A product that is narrow although its factor is not has zeros alone as values."""
    exact = values if factor.bit_length() <= 63 else values.astype(object)
    result: IntArray = np.asarray(exact * factor)
    return result


def _bit_length(values: IntArray, most: int) -> IntArray:
    """Bits of numbers that are not negative and have at most `most`."""
    counts = np.zeros(np.shape(values), dtype=np.int64)
    for bit in range(most):
        counts += (values >> bit) != 0
    return counts
