"""The hardware of an `Expr`: one lane as a pipelined component, initiation interval 1.

Operands enter in cycle 0, the result leaves `latency` cycles later. Registers stand where a stage would grow
longer than `STAGE` gate delays (a carry chain counts 2). A "mul" leaves through ports `a<j>`, `b<j>` and its
product comes back on `p<j>` `mul_stages` cycles later, because multipliers are shared between kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from ..arith.expr import Expr, Op
from ..arith.numerics import NumberFormat
from .hw import Component, Program, Signal, digest

STAGE = 6
"""Delay units of one pipeline stage: bias addition, ReLU and requantisation just fit."""

_UNITS = {
    "in": 0, "const": 0, "scale": 0, "floor": 0, "wrap": 0,
    "and": 1, "or": 1, "xor": 1, "not": 1, "select": 1,
    "quant": 3, "ramp": 3, "clz": 3, "shl": 3,
}  # fmt: skip
_CARRY = 2
_SHORT_SHIFT = 3  # places that one level of multiplexers of four can shift by
_ADDRESS_OF_A_GATE = 6  # address bits of a table that is one level of logic


def signed_digits(integer: int) -> tuple[tuple[int, int], ...]:
    """Canonical signed digits of a constant: (shift, +1 or -1) pairs, no two neighbouring shifts."""
    digits, shift, rest = [], 0, integer
    while rest:
        if rest & 1:
            digit = 2 - (rest & 3)
            digits.append((shift, digit))
            rest -= digit
        rest >>= 1
        shift += 1
    return tuple(digits)


Make: TypeAlias = Callable[[Component, list[Signal]], Signal]
"""How an operation's cells are made in a component from its argument signals."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A result: its signal (None while only scheduling), the stage it appears in, the delay units used
    there.
    """

    signal: Signal | None
    stage: int
    units: int


class _Pipeline:
    """Places operations in stages; with a component it also makes the cells."""

    def __init__(self, component: Component | None) -> None:
        self.component = component
        self._delayed: dict[tuple[str, int], Signal] = {}

    def place(self, args: list[_Placed], units: int, make: Make) -> _Placed:
        """Schedule one operation after its arguments, in a new stage when the delay would not fit."""
        stage = max((a.stage for a in args), default=0)
        used = max((a.units for a in args if a.stage == stage), default=0)
        if used + units > STAGE:
            stage, used = stage + 1, 0
        if self.component is None:
            return _Placed(None, stage, used + units)
        return _Placed(make(self.component, [self.at(a, stage) for a in args]), stage, used + units)

    def at(self, value: _Placed, stage: int) -> Signal:
        """The signal of `value` in a later stage."""
        assert self.component is not None and value.signal is not None
        cycles = stage - value.stage
        key = (value.signal.text, cycles)
        if key not in self._delayed:
            self._delayed[key] = self.component.delay(value.signal, cycles)
        return self._delayed[key]


def _shifted(shift: int, width: int) -> Make:
    return lambda c, s: c.shift_left(s[0], shift, min(width, s[0].width + shift))


def _sum(same_sign: bool, width: int) -> Make:
    return lambda c, s: c.add(s[0], s[1], width) if same_sign else c.sub(s[0], s[1], width)


def _multiply_by_digits(pipe: _Pipeline, source: _Placed, op: Op) -> _Placed:
    """Constant product as a balanced tree of shifted additions and subtractions."""
    width = op.value.width
    terms = [(pipe.place([source], 0, _shifted(k, width)), sign) for k, sign in signed_digits(op.param)]
    while len(terms) > 1:
        paired: list[tuple[_Placed, int]] = []
        for left, right in zip(terms[::2], terms[1::2], strict=False):
            (x, sx), (y, sy) = (left, right) if left[1] > 0 or right[1] < 0 else (right, left)
            paired.append((pipe.place([x, y], _CARRY, _sum(sx == sy, width)), sx))
        terms = paired + ([terms[-1]] if len(terms) % 2 else [])
    result, sign = terms[0]
    if sign > 0:
        return pipe.place([result], 0, lambda c, s: c.resize(s[0], width))
    return pipe.place([result], _CARRY, lambda c, s: c.sub(c.const(0, 1), s[0], width))


def _absolute(c: Component, value: Signal, width: int) -> Signal:
    wide = value.width + 1
    return c.resize(c.maximum(value, c.sub(c.const(0, 1), value, wide), wide), width)


def _floor(c: Component, value: Signal, shift: int, width: int) -> Signal:
    if shift >= value.width:
        return c.resize(c.slice(value, value.width - 1, 1), width)  # only the sign is left
    return c.resize(c.slice(value, shift, value.width - shift), width)


def _wrap(c: Component, value: Signal, op: Op) -> Signal:
    assert op.fmt is not None
    low = c.resize(value, op.fmt.width)
    return low if op.fmt.signed else c.pad(low, op.value.width)


def _operation(op: Op) -> Make:
    """How the cells of an ordinary operation are made."""
    width = op.value.width
    fmt = op.fmt
    if op.name == "quant":
        assert fmt is not None
        return lambda c, s: c.resize(c.requantise(s[0], op.param, fmt), width)
    if op.name == "ramp":
        assert fmt is not None
        above = NumberFormat(fmt.kind, fmt.max.bit_length(), fmt.frac, signed=False)
        return lambda c, s: c.resize(c.requantise(s[0], op.param, above), width)
    table: dict[str, Make] = {
        "const": lambda c, s: c.const(op.param, width),
        "scale": lambda c, s: c.shift_left(s[0], op.param, width),
        "floor": lambda c, s: _floor(c, s[0], op.param, width),
        "wrap": lambda c, s: _wrap(c, s[0], op),
        "add": _sum(True, width),
        "sub": _sum(False, width),
        "neg": lambda c, s: c.sub(c.const(0, 1), s[0], width),
        "abs": lambda c, s: _absolute(c, s[0], width),
        "min": lambda c, s: c.minimum(s[0], s[1], width),
        "max": lambda c, s: c.maximum(s[0], s[1], width),
        "lt": lambda c, s: c.pad(c.less(s[0], s[1]), width),
        "eq": lambda c, s: c.pad(c.same(s[0], s[1]), width),
        "and": lambda c, s: c.and_(c.resize(s[0], width), c.resize(s[1], width)),
        "or": lambda c, s: c.or_(c.resize(s[0], width), c.resize(s[1], width)),
        "xor": lambda c, s: c.xor(c.resize(s[0], width), c.resize(s[1], width)),
        "not": lambda c, s: c.not_(c.resize(s[0], width)),
        "rom": lambda c, s: c.rom(s[0], op.table, op.param, width),
        "clz": lambda c, s: c.leading_zeros(s[0], op.param, width),
        "shl": lambda c, s: c.shift_by(s[0], s[1], width),
        "select": lambda c, s: c.mux(c.slice(s[0], 0, 1), c.resize(s[1], width), c.resize(s[2], width)),
    }
    return table[op.name]


def _units(expr: Expr, op: Op) -> int:
    if op.name in ("min", "max") and any(expr.ops[a].name == "const" for a in op.args):
        return 1  # ReLU and clamp: a comparison with a constant is short
    if op.name == "shl" and expr.ops[op.args[1]].value.high <= _SHORT_SHIFT:
        return 1
    if op.name == "rom":
        return min(STAGE, 1 + max(0, (len(op.table) - 1).bit_length() - _ADDRESS_OF_A_GATE))
    return _UNITS.get(op.name, _CARRY)


def _schedule(expr: Expr, mul_stages: int, c: Component | None) -> tuple[int, Signal | None]:
    """Walk the operations once: with a component build them, without only count stages."""
    pipe = _Pipeline(c)
    placed: list[_Placed] = []
    products = 0
    for op in expr.ops:
        args = [placed[a] for a in op.args]
        if op.name == "in":
            port = Signal(f"i{op.param}", op.value.width) if c else None
            placed.append(_Placed(port, 0, 0))
        elif op.name == "mul":
            stage = max(a.stage for a in args)
            if any(a.stage == stage and a.units > 0 for a in args):
                stage += 1  # the multiplier's inputs come straight from registers
            if c:
                for name, arg in zip("ab", args, strict=True):
                    c.output(f"{name}{products}", pipe.at(arg, stage))
            signal = Signal(f"p{products}", op.value.width) if c else None
            product = _Placed(signal, stage + mul_stages, 0)
            placed.append(product)
            products += 1
        elif op.name == "cmul":
            placed.append(_multiply_by_digits(pipe, args[0], op))
        else:
            placed.append(pipe.place(args, _units(expr, op), _operation(op)))
    last = placed[-1]
    latency = last.stage + (1 if last.units else 0)
    return latency, pipe.at(last, latency) if c else None


@lru_cache(maxsize=4096)
def latency(expr: Expr, mul_stages: int = 1) -> int:
    """Pipeline registers between the operands and the result."""
    return _schedule(expr, mul_stages, None)[0]


@lru_cache(maxsize=4096)
def register_bits(expr: Expr, mul_stages: int = 1) -> int:
    """Bits of the pipeline registers of one lane, each as wide as the intermediate it holds."""
    return lane_component(Program(), expr, mul_stages).delay_bits


def operand_widths(expr: Expr) -> tuple[tuple[int, int], ...]:
    """Widths of both operands of each multiplication, in order."""
    return tuple(
        (expr.ops[op.args[0]].value.width, expr.ops[op.args[1]].value.width)
        for op in expr.ops
        if op.name == "mul"
    )


def lane_component(prog: Program, expr: Expr, mul_stages: int = 1) -> Component:
    """The component of one lane; equal expressions share it.

    Ports: `i<n>` operands (two's complement), `y` result (low `out.width` bits), `a<j>`, `b<j>`, `p<j>` of
    multiplication j.
    """
    name = f"lane_{digest((expr, mul_stages))}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    for number, value in enumerate(expr.inputs):
        c.input(f"i{number}", value.width)
    for j, op in enumerate(o for o in expr.ops if o.name == "mul"):
        c.input(f"p{j}", op.value.width)
    _, result = _schedule(expr, mul_stages, c)
    assert result is not None
    c.output("y", c.resize(result, expr.out.width))
    return c
