"""Sampled functions: every 16-bit input within the bound of torch's values, poles, domains; RTL equals it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.kernels.support import run, tensor
from torchcalyx.kernels.arith.expr import ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.functions.function import ERROR_LIMIT, Function, accuracy, approximate, function_expr
from torchcalyx.kernels.functions.known import register_function
from torchcalyx.kernels.functions.special import SPECIAL

S = torch.special
POLYNOMIALS = {
    "chebyshev_t": S.chebyshev_polynomial_t, "chebyshev_u": S.chebyshev_polynomial_u,
    "chebyshev_v": S.chebyshev_polynomial_v, "chebyshev_w": S.chebyshev_polynomial_w,
    "shifted_chebyshev_t": S.shifted_chebyshev_polynomial_t,
    "shifted_chebyshev_u": S.shifted_chebyshev_polynomial_u,
    "shifted_chebyshev_v": S.shifted_chebyshev_polynomial_v,
    "shifted_chebyshev_w": S.shifted_chebyshev_polynomial_w,
    "hermite_h": S.hermite_polynomial_h, "hermite_he": S.hermite_polynomial_he,
    "laguerre_l": S.laguerre_polynomial_l, "legendre_p": S.legendre_polynomial_p,
}  # fmt: skip
TORCH: dict[str, tuple[tuple[float, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    **{k: ((), getattr(torch, k)) for k in (
        "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfinv", "erfc", "lgamma",
        "i0", "sinc", "logit")},
    **{k: ((), getattr(S, k)) for k in (
        "erfcx", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "ndtr",
        "ndtri", "log_ndtr", "airy_ai")},
    "k0": ((), S.modified_bessel_k0), "k1": ((), S.modified_bessel_k1),
    "k0e": ((), S.scaled_modified_bessel_k0), "k1e": ((), S.scaled_modified_bessel_k1),
    "spherical_j0": ((), S.spherical_bessel_j0),
    "polygamma": ((2.0,), lambda x: torch.polygamma(2, x)),
    "power": ((-0.7,), lambda x: x**-0.7),
    "zeta_of": ((1.5,), lambda x: S.zeta(x, 1.5)),
    "zeta_from": ((2.5,), lambda q: S.zeta(2.5, q)),
    **{k: ((5.0,), lambda x, f=f: f(x, 5)) for k, f in POLYNOMIALS.items()},  # type: ignore[misc]
}  # fmt: skip
FORMATS = [(fixed(16, 12), fixed(16, 12)), (fixed(16, 9), fixed(16, 6))]


def every(fmt: NumberFormat) -> np.ndarray:
    return np.arange(fmt.min, fmt.max + 1, dtype=np.int64)


def test_every_sampled_function_is_compared_with_torch() -> None:
    assert set(TORCH) == set(SPECIAL)


@pytest.mark.parametrize(("x", "out"), FORMATS, ids=str)
@pytest.mark.parametrize("name", TORCH)
def test_every_16_bit_input_is_within_the_bound_of_torch(
    name: str, x: NumberFormat, out: NumberFormat
) -> None:
    params, reference = TORCH[name]
    function = Function(name, params)
    got = function_expr(function, x, out).emulate([every(x)])[0]
    stated = accuracy(function, x, out)
    assert stated.exhaustive and stated.max_error <= ERROR_LIMIT
    points = every(x) * x.resolution
    with np.errstate(over="ignore"):
        want = reference(torch.from_numpy(points)).numpy() / out.resolution
    inside = np.isfinite(want) & (points > -19.5)  # poles a unit: no tables of the gamma family further out
    error = np.abs(got - np.clip(want, out.min, out.max))[inside]
    loose = 1e-3 if name.startswith(("airy", "k", "bessel")) else 1e-6  # torch's own approximations
    assert error.max() <= stated.max_error + loose


@pytest.mark.parametrize(
    ("name", "points", "wanted", "counted"),
    [
        ("acos", [1.0, -1.0, 1.01, -1.01, 1.5], [0.0, np.pi, 0.0, np.pi, None], 1),
        ("atanh", [1.0, -1.0], [None, -8.0], 2),
        ("logit", [0.0, 1.0], [-8.0, None], 2),
        ("lgamma", [0.0, -1.0, -2.0], [None, None, None], 3),
        ("bessel_y0", [0.0, -1.0], [-8.0, None], 2),
    ],
)
def test_poles_and_the_outside_of_a_domain_saturate_and_are_counted(
    name: str, points: list[float], wanted: list[float | None], counted: int
) -> None:
    x, out = fixed(16, 8), fixed(16, 12)
    stored = np.rint(np.array(points) / x.resolution).astype(np.int64)
    got, saturated = function_expr(Function(name), x, out).emulate([stored])
    expected = [out.max * out.resolution if w is None else w for w in wanted]
    np.testing.assert_allclose(got * out.resolution, expected, atol=out.resolution)
    assert saturated == counted


def test_small_tails_of_a_wide_result_keep_their_leading_bits() -> None:
    x, out = fixed(16, 12), fixed(60, 58)
    b = ExprBuilder()
    expr = b.build(approximate(b, b.input(x), Function("erfc"), out, significant=12), out)
    q = np.arange(0, 5 * 4096, 37)
    want = torch.special.erfc(torch.from_numpy(q / 4096)).numpy()
    got = expr.emulate([q])[0] * out.resolution
    assert np.max(np.abs(got - want) / want) < 2.0**-11


def test_kinks_that_nobody_declared_are_found() -> None:
    register_function("test_kinked", lambda x: np.abs(x - 0.3) + np.where(x > 1.7, x * x, 0.0))
    stated = accuracy(Function("test_kinked"), fixed(16, 12), fixed(16, 8))
    assert stated.exhaustive and stated.max_error <= ERROR_LIMIT
    assert stated.table_bits < 20000


def test_faults_of_ones_own_function_are_named() -> None:
    with pytest.raises(KernelParameterError, match="function 'tan' exists already"):
        register_function("tan", np.tan)
    with pytest.raises(KernelParameterError, match="function 'test_cosine' is not odd"):
        register_function("test_cosine", np.cos, symmetry="odd")
    with pytest.raises(KernelParameterError, match="the domain 2 .. 1 is empty"):
        register_function("test_empty", np.cos, domain=(2, 1))
    with pytest.raises(KernelParameterError, match=r"it makes one of shape \(\)"):
        register_function("test_sum", lambda x: np.sum(x))
    register_function("test_wild", lambda x: np.sin(1e5 * x))
    with pytest.raises(KernelParameterError, match="no table stays within 0.75"):
        accuracy(Function("test_wild"), fixed(16, 12), fixed(16, 14))


RTL = [
    ("tan", (), "verilator"), ("acos", (), "verilator"), ("erfc", (), "icarus"), ("power", (-1.7,), "icarus"),
    ("logit", (), "verilator"), ("polygamma", (0.0,), "verilator"), ("bessel_j1", (), "verilator"),
]  # fmt: skip


@pytest.mark.needs("calyx", "verilator", "icarus")
@pytest.mark.parametrize(("name", "params", "simulator"), RTL, ids=lambda v: str(v))
def test_hardware_equals_the_model_on_every_input(
    name: str, params: tuple[float, ...], simulator: str
) -> None:
    x, out = fixed(12, 9), fixed(16, 12)
    expr = function_expr(Function(name, params), Value(x.frac, x.min, x.max), out)
    spec = elementwise(expr, [tensor((1 << x.width,), x, 4)], tensor((1 << x.width,), out, 4))
    stored = every(x).reshape(spec.operands[0].layout.rows, -1)
    (got,) = run(spec, [[stored]], simulator=simulator)[0]  # type: ignore[arg-type]
    assert np.array_equal(got, spec.emulate(stored).outputs[0])
