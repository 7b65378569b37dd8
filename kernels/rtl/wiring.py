"""Signals and the operations on them: each makes one primitive cell, wired continuously."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arith.numerics import NumberFormat, bits_for_range, index_bits


@dataclass(frozen=True, slots=True)
class Signal:
    """A readable port: its text in Calyx and its width in bits. Arithmetic on it is made by `Component`."""

    text: str
    width: int


@dataclass(frozen=True, slots=True)
class Memory:
    """A `seq_mem_d1` cell: words of `width` bits; read data follows its address by one cycle."""

    name: str
    width: int
    words: int

    @property
    def address_bits(self) -> int:
        """Bits of the address port."""
        return index_bits(self.words)


class Wiring(ABC):
    """Ports by name and operations on signals, for a component that can make cells."""

    program: Any
    name: str
    latency: int | None
    inputs: dict[str, int]
    outputs: dict[str, int]

    def port_width(self, name: str) -> int:
        """Bits of a declared port."""
        return self.inputs[name] if name in self.inputs else self.outputs[name]

    @abstractmethod
    def cell(self, kind: str, params: Sequence[int], **inputs: Signal) -> str:
        """Instantiate a primitive with its input ports wired continuously; returns the cell's name."""

    @abstractmethod
    def connect(self, target: str, value: Signal) -> None:
        """Drive a port continuously."""

    def _op(self, kind: str, params: Sequence[int], width: int, **inputs: Signal) -> Signal:
        return Signal(f"{self.cell(kind, params, **inputs)}.out", width)

    # ---- constants and bits
    # ----------------------------------------------------------------------------------------
    def const(self, value: int, width: int) -> Signal:
        """Two's complement constant that fits `width`; wide ones are put together from 32 bits."""
        if value == 0 and width > 32:
            return self._op("std_pad", (1, width), width, in_=Signal("1'd0", 1))
        if width > 32:
            low = self.const(value & 0xFFFFFFFF, 32)
            return self.concat([low, self.const(value >> 32, width - 32)])
        return Signal(f"{width}'d{value & ((1 << width) - 1)}", width)

    def slice(self, value: Signal, low: int, width: int) -> Signal:
        """Bits low .. low + width - 1."""
        if low == 0 and width == value.width:
            return value
        if low + width > value.width:
            raise ValueError(f"bits {low}..{low + width - 1} of a {value.width}-bit signal")
        return self._op("std_bit_slice", (value.width, low, low + width - 1, width), width, in_=value)

    def concat(self, parts: Sequence[Signal]) -> Signal:
        """Parts side by side, the first one lowest; a balanced tree, so wide words stay cheap to simulate."""
        if len(parts) == 1:
            return parts[0]
        middle = len(parts) // 2
        low, high = self.concat(parts[:middle]), self.concat(parts[middle:])
        width = low.width + high.width
        return self._op("std_cat", (high.width, low.width, width), width, left=high, right=low)

    def split(self, word: Signal, lanes: int) -> list[Signal]:
        """The lanes of a word, lane 0 lowest."""
        width = word.width // lanes
        return [self.slice(word, lane * width, width) for lane in range(lanes)]

    def resize(self, value: Signal, width: int) -> Signal:
        """Sign-extended or truncated to `width` bits."""
        if width == value.width:
            return value
        if width < value.width:
            return self.slice(value, 0, width)
        return self._op("tc_resize", (value.width, width), width, in_=value)

    def pad(self, value: Signal, width: int) -> Signal:
        """Zero-extended to `width` bits."""
        if width == value.width:
            return value
        return self._op("std_pad", (value.width, width), width, in_=value)

    # ---- logic
    # -----------------------------------------------------------------------------------------------------
    def and_(self, left: Signal, right: Signal) -> Signal:
        """Bitwise and of equal widths."""
        return self._op("std_and", (left.width,), left.width, left=left, right=right)

    def or_(self, left: Signal, right: Signal) -> Signal:
        """Bitwise or of equal widths."""
        return self._op("std_or", (left.width,), left.width, left=left, right=right)

    def xor(self, left: Signal, right: Signal) -> Signal:
        """Bitwise exclusive or of equal widths."""
        return self._op("std_xor", (left.width,), left.width, left=left, right=right)

    def not_(self, value: Signal) -> Signal:
        """Bitwise complement."""
        return self._op("std_not", (value.width,), value.width, in_=value)

    def mux(self, condition: Signal, true: Signal, false: Signal) -> Signal:
        """`true` where the 1-bit condition holds, else `false`."""
        return self._op("std_mux", (true.width,), true.width, cond=condition, tru=true, fal=false)

    def equals(self, value: Signal, constant: int) -> Signal:
        """1 when an unsigned signal equals a constant."""
        right = self.const(constant, value.width)
        return self._op("std_eq", (value.width,), 1, left=value, right=right)

    def below(self, value: Signal, bound: int) -> Signal:
        """1 when an unsigned signal is below a constant that fits one more bit."""
        width = value.width + 1
        left = self.pad(value, width)
        return self._op("std_lt", (width,), 1, left=left, right=self.const(bound, width))

    def select(self, options: Sequence[Signal], index: Signal) -> Signal:
        """options[index]: a tree of multiplexers over the bits of `index` (any in-range value)."""
        level, bit = list(options), 0
        while len(level) > 1:
            choose = self.slice(index, bit, 1)
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [self.mux(choose, p[1], p[0]) if len(p) == 2 else p[0] for p in pairs]
            bit += 1
        return level[0]

    # ---- two's complement arithmetic
    # ---------------------------------------------------------------------------------
    def add(self, left: Signal, right: Signal, width: int) -> Signal:
        """left + right in `width` bits, operands sign-extended."""
        return self._op("tc_add", (left.width, right.width, width), width, left=left, right=right)

    def sub(self, left: Signal, right: Signal, width: int) -> Signal:
        """left - right in `width` bits, operands sign-extended."""
        return self._op("tc_sub", (left.width, right.width, width), width, left=left, right=right)

    def multiply(self, left: Signal, right: Signal) -> Signal:
        """Full signed product, combinational: one multiplier."""
        width = left.width + right.width
        return self._op("tc_mul", (left.width, right.width, width), width, left=left, right=right)

    def maximum(self, left: Signal, right: Signal, width: int) -> Signal:
        """Larger operand in `width` bits."""
        return self._op("tc_max", (left.width, right.width, width), width, left=left, right=right)

    def minimum(self, left: Signal, right: Signal, width: int) -> Signal:
        """Smaller operand in `width` bits."""
        return self._op("tc_min", (left.width, right.width, width), width, left=left, right=right)

    def less(self, left: Signal, right: Signal) -> Signal:
        """1 when left < right, signed."""
        return self._op("tc_lt", (left.width, right.width), 1, left=left, right=right)

    def same(self, left: Signal, right: Signal) -> Signal:
        """1 when left == right, signed."""
        return self._op("tc_eq", (left.width, right.width), 1, left=left, right=right)

    def shift_left(self, value: Signal, shift: int, width: int) -> Signal:
        """value * 2**shift in `width` bits."""
        if shift == 0:
            return self.resize(value, width)
        return self._op("tc_shl", (value.width, shift, width), width, in_=value)

    def requantise(self, value: Signal, shift: int, fmt: NumberFormat) -> Signal:
        """Signed `value` * 2**-shift, rounded half to even, saturated to `fmt` (two's complement of its
        signed width).
        """
        if shift > 0:
            keep = min(shift, value.width)  # beyond that everything rounds to 0 (half to even)
            width = value.width + 1 - keep + 1
            rounded = self._op("tc_round", (value.width, keep, width), width, in_=value)
            if shift > value.width:
                rounded = self.const(0, 1)
        else:
            rounded = self.shift_left(value, -shift, value.width - shift)
        if not fmt.signed:
            rounded = self.maximum(rounded, self.const(0, 1), rounded.width)
        width = fmt.signed_width
        if rounded.width <= width:
            return self.resize(rounded, width)
        return self._op("tc_clip", (rounded.width, width), width, in_=rounded)

    # ---- tables
    # --------------------------------------------------------------------------------------------------
    def rom(self, index: Signal, words: Sequence[int], first: int, width: int) -> Signal:
        """words[index - first] for a signed index; zero where there is no such word."""
        kind = self.program.table(words, first, width)
        bits = bits_for_range(first, first + len(words) - 1)
        return self._op(kind, (bits, width), width, in_=self.resize(index, bits))

    def leading_zeros(self, value: Signal, bits: int, width: int) -> Signal:
        """Zeros before the first one of the low `bits` bits."""
        return self._op("tc_clz", (value.width, bits, width), width, in_=value)

    def shift_by(self, value: Signal, count: Signal, width: int) -> Signal:
        """value * 2**count in `width` bits."""
        return self._op("tc_shlv", (value.width, count.width, width), width, left=value, right=count)

    # ---- registers
    # -------------------------------------------------------------------------------------------------
    def delay(self, value: Signal, cycles: int) -> Signal:
        """`value` of `cycles` cycles ago (zero after reset)."""
        if cycles == 0 or "'d" in value.text:
            return value
        return self._op("pipe", (value.width, cycles), value.width, in_=value)

    def register(self, width: int) -> Register:
        """A register with enable whose input is wired later, for feedback."""
        name = self.cell("held", (width,))
        return Register(self, name, Signal(f"{name}.out", width))

    def hold(self, value: Signal, enable: Signal) -> Signal:
        """`value` captured at the end of a cycle in which `enable` is 1."""
        return self._op("held", (value.width,), value.width, in_=value, en=enable)


