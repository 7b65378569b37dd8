"""Nonlinear functions in fixed point: `approximate` adds one to an expression, `accuracy` says how exact it
is.

A function is a table of piecewise polynomials behind a range reduction (see `curve` and
`plans`), or one table entry for each input where the input has at most 8 bits. Tables are fitted
for a pair of formats, proved on every input of at most 16 bits (on a dense sample of wider ones), and the
first one within `ERROR_LIMIT` is taken. Results of monotone functions never step back, and where the rounded
function is constant the result is that constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from ...errors import KernelParameterError
from ..arith.expr import Expr, ExprBuilder, Value, value_of
from ..arith.numerics import NumberFormat
from .curve import Direct, Plan
from .known import KNOWN, definition
from .plans import plans
from .real import Curve, Definition, Exponential, Logarithm, Power, Wave
from .sampled import Sampled, at
from .segmented import SampledPlan
from .values import Real

ERROR_LIMIT = 0.75
"""Largest error of a result in units in the last place; 0.5 would be the nearest number always."""
DIRECT_INPUTS = 512
EXHAUSTIVE_INPUTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Function:
    """One of `known.KNOWN` with its parameters; KernelParameterError for an unknown name."""

    name: str
    params: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in KNOWN:
            raise KernelParameterError(f"function {self.name!r} is not one of {', '.join(sorted(KNOWN))}")

    @property
    def definition(self) -> Definition:
        """The real function."""
        return definition(self.name, self.params)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


@dataclass(frozen=True, slots=True)
class Accuracy:
    """max_error: in units of the last place (of the last significant bit, where that is coarser), against the
    real function limited to the output's range.

    exhaustive: over every input, otherwise over a sample. monotone: the results never step back where the
    function does not (False also for functions that are not monotone). The rest counts one lane.
    """

    max_error: float
    exhaustive: bool
    monotone: bool
    multiplications: int
    table_bits: int


def approximate(
    b: ExprBuilder,
    x: int,
    function: Function,
    out: NumberFormat,
    multiplications: int = 2,
    domain: Value | NumberFormat | None = None,
    significant: int | None = None,
) -> int:
    """Operation whose value is `function` of operation `x`, narrowed to `out`.

    multiplications: most multipliers a lane may use. domain: range of x for which the tables are made, by
    default what the expression knows of it. significant: leading bits of the result that matter (None: all
    that `out` has), for wide formats. Raises KernelParameterError when no table reaches `ERROR_LIMIT`.
    """
    have = b.value(x)
    want = have if domain is None else value_of(domain) if isinstance(domain, NumberFormat) else domain
    if want.frac != have.frac or want.low > have.low or want.high < have.high:
        raise KernelParameterError(f"{function} over {want} is given a value in {have}")
    return b.quant(plan(function, want, out, multiplications, significant)[0].emit(b, x), out)


def accuracy(
    function: Function,
    x: Value | NumberFormat,
    out: NumberFormat,
    multiplications: int = 2,
    significant: int | None = None,
) -> Accuracy:
    """How exact `approximate` is for inputs in `x`, and what it costs."""
    return plan(function, _value(x), out, multiplications, significant)[1]


def function_expr(
    function: Function, x: Value | NumberFormat, out: NumberFormat, multiplications: int = 2
) -> Expr:
    """The function as an expression of one operand."""
    return _expr(plan(function, _value(x), out, multiplications)[0], _value(x), out)


@lru_cache(maxsize=1024)
def plan(
    function: Function, x: Value, out: NumberFormat, multiplications: int, significant: int | None = None
) -> tuple[Plan, Accuracy]:
    """The chosen datapath and what was proved of it; KernelParameterError when there is none."""
    try:
        return _plan(function, x, out, multiplications, significant)
    except KernelParameterError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:  # scales at which float64 fits no tables
        raise KernelParameterError(
            f"{function} from {x} to {out}: its tables pass the range of float64 at this scale"
        ) from error


def _plan(
    function: Function, x: Value, out: NumberFormat, multiplications: int, significant: int | None
) -> tuple[Plan, Accuracy]:
    definition = function.definition
    if x.high - x.low < DIRECT_INPUTS:
        direct = _direct(definition, x, out)
        return direct, _prove(definition, direct, x, out, significant)
    best: Accuracy | None = None
    bits = out.width if significant is None else min(out.width, significant + 1)
    degree = min(multiplications, 2 if bits <= 18 else 4)
    for candidate in chain.from_iterable(
        plans(form, x, out, degree, significant) for form in _forms(definition)
    ):
        found = _prove(definition, candidate, x, out, significant)
        ordered = (
            found.monotone
            or not _direction(definition)
            or bits < out.width
            or isinstance(candidate, SampledPlan)
        )
        if found.max_error <= ERROR_LIMIT and ordered:
            return candidate, found
        best = found if best is None or found.max_error < best.max_error else best
    reached = f"; the best one errs by {best.max_error:.2f}" if best else ""
    raise KernelParameterError(
        f"{function} from {x} to {out} with {multiplications} multiplications a lane: no table stays within "
        f"{ERROR_LIMIT} units in the last place{reached}"
    )


def _forms(definition: Definition) -> Iterator[Definition]:
    """The function, then, as a last resort, as nothing but its values: where scales differ so much that
    pieces of one length do not do. Results of the latter may step back by a unit in the last place.
    """
    yield definition
    if not isinstance(definition, Sampled):
        jump = _cut(definition)
        yield Sampled(definition.exact, splits=at(0.0) if jump is None else at(0.0, jump))


def _value(x: Value | NumberFormat) -> Value:
    return value_of(x) if isinstance(x, NumberFormat) else x


def _direct(definition: Definition, x: Value, out: NumberFormat) -> Direct:
    """Every result, rounded half to even; one beyond the range where it saturates, so that it is counted."""
    inputs = np.arange(x.low, x.high + 1, dtype=np.float64)
    exact = _exact(definition, inputs, x, out)
    limited = np.clip(np.rint(exact), float(out.min) - 1, float(out.max) + 1)
    return Direct(x.low, tuple(int(v) for v in limited), out.frac)


def _exact(definition: Definition, inputs: Real, x: Value, out: NumberFormat) -> Real:
    """The real results in units of the last place of `out`; infinite where they pass float64."""
    with np.errstate(over="ignore"):
        return definition.exact(inputs * 2.0**-x.frac) * 2.0**out.frac


def _expr(chosen: Plan, x: Value, out: NumberFormat) -> Expr:
    b = ExprBuilder()
    return b.build(chosen.emit(b, b.input(x)), out)


def _prove(
    definition: Definition, chosen: Plan, x: Value, out: NumberFormat, significant: int | None
) -> Accuracy:
    """Run the datapath in software over every input, or many."""
    expr = _expr(chosen, x, out)
    exhaustive = x.high - x.low < EXHAUSTIVE_INPUTS
    inputs = np.arange(x.low, x.high + 1, dtype=np.int64) if exhaustive else _sample(x)
    got = np.broadcast_to(expr.emulate([inputs])[0], inputs.shape).astype(np.float64)
    exact = _exact(definition, inputs.astype(np.float64), x, out)
    limited = np.clip(exact, float(out.min), float(out.max))
    error = np.abs(got - limited)
    if significant is not None:  # in units of the last place that matters
        error = error / np.maximum(1.0, np.abs(limited) * 2.0**-significant)
    direction = _direction(definition)
    cut = _cut(definition)
    pieces = (got,) if cut is None else (got[inputs * 2.0**-x.frac < cut], got[inputs * 2.0**-x.frac > cut])
    monotone = direction != 0 and all(bool(np.all(np.diff(p) * direction >= 0)) for p in pieces)
    return Accuracy(float(error.max()), exhaustive, monotone, expr.multiplications, expr.table_bits)


def _direction(definition: Definition) -> int:
    """1 for functions that never fall, -1 for those that never rise (on each side of 0), 0 for others."""
    match definition:
        case Curve(rising=rising):
            return int(rising)
        case Power(exponent=exponent):
            return 1 if exponent > 0 else -1
        case Logarithm() | Exponential():
            return 1
        case Wave() | Sampled():
            return 0


def _cut(definition: Definition) -> float | None:
    """Where a monotone function jumps."""
    if isinstance(definition, Curve):
        return definition.jump
    return 0.0 if isinstance(definition, Power) and definition.signs else None


def _sample(x: Value) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sorted inputs of a wide range: all near the ends and 0, around powers of two, evenly and at random."""
    rng = np.random.default_rng(0)
    ends = [np.arange(v - 300, v + 300) for v in (x.low, 0, x.high)]
    powers = np.array([sign * ((16 + j) << k) // 16 + d for k in range(x.width) for j in range(16)
                       for sign in (-1, 1) for d in (-1, 0, 1)])  # fmt: skip
    even = np.linspace(x.low, x.high, 20011).astype(np.int64)
    near = (2.0 ** rng.uniform(0, x.width, 20000)).astype(np.int64)
    runs = (even[::40, None] + np.arange(8)[None, :]).ravel()
    found = np.unique(np.concatenate([*ends, powers, even, near, -near, runs]))
    return found[(found >= x.low) & (found <= x.high)]
