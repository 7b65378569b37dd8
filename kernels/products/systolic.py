"""Matrix product on the output-stationary array of the engine, streamed tile after tile without a bubble.

Equation: out[..., m, n] = epilogue(sum_k left[..., m, k] * right[..., k, n], extras[..., m, n]); batch
dimensions broadcast by step 0. A tile is `rows` x lanes sums; it takes P cycles, and its results leave
while the next tile runs.

| port | memory | |
|---|---|---|
| left, right | weights or activations | read |
| x0, x1, ... | operands of the epilogue: bias (step 0 along m), residual | read |
| y | result, n over the lanes | write |

Feeds, on each side: "free": a word holds lanes along the free axis (m of left, n of right) at one k;
"contracted": a word holds lanes along k, each row (or column) loads one every `lanes` cycles, in round
robin. P = max(rows, lanes, K) for free feeds; ceil(K / lanes) * max(rows, lanes) where a feed is
contracted: one port loads one row a cycle, so more rows than lanes wait for their words. The steps beyond K
count for nothing. Cycles: (T - 1) * P + E + mul_stages + lanes + min(rows, M) + latency(epilogue) for T
tiles, where E is the place of the last k step in its tile (K up to `lanes` rows), and never less than T *
P. With mul_stages 1 and a one-stage epilogue that is 3N + 2 for one N x N x N product on an N x N array.
Numbers: sums are exact (accumulators as wide as K needs), narrowed by the epilogue alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arith.expr import Expr, Value
from ..arith.numerics import IntArray, NumberFormat, product
from ..contract import Cost, Emulated, KernelParameterError
from ..engine.spec import EngineSpec
from ..ports.access import Operand
from ..ports.epilogue import written
from ..rtl.hw import Component, Program, digest
from ..rtl.lane import register_bits
from .contraction import accumulator, epilogue_refusal, exact_matmul, merge_leading
from .feed import feed_refusal
from .systolic_control import build_controller
from .systolic_parameters import SystolicParameters


@dataclass(frozen=True, slots=True)
class Systolic(SystolicParameters):
    """One call of the array; `systolic(...)` makes it with as few loops as possible.

    left: access over (..., m, k). right: over (..., k, n). rows: of the array; its columns are the lanes.
    epilogue: input 0 is the sum (range `accumulator`), the others the memories `extras`, each with an
    access over (..., m, n), as `out` has. Raises KernelParameterError with the reason of `refusal`.
    """

    def __post_init__(self) -> None:
        problem = self.refusal(self.left, self.right, self.rows, self.epilogue, self.extras, self.out)
        if problem:
            sizes = f"{self.left.access.sizes} @ {self.right.access.sizes}"
            raise KernelParameterError(f"systolic kernel {sizes} on {self.rows} rows: {problem}")

    @staticmethod
    def accumulator(left: NumberFormat, right: NumberFormat, depth: int) -> Value:
        """Range of input 0 of the epilogue for sums over `depth` products."""
        return accumulator(left, right, depth)

    @staticmethod
    def refusal(
        left: Operand, right: Operand, rows: int, epilogue: Expr, extras: tuple[Operand, ...], out: Operand
    ) -> str | None:
        """Why no systolic kernel fits (None: it does)."""
        a, b, y = left.access.sizes, right.access.sizes, out.access.sizes
        if len(a) < 2 or len(a) != len(b) or a[-1] != b[-2] or (*a[:-1], b[-1]) != y or b[:-2] != y[:-2]:
            return f"{a} times {b} does not give {y} (one domain (..., m, k), (..., k, n), (..., m, n))"
        if len({left.layout.lanes, right.layout.lanes, out.layout.lanes}) != 1:
            return f"lanes differ: {left.layout.lanes}, {right.layout.lanes} and {out.layout.lanes}"
        if rows < 1:
            return f"an array has at least one row, not {rows}"
        problem = feed_refusal("left", left, len(a) - 2, len(a) - 1, rows)
        problem = problem or feed_refusal("right", right, len(b) - 1, len(b) - 2, right.layout.lanes)
        return problem or epilogue_refusal(accumulator(left.fmt, right.fmt, a[-1]), epilogue, extras, out)

    # ---- contract
    @property
    def family(self) -> str:
        """Name of the generator."""
        return "systolic"

    def engine(self) -> EngineSpec:
        """The array and operand widths."""
        widths = self.left.fmt.signed_width, self.right.fmt.signed_width
        return EngineSpec(*widths, self.mul_stages, array=self.shape)

    def cycles(self) -> int:
        """Exact latency of one call."""
        return self.walk.trips + self.flush

    def useful_operations(self) -> int:
        """Multiply-accumulates."""
        return product(self.out.access.sizes) * self.matrix[2]

    def cost(self) -> Cost:
        """Multipliers in use; adders of accumulators and epilogue; accumulators, finished sums, pipeline."""
        units = self.rows * self.lanes
        stage_bits = self.lanes * register_bits(self.epilogue)
        return Cost(
            units, units + self.epilogue.adders * self.lanes, 2 * units * self.total.width + stage_bits
        )

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact; `arrays` as `ports` lists them. Saturations counted over the output's domain."""
        left, right, *extras = arrays
        sums = exact_matmul(self.left.access.read(left), self.right.access.read(right))
        result, saturated = written(self.epilogue, sums, self.extras, extras, self.out)
        return Emulated((result,), saturated)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories left, right, x0, ..., y and `ref` engine."""
        name = f"systolic_{digest((self, tuple(sorted(words.items())), engine))}"
        found = prog.find(name)
        if found is not None:
            return found
        c = prog.component(name, latency=self.cycles())
        build_controller(c, self, words, engine)
        return c


def systolic(
    left: Operand,
    right: Operand,
    rows: int,
    epilogue: Expr,
    extras: tuple[Operand, ...],
    out: Operand,
    mul_stages: int = 1,
) -> Systolic:
    """The kernel over as few loops as possible; KernelParameterError as `Systolic`."""
    if Systolic.refusal(left, right, rows, epilogue, extras, out) is None:
        merged_left, merged_right, merged_extras, merged_out = merge_leading(left, right, extras, out)
        assert merged_right is not None
        if Systolic.refusal(merged_left, merged_right, rows, epilogue, merged_extras, merged_out) is None:
            return Systolic(merged_left, merged_right, rows, epilogue, merged_extras, merged_out, mul_stages)
    return Systolic(left, right, rows, epilogue, extras, out, mul_stages)
