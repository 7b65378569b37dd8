"""Nonlinear functions: over every 16-bit input within the stated error, monotone, exact at the ends; RTL
equals it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels.support import run, tensor
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.functions.function import ERROR_LIMIT, Function, accuracy, approximate, function_expr
from torchcalyx.kernels.functions.real import FUNCTIONS

PARAMS: dict[str, tuple[float, ...]] = {"elu": (1.0, 1.0, 1.0), "softplus": (1.0, 20.0)}
ALL = [Function(name, PARAMS.get(name, ())) for name in FUNCTIONS]
each_function = pytest.mark.parametrize("function", ALL, ids=str)
PLAIN: dict[str, Callable[[float], float]] = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
    "erf": math.erf,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "expm1": math.expm1,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "softplus": lambda x: math.log1p(math.exp(x)),
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": math.sin,
    "cos": math.cos,
}  # fmt: skip
INCREASING = (
    "sigmoid",
    "tanh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "elu",
    "softplus",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
)
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")


def inputs(fmt: NumberFormat) -> np.ndarray:
    return np.arange(fmt.min, fmt.max + 1, dtype=np.int64)


def results(function: Function, x: NumberFormat, out: NumberFormat, multiplications: int = 2) -> np.ndarray:
    return function_expr(function, x, out, multiplications).emulate([inputs(x)])[0]


def ideal(function: Function, q: int, x: NumberFormat, out: NumberFormat) -> float:
    """The function by plain Python, in units in the last place, limited to the output's range."""
    value = PLAIN[function.name](q * x.resolution) / out.resolution
    return min(max(value, out.min), out.max)


@each_function
def test_definitions_are_the_functions_of_the_standard_library(function: Function) -> None:
    points = [-7.3, -2.0, -0.9, -0.3, -1e-3, 1e-3, 0.4, 1.0, 2.7, 6.5]
    if function.name in POSITIVE:
        points = [p for p in points if p > 0]
    if function.name == "log1p":
        points = [p for p in points if p > -1]
    got = function.definition.exact(np.array(points))
    np.testing.assert_allclose(got, [PLAIN[function.name](p) for p in points], rtol=1e-12, atol=1e-15)


FORMATS = [
    (fixed(16, 12), fixed(16, 14)),
    (fixed(16, 8), fixed(16, 10)),
    (fixed(16, 15), fixed(16, 15)),
    (fixed(16, 3), fixed(16, 6)),
    (fixed(16, 0), fixed(16, 15)),
    (fixed(16, 20), fixed(16, 17)),
    (fixed(16, -2), fixed(16, 3)),
    (fixed(16, 11), fixed(8, 5)),
]


@pytest.mark.parametrize(("x", "out"), FORMATS, ids=lambda f: str(f))
@each_function
def test_every_16_bit_input_is_within_the_bound(
    function: Function, x: NumberFormat, out: NumberFormat
) -> None:
    got = results(function, x, out)
    every = inputs(x)
    stated = accuracy(function, x, out)
    assert stated.exhaustive and stated.max_error <= ERROR_LIMIT < 1
    chosen = every[::97] if function.name not in POSITIVE else every[every > 0][::61]
    if function.name == "log1p":
        chosen = chosen[chosen * x.resolution > -1]
    with_limit = [q for q in chosen if abs(q * x.resolution) < 300]
    errors = [abs(int(got[q - x.min]) - ideal(function, int(q), x, out)) for q in with_limit]
    assert max(errors) <= stated.max_error + 1e-6
    if function.name in INCREASING:
        assert np.all(np.diff(got) >= 0) and stated.monotone
    if function.name == "rsqrt":
        assert np.all(np.diff(got[every >= 0]) <= 0)
    if function.name == "reciprocal":
        assert np.all(np.diff(got[every >= 0]) <= 0) and np.all(np.diff(got[every < 0]) <= 0)


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "log", "rsqrt", "softplus", "mish", "sin"])
def test_one_multiplier_and_a_longer_table_are_as_exact(name: str) -> None:
    function, x, out = Function(name, PARAMS.get(name, ())), fixed(16, 10), fixed(16, 11)
    one, two = accuracy(function, x, out, 1), accuracy(function, x, out, 2)
    assert one.max_error <= ERROR_LIMIT and one.multiplications == 1
    assert two.multiplications == 1 or one.table_bits > two.table_bits


