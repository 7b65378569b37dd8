"""Matrix product with constant weights, for few rows: K is split over the multipliers of a column.

Equation: out[..., m, n] = epilogue(sum_k left[..., m, k] * weight[n, k], extras[..., m, n]). Each cycle
takes one activation word (`depth` = lanes elements along k) and one weight word of columns * depth
elements: `columns` sums advance at once through adder trees into accumulators. Loop order: leading
dimensions, m, n tile, k word. When columns < lanes, the drain collects the tiles of an output word before
the epilogue.

| port | memory | |
|---|---|---|
| left | activations, k over the lanes | read |
| right | weights, packed by `pack` | read |
| x0, x1, ... | operands of the epilogue: bias (step 0 along m), residual | read |
| y | result, n over the lanes | write |

Cycles: M * ceil(N / columns) * ceil(K / lanes) + 1 (read) + mul_stages + tree_stages(lanes) +
latency(epilogue); the last four make 5 with 8 lanes, one multiplier stage and bias + ReLU + requantisation.
Numbers: sums are exact (accumulators as wide as K needs), narrowed by the epilogue alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arith.expr import Expr, Value
from ..arith.numerics import IntArray, NumberFormat, product
from ..contract import Cost, Emulated, KernelParameterError
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.epilogue import written
from ..ports.stage import reading_mode
from ..rtl.hw import Component, Program, digest
from ..rtl.lane import register_bits
from .contraction import accumulator, epilogue_refusal, exact_matmul, merge_leading
from .dot_control import build_controller
from .dot_parameters import DotParameters


@dataclass(frozen=True, slots=True)
class Dot(DotParameters):
    """One call of the dot array; `dot(...)` makes it with as few loops as possible.

    left: access over (..., m, k) with `contracted` dimensions of k, the last of them over the lanes (a
    convolution contracts kernel row, kernel column and channel); it may be padded. weight_fmt: format of
    the weights. features: N. columns: sums formed at once, a divisor of the lanes. epilogue: input 0 is the
    sum (range `accumulator`), the others the memories `extras`, each with an access over (..., m, n), as
    `out` has. Raises KernelParameterError with the reason of `refusal`.
    """

    def __post_init__(self) -> None:
        problem = self.refusal(
            self.left,
            self.weight_fmt,
            self.features,
            self.columns,
            self.epilogue,
            self.extras,
            self.out,
            self.contracted,
        )
        if problem:
            sizes = f"{self.left.access.sizes} -> {self.out.access.sizes}"
            raise KernelParameterError(f"dot kernel {sizes}: {problem}")

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
        contracted: int = 1,
    ) -> str | None:
        """Why no dot kernel fits (None: it does)."""
        sizes = left.access.sizes
        if contracted < 1 or len(sizes) < 1 + contracted:
            return f"the left operand needs dimensions (..., m, k), not {sizes} with {contracted} of k"
        if out.access.sizes != (*sizes[:-contracted], features):
            return f"{sizes} times {features} features does not give {out.access.sizes}"
        lanes = left.layout.lanes
        if out.layout.lanes != lanes:
            return f"left operand and output have {lanes} and {out.layout.lanes} lanes"
        if columns < 1 or lanes % columns:
            return f"{columns} columns do not divide the {lanes} lanes of a word"
        mode = reading_mode(left, len(sizes) - 1)
        if mode != "vector":
            reason = "its words do not begin at k = 0" if mode == "splat" else mode.removeprefix("no: ")
            return f"left operand: {reason}"
        total = accumulator(left.fmt, weight_fmt, product(sizes[-contracted:]))
        return epilogue_refusal(total, epilogue, extras, out)

    # ---- contract
    @property
    def family(self) -> str:
        """Name of the generator."""
        return "dot"

    def pack(self, weight: IntArray) -> IntArray:
        """The weight memory's (rows, cols) array from weights [N, k dimensions...]; ragged edges are zero.

        The zeros matter: they cancel whatever the padding lanes of the activations hold.
        """
        rows, last = self.tiles * self.columns, self.inner_sizes[-1]
        padded = np.zeros((rows, self.inner // last, self.inner_loops[-1] * self.depth), dtype=np.int64)
        padded[: self.features, :, :last] = np.asarray(weight).reshape(self.features, -1, last)
        blocks = padded.reshape(self.tiles, self.columns, self.words, self.depth).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(blocks).reshape(self.tiles * self.words, self.columns * self.depth)

    def unpack(self, packed: IntArray) -> IntArray:
        """Weights [N, K] from the memory's array: the inverse of `pack`."""
        blocks = np.asarray(packed).reshape(self.tiles, self.words, self.columns, self.depth)
        last = self.inner_sizes[-1]
        padded = blocks.transpose(0, 2, 1, 3).reshape(self.tiles * self.columns, self.inner // last, -1)
        return padded[: self.features, :, :last].reshape(self.features, self.inner)

    def engine(self) -> EngineSpec:
        """The dot array and operand widths."""
        widths = self.left.fmt.signed_width, self.weight_fmt.signed_width
        return EngineSpec(*widths, self.mul_stages, dot=self.shape)

    def cycles(self) -> int:
        """Exact latency of one call."""
        return product(self.sizes) + self.flush

    def useful_operations(self) -> int:
        """Multiply-accumulates."""
        return product(self.out.access.sizes) * self.inner

    def cost(self) -> Cost:
        """Multipliers in use; adders of trees and epilogue; accumulators and the epilogue's pipeline."""
        units = self.columns * self.depth
        return Cost(
            units,
            units + self.epilogue.adders * self.depth,
            self.depth * (self.total.width + register_bits(self.epilogue)),
        )

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; `arrays` as `ports` lists them, the weights packed."""
        left, packed, *extras = arrays
        rows = self.left.access.read(left).reshape(-1, self.inner)
        sums = exact_matmul(rows, self.unpack(packed).T).reshape(self.out.access.sizes)
        result, saturated = written(self.epilogue, sums, self.extras, extras, self.out)
        return Emulated((result,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories left, right, x0, ..., y and `ref` engine."""
        name = f"dot_{digest((self, tuple(sorted(words.items())), engine))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        build_controller(c, self, words, engine)
        return c


def dot(
    left: Operand,
    weight_fmt: NumberFormat,
    features: int,
    columns: int,
    epilogue: Expr,
    extras: tuple[Operand, ...],
    out: Operand,
    mul_stages: int = 1,
    contracted: int = 1,
) -> Dot:
    """The kernel over as few loops as possible; KernelParameterError as `Dot`."""
    problem = Dot.refusal(left, weight_fmt, features, columns, epilogue, extras, out, contracted)
    if problem is None and contracted == 1:
        left, _, extras, out = merge_leading(left, None, extras, out)
    return Dot(left, weight_fmt, features, columns, epilogue, extras, out, mul_stages, contracted)
