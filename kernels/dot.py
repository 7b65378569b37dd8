"""Matrix product with constant weights, for few rows: K is split over the multipliers of a column (linear layers).

Equation: out[..., m, n] = epilogue(sum_k left[..., m, k] * weight[n, k], extras[..., m, n]).
Each cycle takes one activation word (`depth` = lanes elements along k) and one weight word of columns * depth elements:
`columns` sums advance at once through adder trees into accumulators. Loop order: leading dimensions, m, n tile, k word.
When columns < lanes, the drain collects the tiles of an output word before the epilogue.

| port | memory | |
|---|---|---|
| left | activations, k over the lanes | read |
| right | weights, packed by `pack` | read |
| x0, x1, ... | operands of the epilogue: bias (step 0 along m), residual | read |
| y | result, n over the lanes | write |

Cycles: M * ceil(N / columns) * ceil(K / lanes) + 1 (read) + mul_stages + tree_stages(lanes) + latency(epilogue).
Numbers: sums are exact (accumulators as wide as K needs), narrowed by the epilogue alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .access import Layout, Operand, whole
from .contract import Cost, Emulated, KernelParameterError, Port
from .contraction import accumulator, epilogue_refusal, evaluate, exact_matmul, merge_leading, widened
from .engine import engine_ref
from .engine_dot import dot_latency
from .engine_spec import DotShape, EngineSpec
from .expr import Expr, Value
from .hw import Component, Instance, Memory, Program, Signal, digest
from .lane import latency
from .loops import Loop, Nest
from .numerics import IntArray, NumberFormat, ceil_div, product
from .stage import Stage, reading_mode, strides, word_loops


@dataclass(frozen=True, slots=True)
class Dot:
    """left: access over (..., m, k). weight_fmt: format of the weights. features: N. columns: sums formed at once, a
    divisor of the lanes. epilogue: input 0 is the sum (range `accumulator`), the others the memories `extras`, each
    with an access over (..., m, n), as `out` has. Raises KernelParameterError with the reason of `refusal`.
    """

    left: Operand
    weight_fmt: NumberFormat
    features: int
    columns: int
    epilogue: Expr
    extras: tuple[Operand, ...]
    out: Operand
    mul_stages: int = 1

    def __post_init__(self) -> None:
        problem = self.refusal(
            self.left, self.weight_fmt, self.features, self.columns, self.epilogue, self.extras, self.out
        )
        if problem:
            raise KernelParameterError(f"dot kernel {self.left.access.sizes} -> {self.out.access.sizes}: {problem}")

    @staticmethod
    def accumulator(left: NumberFormat, weight: NumberFormat, depth: int) -> Value:
        """Range of input 0 of the epilogue for sums over `depth` products."""
        return accumulator(left, weight, depth)

    @staticmethod
    def refusal(
        left: Operand,
        weight_fmt: NumberFormat,
        features: int,
        columns: int,
        epilogue: Expr,
        extras: tuple[Operand, ...],
        out: Operand,
    ) -> str | None:
        """Why no dot kernel fits (None: it does)."""
        sizes = left.access.sizes
        if len(sizes) < 2:
            return f"the left operand needs dimensions (..., m, k), not {sizes}"
        if out.access.sizes != (*sizes[:-1], features):
            return f"{sizes} times {features} features does not give {out.access.sizes}"
        lanes = left.layout.lanes
        if out.layout.lanes != lanes:
            return f"left operand and output have {lanes} and {out.layout.lanes} lanes"
        if columns < 1 or lanes % columns:
            return f"{columns} columns do not divide the {lanes} lanes of a word"
        mode = reading_mode(left, len(sizes) - 1)
        if mode != "vector":
            return f"left operand: {mode.removeprefix('no: ') if mode != 'splat' else 'its words do not start at k = 0'}"
        return epilogue_refusal(accumulator(left.fmt, weight_fmt, sizes[-1]), epilogue, extras, out)

    # ---- sizes -----------------------------------------------------------------------------------------------------
    @property
    def family(self) -> str:
        """Name of the generator."""
        return "dot"

    @property
    def inner(self) -> int:
        """K."""
        return self.left.access.sizes[-1]

    @property
    def depth(self) -> int:
        """Products of a column in one cycle: the lanes."""
        return self.left.layout.lanes

    @property
    def tiles(self) -> int:
        """Column groups of a row."""
        return ceil_div(self.features, self.columns)

    @property
    def words(self) -> int:
        """Activation words of a row."""
        return ceil_div(self.inner, self.depth)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Trips of the loop nest: leading dimensions, m, n tile, k word."""
        return (*self.left.access.sizes[:-1], self.tiles, self.words)

    @property
    def total(self) -> Value:
        """Range of the sums."""
        return accumulator(self.left.fmt, self.weight_fmt, self.inner)

    @property
    def shape(self) -> DotShape:
        """The dot array this kernel needs."""
        return DotShape(self.depth, self.columns, self.total.width)

    @property
    def sum_delay(self) -> int:
        """Cycles from a step to its sum in the accumulator: read, multiply, add."""
        return 1 + dot_latency(self.shape, self.mul_stages)

    @property
    def stage(self) -> Stage:
        """The writing end: one step per output word."""
        sizes = self.out.access.sizes
        dim = len(sizes) - 1
        return Stage(self.epilogue, (None, *self.extras), self.out, dim, word_loops(sizes, dim, self.depth))

    # ---- contract --------------------------------------------------------------------------------------------------
    @property
    def right(self) -> Operand:
        """The weight memory: one word per (n tile, k word)."""
        lanes = self.columns * self.depth
        layout = Layout(self.tiles * self.words, lanes, lanes)
        return Operand(self.weight_fmt, layout, whole((layout.rows, layout.cols), layout))

    def pack(self, weight: IntArray) -> IntArray:
        """The weight memory's (rows, cols) array from weights [N, K]; ragged edges are zero.

        The zeros matter: they cancel whatever the padding lanes of the activations hold.
        """
        shape = (self.tiles * self.columns, self.words * self.depth)
        padded = np.zeros(shape, dtype=np.int64)
        padded[: self.features, : self.inner] = np.asarray(weight).reshape(self.features, self.inner)
        blocks = padded.reshape(self.tiles, self.columns, self.words, self.depth).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(blocks).reshape(self.tiles * self.words, self.columns * self.depth)

    def unpack(self, packed: IntArray) -> IntArray:
        """Weights [N, K] from the memory's array: the inverse of `pack`."""
        blocks = np.asarray(packed).reshape(self.tiles, self.words, self.columns, self.depth)
        padded = blocks.transpose(0, 2, 1, 3).reshape(self.tiles * self.columns, self.words * self.depth)
        return padded[: self.features, : self.inner]

    def ports(self) -> tuple[Port, ...]:
        """left, right, x0, x1, ..., y."""
        extras = tuple(Port(f"x{i}", operand, "read") for i, operand in enumerate(self.extras))
        return (Port("left", self.left, "read"), Port("right", self.right, "read"), *extras, Port("y", self.out, "write"))

    def engine(self) -> EngineSpec:
        """The dot array and operand widths."""
        widths = self.left.fmt.signed_width, self.weight_fmt.signed_width
        return EngineSpec(*widths, self.mul_stages, dot=self.shape)

    def cycles(self) -> int:
        """Exact latency of one call."""
        return product(self.sizes) + self._flush

    @property
    def _flush(self) -> int:
        return self.sum_delay + latency(self.epilogue)

    def useful_operations(self) -> int:
        """Multiply-accumulates."""
        return product(self.out.access.sizes) * self.inner

    def cost(self) -> Cost:
        """Multipliers in use; adders of trees and epilogue; accumulators and collected tiles."""
        epilogue_adders = sum(op.name in ("add", "sub", "min", "max", "quant", "neg", "abs") for op in self.epilogue.ops)
        registers = (self.columns + self.depth - self.columns) * self.total.width
        return Cost(
            self.columns * self.depth,
            self.columns * self.depth + epilogue_adders * self.depth,
            registers + self.stage.depth * self.depth * self.out.fmt.width,
        )

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; `arrays` as `ports` lists them, the weights packed. Saturations counted over the output's domain."""
        left, packed, *extras = arrays
        rows = self.left.access.read(left).reshape(-1, self.inner)
        sums = exact_matmul(rows, self.unpack(packed).T).reshape(self.out.access.sizes)
        written, saturated = evaluate(self.epilogue, sums, self.extras, extras, self.out)
        return Emulated((written,), saturated)

    # ---- hardware --------------------------------------------------------------------------------------------------
    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories left, right, x0, ..., y and `ref` engine."""
        name = f"dot_{digest((self, tuple(sorted(words.items())), engine))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        step = c.run(product(self.sizes), self._flush)
        memories = {p.name: c.memory_ref(p.name, p.operand.width, words[p.name]) for p in self.ports()}
        unit = engine_ref(c, prog, engine)
        assert engine is not None and engine.dot is not None
        nest = Nest(c, self.sizes, step)
        self._feed(c, nest, memories, unit, engine)
        lanes, complete = self._collect(c, nest, engine.dot, unit)
        reads = {i + 1: memories[f"x{i}"] for i in range(len(self.extras))}
        self.stage.build(c, complete, {0: lanes}, reads, memories["y"])
        return c

    def _feed(
        self, c: Component, nest: Nest, memories: Mapping[str, Memory], unit: Instance, engine: EngineSpec
    ) -> None:
        """Address both operands; their words reach the engine in the cycle after the step."""
        dims = len(self.sizes) - 2
        base, steps = strides(self.left, [*(Loop(s, d) for d, s in enumerate(self.sizes[:dims])), Loop(self.words, dims, self.depth)])
        steps = [s // self.depth for s in (*steps[:-1], 0, steps[-1])]
        left = c.read(memories["left"], nest.pointer(steps, base // self.depth, memories["left"].address_bits), nest.step)
        weights = [*[0] * dims, self.words, 1]
        right = c.read(memories["right"], nest.pointer(weights, 0, memories["right"].address_bits), nest.step)
        unit.drive(
            dot_a=widened(c, self.left, left, engine.left),
            dot_b=widened(c, self.right, right, engine.right),
            dot_first=c.delay(nest.first(dims + 1), 1),
        )
        if engine.dot_switch:
            unit.drive(dot_on=c.const(1, 1))
        unit.idle()

    def _collect(self, c: Component, nest: Nest, shape: DotShape, unit: Instance) -> tuple[list[Signal], Signal]:
        """Lanes of the output word when its last tile's sums are there, and the step of the writing end."""
        dims = len(self.sizes) - 2
        tile_done, row_done = nest.carry(dims + 1), nest.carry(dims)
        sums = [c.resize(s, self.total.width) for s in c.split(unit.get("dot_sum"), shape.columns)]
        chunks = min(self.depth // self.columns, self.tiles)
        early = self.sum_delay - self.stage.lead
        if chunks == 1:
            zero = c.const(0, self.total.width)
            return [*sums, *[zero] * (self.depth - self.columns)], c.delay(tile_done, early)
        bits = max(1, (chunks - 1).bit_length())
        place = c.register(bits)
        full = c.equals(place.q, chunks - 1)
        word_done = c.and_(tile_done, full) if self.tiles % chunks == 0 else c.or_(row_done, c.and_(tile_done, full))
        place.set(c.mux(word_done, c.const(0, bits), c.slice(c.add(place.q, c.const(1, bits), bits), 0, bits)), tile_done)
        last_of_row = (self.tiles - 1) % chunks
        lanes: list[Signal] = []
        for chunk in range(chunks - 1):
            here = c.delay(c.and_(tile_done, c.equals(place.q, chunk)), self.sum_delay)
            kept = [c.hold(s, here) for s in sums]
            lanes += [c.mux(here, s, k) for s, k in zip(sums, kept, strict=True)] if chunk == last_of_row else kept
        lanes += sums
        lanes += [c.const(0, self.total.width)] * (self.depth - len(lanes))
        return lanes, c.delay(word_done, early)


def dot(
    left: Operand,
    weight_fmt: NumberFormat,
    features: int,
    columns: int,
    epilogue: Expr,
    extras: tuple[Operand, ...],
    out: Operand,
    mul_stages: int = 1,
) -> Dot:
    """The kernel over as few loops as possible; KernelParameterError as `Dot`."""
    problem = Dot.refusal(left, weight_fmt, features, columns, epilogue, extras, out)
    if problem is None:
        left, _, extras, out = merge_leading(left, None, extras, out)
    return Dot(left, weight_fmt, features, columns, epilogue, extras, out, mul_stages)
