"""Convolution with few input channels: the window slides through registers, the dot array gets full words.

Equation: out[..., o, n] = epilogue(sum_k left[..., o, k] * weight[n, k], extras[..., o, n]) as for `Dot`,
where the dimensions of k are taps and, last, channels. An output shares most of its window with its neighbour
along o, so the window stays in registers, moves on by the stride and takes only the new words, which are read
while the dot array works on the window before. Its K elements are cut into ceil(K / lanes) words whatever the
number of channels. Padding and dilation are part of the left access. A word of memory may hold the channels
of one pixel, or neighbouring pixels along the sliding dimension (then channels are lines of their own).

| port | memory | |
|---|---|---|
| left | activations | read |
| right | weights, packed by `pack` | read |
| x0, x1, ... | operands of the epilogue: bias (step 0 along o), residual | read |
| y | result, n over the lanes | write |

Cycles: R * O * P + (R - 1) * stall + words of the first window + 3 + mul_stages + tree_stages(lanes) +
latency(epilogue), for R rows of O outputs. P is the larger of ceil(N / columns) * ceil(K / lanes) and the
words that one output needs anew; the stall is 0 unless a row is too short or too busy to read the start of
the next one.
Numbers: sums are exact, narrowed by the epilogue alone.
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
from ..rtl.hw import Component, Program, digest
from ..rtl.lane import register_bits
from .contraction import accumulator, epilogue_refusal, exact_matmul
from .window_access import window_of
from .window_control import build_controller
from .window_parameters import WindowParameters
from .window_plan import packed_weights, unpacked_weights


@dataclass(frozen=True, slots=True)
class WindowDot(WindowParameters):
    """One convolution on the dot array.

    left: access over (rows..., o, taps..., channel), `contracted` dimensions from the first tap on; o slides
    over the last tap dimension. weight_fmt: format of the weights. features: N. columns: sums formed at once,
    a divisor of the lanes. epilogue: input 0 is the sum (range `accumulator`), the others the memories
    `extras`, each with an access over (rows..., o, n), as `out` has. Raises KernelParameterError with the
    reason of `refusal`.
    """

    def __post_init__(self) -> None:
        product_of = self.left, self.weight_fmt, self.features, self.columns
        problem = self.refusal(*product_of, self.epilogue, self.extras, self.out, self.contracted)
        if problem:
            sizes = f"{self.left.access.sizes} -> {self.out.access.sizes}"
            raise KernelParameterError(f"window kernel {sizes}: {problem}")

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
        contracted: int = 2,
    ) -> str | None:
        """Why no window kernel fits (None: it does)."""
        sizes = left.access.sizes
        if contracted < 2 or len(sizes) < 1 + contracted:
            return f"the left operand needs dimensions (..., o, taps, c), not {sizes} with {contracted} of k"
        if out.access.sizes != (*sizes[:-contracted], features):
            return f"{sizes} times {features} features does not give {out.access.sizes}"
        lanes = left.layout.lanes
        if out.layout.lanes != lanes:
            return f"left operand and output have {lanes} and {out.layout.lanes} lanes"
        if columns < 1 or lanes % columns:
            return f"{columns} columns do not divide the {lanes} lanes of a word"
        window = window_of(left, contracted)
        if isinstance(window, str):
            return f"left operand: {window}"
        total = accumulator(left.fmt, weight_fmt, product(sizes[-contracted:]))
        return epilogue_refusal(total, epilogue, extras, out)

    # ---- contract
    @property
    def family(self) -> str:
        """Name of the generator."""
        return "window_dot"

    def pack(self, weight: IntArray) -> IntArray:
        """The weight memory's (rows, cols) array from weights [N, taps..., C]; ragged edges are zero."""
        rows = np.asarray(weight).reshape(self.features, self.inner)
        return packed_weights(rows, self.inner_sizes, self.columns, self.depth)

    def unpack(self, packed: IntArray) -> IntArray:
        """Weights [N, K], K in the order (taps..., C), from the memory's array: the inverse of `pack`."""
        return unpacked_weights(packed, self.features, self.inner_sizes, self.columns, self.depth)

    def engine(self) -> EngineSpec:
        """The dot array and operand widths."""
        widths = self.left.fmt.signed_width, self.weight_fmt.signed_width
        return EngineSpec(*widths, self.mul_stages, dot=self.shape)

    def cycles(self) -> int:
        """Exact latency of one call."""
        return self.trips + self.flush

    def useful_operations(self) -> int:
        """Multiply-accumulates."""
        return product(self.out.access.sizes) * self.inner

    def cost(self) -> Cost:
        """Multipliers in use; adders of trees and epilogue; window, accumulators, the epilogue's pipeline."""
        units = self.columns * self.depth
        drain = self.depth * (self.total.width + register_bits(self.epilogue))
        window = (self.window.register_elements + self.depth) * self.left.fmt.width
        return Cost(units, units + self.epilogue.adders * self.depth, drain + window)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; `arrays` as `ports` lists them, the weights packed."""
        left, packed, *extras = arrays
        rows = self.left.access.read(left).reshape(-1, self.inner)
        sums = exact_matmul(rows, self.unpack(packed).T).reshape(self.out.access.sizes)
        result, saturated = written(self.epilogue, sums, self.extras, extras, self.out)
        return Emulated((result,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories left, right, x0, ..., y and `ref` engine."""
        name = f"window_dot_{digest((self, tuple(sorted(words.items())), engine))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        build_controller(c, self, words, engine)
        return c