class Register:
    """A feedback register: read `q`, wire `set` exactly once."""

    def __init__(self, component: Wiring, cell: str, q: Signal) -> None:
        self._component = component
        self._cell = cell
        self.q = q

    def set(self, value: Signal, enable: Signal | None = None) -> Signal:
        """Wire the next value (captured when `enable`, default always); returns `q`."""
        if value.width != self.q.width:
            raise ValueError(f"a {self.q.width}-bit register cannot take {value.width} bits")
        self._component.connect(f"{self._cell}.in", value)
        self._component.connect(f"{self._cell}.en", enable or Signal("1'd1", 1))
        return self.q


class Instance:
    """A sub-component cell: `drive` its inputs, read its outputs by `get`."""

    def __init__(self, parent: Wiring, cell: str, child: Wiring, driven: set[str]) -> None:
        self._parent = parent
        self.cell = cell
        self.child = child
        self._driven = driven

    def drive(self, **inputs: Signal) -> Instance:
        """Wire input ports continuously; ValueError for an unknown, doubly driven or mis-sized port."""
        for port, value in inputs.items():
            want = self.child.inputs.get(port)
            if want is None or port in self._driven or want != value.width:
                raise ValueError(f"{self.child.name}.{port}: {want} bits, driven with {value.width}")
            self._driven.add(port)
            self._parent.connect(f"{self.cell}.{port}", value)
        return self

    def idle(self) -> None:
        """Drive every input that is not driven yet with zero."""
        for port, width in self.child.inputs.items():
            if port not in self._driven:
                self.drive(**{port: self._parent.const(0, width)})

    def get(self, port: str) -> Signal:
        """An output port."""
        return Signal(f"{self.cell}.{port}", self.child.outputs[port])