@pytest.mark.parametrize("frac", [8, 10, 12, 13])
def test_ends_are_exact(frac: int) -> None:
    x, out = fixed(16, 8), fixed(16, frac)
    one = 1 << frac
    for function, low, high in (
        (Function("sigmoid"), 0, one),
        (Function("tanh"), -one, one),
        (Function("erf"), -one, one),
    ):
        got = results(function, x, out)
        assert got[0] == low and got[-1] == high
        every = inputs(x) * x.resolution
        exact = np.rint(function.definition.exact(every) * one)
        for end in (low, high):  # wherever the rounded function is surely the constant, so is the result
            settled = np.abs(function.definition.exact(every) * one - end) < 0.1
            assert settled.any() and np.all(got[settled] == end) and np.all(exact[settled] == end)
    for name in ("gelu", "gelu_tanh", "silu", "softplus", "mish"):
        got = results(Function(name, PARAMS.get(name, ())), x, out)
        assert got[0] == 0
        assert got[-1] == min(out.max, round(x.max * x.resolution * one))
    assert results(Function("elu", (1.0, 1.0, 1.0)), x, out)[0] == -one
    assert results(Function("exp"), x, out)[0] == 0 and results(Function("exp"), x, out)[-1] == out.max


def test_symmetric_functions_are_symmetric_to_the_bit() -> None:
    x, out = fixed(16, 12), fixed(16, 14)
    for name in ("tanh", "erf"):
        got = results(Function(name), x, out)[1:]
        assert np.array_equal(got, -got[::-1])
    got = results(Function("sigmoid"), x, out)[1:]
    assert np.array_equal(got, (1 << 14) - got[::-1])


def test_unusual_formats_are_within_the_bound_as_well() -> None:
    rng = random.Random(0)
    for _ in range(120):
        function = rng.choice(ALL)
        x, out = (
            fixed(rng.choice([9, 12, 16]), rng.randint(-6, 22)),
            fixed(rng.choice([8, 16]), rng.randint(-6, 20)),
        )
        stated = accuracy(function, x, out)
        assert stated.exhaustive and stated.max_error <= ERROR_LIMIT, f"{function} {x} {out}"


def test_a_wave_of_a_huge_argument_keeps_its_phase() -> None:
    x, out = fixed(32, -6), fixed(16, 14)
    got = function_expr(Function("sin"), x, out).emulate([np.array([123456789, -2000000001])])[0]
    wanted = [math.sin(123456789 * 64), math.sin(-2000000001 * 64)]
    assert np.max(np.abs(got * out.resolution - wanted)) <= ERROR_LIMIT * out.resolution


@each_function
def test_8_bit_inputs_give_the_nearest_number(function: Function) -> None:
    x = fixed(8, 4)
    for out in (fixed(8, 4), fixed(8, 7), fixed(16, 12)):
        got = results(function, x, out)
        stated = accuracy(function, x, out)
        assert stated.multiplications == 0 and stated.max_error <= 0.5
        for q in inputs(x):
            if q > 0 or function.name not in (*POSITIVE, "log1p"):
                assert abs(int(got[q - x.min]) - ideal(function, int(q), x, out)) <= 0.5 + 1e-9


@each_function
def test_32_bit_results_are_within_the_bound(function: Function) -> None:
    x, out = fixed(32, 26), fixed(32, 28)
    stated = accuracy(function, x, out, multiplications=4)
    assert stated.max_error <= ERROR_LIMIT
    points = [int(p * 2**26) for p in (1e-6, 0.003, 0.11, 0.7, 1.9, 3.3, 7.1, 17.7, 31.9)]
    if function.name not in (*POSITIVE, "log1p"):
        points += [-p for p in points]
    got = function_expr(function, x, out, 4).emulate([np.array(points)])[0]
    errors = [abs(int(g) - ideal(function, q, x, out)) for g, q in zip(got, points, strict=True)]
    assert max(errors) <= ERROR_LIMIT + 1e-6


