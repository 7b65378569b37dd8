"""Hand-made selections for tests: models as calls of elementwise kernels, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from torchcalyx.ir.graph import Source
from torchcalyx.kernels.arith.expr import ExprBuilder, narrowing
from torchcalyx.kernels.arith.numerics import IntArray, NumberFormat, fixed, product
from torchcalyx.kernels.contract import KernelSpec, writes
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.moves.gather import GatherSource, gather
from torchcalyx.kernels.ports.access import Access, Layout, Operand, row_major, whole
from torchcalyx.kernels.products.dot import Dot, dot
from torchcalyx.selection import Buffer, Call, InputBinding, OutputBinding, Selection

F16 = fixed(16, 8)
LANES = 4

Operation = Callable[[ExprBuilder, list[int]], int]

OPERATIONS: Mapping[str, tuple[int, Operation]] = {
    "relu": (1, lambda b, x: b.maximum(x[0], b.const(0))),
    "double": (1, lambda b, x: b.scale_by(x[0], 2, 0)),
    "triple": (1, lambda b, x: b.scale_by(x[0], 3, 0)),
    "square": (1, lambda b, x: b.mul(x[0], x[0])),
    "add": (2, lambda b, x: b.add(x[0], x[1])),
    "sub": (2, lambda b, x: b.sub(x[0], x[1])),
    "mul": (2, lambda b, x: b.mul(x[0], x[1])),
}
"""Operands and meaning of each operation by name; "square" and "mul" use the multiplier engine."""


@dataclass(frozen=True)
class Value:
    """A tensor: its buffer and the map onto it."""

    buffer: str
    operand: Operand

    @property
    def shape(self) -> tuple[int, ...]:
        return self.operand.access.sizes

    def at(self, access: Access) -> Value:
        """The same buffer through another map."""
        return Value(self.buffer, Operand(self.operand.fmt, self.operand.layout, access))


@dataclass
class Sketch:
    """A selection under construction."""

    lanes: int = LANES
    buffers: list[Buffer] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    inputs: list[InputBinding] = field(default_factory=list)
    outputs: list[OutputBinding] = field(default_factory=list)
    weights: dict[str, IntArray] = field(default_factory=dict)
    constants: dict[str, IntArray] = field(default_factory=dict)

    def input(self, name: str, shape: Sequence[int], fmt: NumberFormat = F16) -> Value:
        """An input tensor of the program."""
        value = self.buffer(name, shape, fmt, "input")
        self.inputs.append(InputBinding(name, name, tuple(shape), "float32", fmt))
        return value

    def weight(self, name: str, values: IntArray, fmt: NumberFormat = F16) -> Value:
        """A parameter with its stored integers."""
        value = self.buffer(name, np.shape(values), fmt, "weight")
        layout = value.operand.layout
        self.weights[name] = np.asarray(values, dtype=np.int64).reshape(layout.rows, layout.cols)
        return value

    def temp(self, name: str, shape: Sequence[int], fmt: NumberFormat = F16) -> Value:
        """A buffer for calls to write."""
        return self.buffer(name, shape, fmt, "temp")

    def buffer(
        self, name: str, shape: Sequence[int], fmt: NumberFormat, role: Literal["input", "weight", "temp"]
    ) -> Value:
        layout: Layout = row_major(shape, self.lanes)
        self.buffers.append(Buffer(name, fmt, layout, role))
        return Value(name, Operand(fmt, layout, whole(tuple(shape), layout)))

    def call(self, operation: str, name: str, *operands: Value, out: Value | None = None) -> Value:
        """Result of an operation, in a new buffer `name` or in `out`; operands are broadcast."""
        shape = np.broadcast_shapes(*(o.shape for o in operands))
        result = self.temp(name, shape) if out is None else out
        arity, meaning = OPERATIONS[operation]
        assert len(operands) == arity
        builder = ExprBuilder()
        inputs = [builder.input(o.operand.fmt) for o in operands]
        expr = builder.build(meaning(builder, inputs), result.operand.fmt)
        domain = [Operand(o.operand.fmt, o.operand.layout, o.operand.access.expand(shape)) for o in operands]
        spec = elementwise(expr, domain, result.operand)
        source = Source(f"aten.{operation}", "model.py", len(self.calls) + 1, name)
        reads = tuple(o.buffer for o in operands)
        self.calls.append(Call(name, spec, reads, (result.buffer,), operation, (name,), name, source))
        return result

    def run(self, name: str, spec: KernelSpec, reads: Sequence[str]) -> Value:
        """A call of any kernel with one written port, into a new buffer `name`."""
        (port,) = writes(spec)
        self.buffers.append(Buffer(name, port.operand.fmt, port.operand.layout, "temp"))
        source = Source(f"aten.{spec.family}", "model.py", len(self.calls) + 1, name)
        self.calls.append(Call(name, spec, tuple(reads), (name,), spec.family, (name,), name, source))
        return Value(name, port.operand)

    def output(self, value: Value) -> None:
        """Return a value."""
        operand = value.operand
        binding = OutputBinding(
            value.buffer, value.buffer, operand.access, value.shape, "float32", operand.fmt
        )
        self.outputs.append(binding)

    def constant(self, name: str, values: IntArray) -> None:
        """Return a constant."""
        self.constants[name] = values
        self.outputs.append(OutputBinding(name, None, None, np.shape(values), "int64", F16))

    def build(self, *outputs: Value) -> Selection:
        """The finished selection, which returns `outputs` last."""
        for value in outputs:
            self.output(value)
        return Selection(
            tuple(self.buffers),
            tuple(self.calls),
            tuple(self.inputs),
            tuple(self.outputs),
            (),
            (),
            self.weights,
            self.constants,
        )


def ramp(*shape: int) -> IntArray:
    """Small integers of both signs in a fixed pattern."""
    return (np.arange(product(shape), dtype=np.int64) * 37 % 201 - 100).reshape(shape)


def chain(length: int = 4, shape: tuple[int, ...] = (3, 5)) -> Selection:
    """One operation after the other: only two buffers live at a time."""
    s = Sketch()
    value = s.input("x", shape)
    for number in range(length):
        value = s.call(("double", "relu", "square")[number % 3], f"step{number}", value)
    return s.build(value)


def branches() -> Selection:
    """Two inputs, two chains that do not touch each other, one sum."""
    s = Sketch()
    a, b = s.input("a", (4, 6)), s.input("b", (4, 6))
    for number in range(3):
        a = s.call("double", f"a{number}", a)
        b = s.call(("relu", "triple", "square")[number], f"b{number}", b)
    return s.build(s.call("add", "sum", a, b))


def multiplications() -> Selection:
    """Two independent chains that both multiply, so that they must take turns, and a parameter."""
    s = Sketch()
    a, b = s.input("a", (2, 7)), s.input("b", (2, 7))
    w = s.weight("scale", ramp(7))
    left = s.call("mul", "left", a, w)
    right = s.call("square", "right", b)
    return s.build(s.call("relu", "first", left), s.call("double", "second", right))


def concatenation() -> Selection:
    """Two calls fill one buffer half by half; another reads all of it."""
    s = Sketch()
    a, b = s.input("a", (2, 8)), s.input("b", (3, 8))
    joined = s.temp("joined", (5, 8))
    access = joined.operand.access
    s.call("double", "top", a, out=joined.at(access.slice((0, 0), (1, 1), (2, 8))))
    s.call("relu", "bottom", b, out=joined.at(access.slice((2, 0), (1, 1), (3, 8))))
    return s.build(s.call("triple", "all", joined), joined)


def passthrough() -> Selection:
    """No calls: results are an input, a view of it, a parameter and a constant; one input is not used."""
    s = Sketch()
    x = s.input("x", (3, 5))
    s.input("unused", (2,))
    w = s.weight("w", ramp(4))
    turned = x.at(x.operand.access.permute((1, 0)))
    s.constant("c", ramp(2, 2))
    return s.build(x, turned, w)


def nothing() -> Selection:
    """Neither inputs nor calls nor results."""
    return Sketch().build()


def two_results() -> Selection:
    """An intermediate value is a result too, and an input is returned beside them."""
    s = Sketch()
    x = s.input("x", (6,))
    first = s.call("double", "first", x)
    second = s.call("square", "second", first)
    return s.build(second, first, x)


def linear_and_relayout() -> Selection:
    """A matrix product and, independent of it, a transposition; both results are squared."""
    s = Sketch()
    x, q = s.input("x", (3, 11)), s.input("q", (8, 8))
    s.weight("bias", ramp(9))
    builder = ExprBuilder()
    total = builder.input(Dot.accumulator(F16, F16, 11))
    expr = builder.build(builder.add(total, builder.input(F16)), F16)
    bias, result = row_major((9,), LANES), row_major((3, 9), LANES)
    product_of = dot(
        x.operand, F16, 9, 2, expr,
        (Operand(F16, bias, whole((9,), bias).expand((3, 9))),), Operand(F16, result, whole((3, 9), result)),
    )  # fmt: skip
    packed = product_of.ports()[1].operand.layout
    s.buffers.append(Buffer("packed", F16, packed, "weight"))
    s.weights["packed"] = product_of.pack(ramp(9, 11))
    linear = s.run("linear", product_of, ["x", "packed", "bias"])
    access = q.operand.access.permute((1, 0))
    source = GatherSource(q.at(access).operand, (0, 0), narrowing(F16, F16))
    layout = row_major((8, 8), LANES)
    turned = s.run("turned", gather((source,), Operand(F16, layout, whole((8, 8), layout))), ["q"])
    return s.build(s.call("square", "a", linear), s.call("square", "b", turned))


SELECTIONS: Mapping[str, Callable[[], Selection]] = {
    "chain": chain,
    "branches": branches,
    "multiplications": multiplications,
    "concatenation": concatenation,
    "passthrough": passthrough,
    "nothing": nothing,
    "two_results": two_results,
    "linear_and_relayout": linear_and_relayout,
}


def random_inputs(selection: Selection, seed: int = 0) -> list[IntArray]:
    """Stored integers over the whole range of each input's format."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(b.fmt.min, b.fmt.max, size=b.shape, endpoint=True, dtype=np.int64)
        for b in selection.inputs
    ]