@pytest.mark.parametrize("threshold", [20.0, 2.0, 0.5])
def test_softplus_above_its_threshold_is_the_identity(threshold: float) -> None:
    x, out = fixed(16, 11), fixed(16, 12)
    function = Function("softplus", (2.0, threshold))
    got, values = results(function, x, out), inputs(x) * x.resolution
    want = np.where(2 * values > threshold, values, np.log1p(np.exp(2 * values)) / 2) / out.resolution
    assert np.max(np.abs(got - np.clip(want, out.min, out.max))) <= ERROR_LIMIT


def test_values_without_a_result_saturate_and_are_counted() -> None:
    x, out = fixed(16, 8), fixed(16, 8)
    cases = {"log": [0, -5], "sqrt": [-5, -32768], "rsqrt": [0, -1], "reciprocal": [0], "log1p": [-256, -300]}
    wanted = {"log": out.min, "sqrt": 0, "rsqrt": out.max, "reciprocal": out.max, "log1p": out.min}
    for name, points in cases.items():
        got, saturated = function_expr(Function(name), x, out).emulate([np.array(points)])
        assert np.all(got == wanted[name]), name
        assert saturated == (0 if name == "sqrt" else len(points)), name


def test_bad_parameters_are_named() -> None:
    with pytest.raises(KernelParameterError, match="function 'sine' is not one of acos, acosh, "):
        Function("sine")
    with pytest.raises(
        KernelParameterError, match=r"tanh from .* with 0 multiplications a lane: no table stays within"
    ):
        accuracy(Function("tanh"), fixed(32, 26), fixed(32, 29), multiplications=0)
    b = ExprBuilder()
    x = b.input(fixed(16, 8))
    with pytest.raises(
        KernelParameterError, match=r"tanh over Value\(frac=8, low=0, high=9\) is given a value in"
    ):
        approximate(b, x, Function("tanh"), fixed(16, 12), domain=Value(8, 0, 9))


def joined(names: list[str], x: NumberFormat, out: NumberFormat) -> Expr:
    """Exclusive or of several functions of one operand: a wrong bit of any of them shows."""
    b = ExprBuilder()
    operand = b.input(x)
    total = b.const(0)
    for name in names:
        y = approximate(b, operand, Function(name, PARAMS.get(name, ())), out)
        total = b.bitwise("xor", total, b.shift(y, out.frac))
    return b.build(b.shift(total, -out.frac), out)


GROUPS = [
    (["sigmoid", "erf", "gelu", "elu"], fixed(16, 12), fixed(16, 13), "verilator"),
    (["tanh", "exp", "silu", "mish", "softplus"], fixed(16, 10), fixed(16, 12), "verilator"),
    (["log", "sqrt", "rsqrt", "reciprocal", "log1p", "cos"], fixed(16, 9), fixed(16, 8), "verilator"),
    (["sigmoid", "gelu_tanh", "reciprocal", "log", "exp"], fixed(8, 4), fixed(8, 5), "icarus"),
    (["tanh", "rsqrt", "log10"], fixed(11, 6), fixed(11, 8), "icarus"),
]


@pytest.mark.needs("calyx", "verilator", "icarus")
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: "-".join(g[0]))
def test_hardware_equals_the_model_on_every_input(
    group: tuple[list[str], NumberFormat, NumberFormat, str],
) -> None:
    names, x, out, simulator = group
    shape = (1 << x.width,)
    spec = elementwise(joined(names, x, out), [tensor(shape, x, 4)], tensor(shape, out, 4))
    every = inputs(x).reshape(spec.operands[0].layout.rows, -1)
    (got,) = run(spec, [[every]], simulator=simulator)[0]  # type: ignore[arg-type]
    assert np.array_equal(got, spec.emulate(every).outputs[0])
    assert spec.cost().table_bits == 4 * spec.expr.table_bits > 0
