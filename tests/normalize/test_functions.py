"""Nonlinear functions: every spelling becomes the normal form that computes what torch computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcalyx.capture import capture
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.normalform import verify
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import normalize

Forward = Callable[[Tensor], Tensor]

SPELLINGS: dict[str, tuple[Forward, set[str]]] = {
    "sigmoid": (torch.sigmoid, {"sigmoid"}),
    "expit": (torch.special.expit, {"sigmoid"}),
    "log_sigmoid": (F.logsigmoid, {"neg", "softplus"}),
    "tanh": (torch.tanh, {"tanh"}),
    "tanhshrink": (F.tanhshrink, {"tanh", "sub"}),
    "erf": (torch.erf, {"erf"}),
    "erfc": (torch.special.erfc, {"function"}),
    "exp": (torch.exp, {"exp"}),
    "exp2": (torch.exp2, {"exp2"}),
    "expm1": (torch.expm1, {"expm1"}),
    "two_to_the_x": (lambda x: 2**x, {"exp2"}),
    "ten_to_the_x": (lambda x: 10.0**x, {"mul", "exp2"}),
    "gelu": (F.gelu, {"gelu"}),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), {"gelu"}),
    "silu": (F.silu, {"silu"}),
    "mish": (F.mish, {"mish"}),
    "elu": (lambda x: F.elu(x, 0.7), {"elu"}),
    "elu_negative": (lambda x: F.elu(x, -0.5), {"elu"}),
    "selu": (F.selu, {"elu"}),
    "celu": (lambda x: F.celu(x, 0.5), {"elu"}),
    "softplus": (F.softplus, {"softplus"}),
    "softplus_threshold": (lambda x: F.softplus(x, 2.0, 1.0), {"softplus"}),
    "glu": (F.glu, {"slice", "sigmoid", "mul"}),
    "sin": (torch.sin, {"sin"}),
    "cos": (torch.cos, {"cos"}),
    "hardsigmoid": (F.hardsigmoid, {"add", "clamp", "div_const"}),
    "hardswish": (F.hardswish, {"add", "clamp", "mul", "div_const"}),
    "relu6": (F.relu6, {"clamp"}),
    "softshrink": (F.softshrink, {"abs", "gt", "sign", "mul", "sub", "where"}),
    "hardshrink": (F.hardshrink, {"abs", "le", "where"}),
    "threshold": (lambda x: F.threshold(x, 0.1, 2.0), {"le", "where"}),
    "int_sigmoid": (lambda x: torch.sigmoid(x.round().to(torch.int32)), {"cast", "sigmoid"}),
}
POSITIVE: dict[str, tuple[Forward, set[str]]] = {
    "log": (torch.log, {"log"}),
    "log2": (torch.log2, {"log2"}),
    "log10": (torch.log10, {"log10"}),
    "log1p": (torch.log1p, {"log1p"}),
    "sqrt": (torch.sqrt, {"sqrt"}),
    "rsqrt": (torch.rsqrt, {"rsqrt"}),
    "reciprocal": (torch.reciprocal, {"reciprocal"}),
    "one_over_x": (lambda x: 1 / x, {"reciprocal", "mul"}),
    "quotient": (lambda x: (x + 1) / (x * x + 2), {"add", "mul", "div"}),
    "softsign": (F.softsign, {"abs", "add", "div"}),
    "power_half": (lambda x: x**0.5, {"sqrt"}),
    "power_minus_half": (lambda x: x**-0.5, {"rsqrt"}),
    "power_minus_two": (lambda x: x**-2, {"mul", "reciprocal"}),
    "power_three_halves": (lambda x: x**1.5, {"sqrt", "mul"}),
    "power_minus_five_halves": (lambda x: x**-2.5, {"sqrt", "mul", "reciprocal"}),
    "power_three": (lambda x: x**3.0, {"mul"}),
    "power_of_a_third": (lambda x: x**0.3, {"function"}),
    "power_nine_and_a_half": (lambda x: x**9.5 / 1e6, {"function", "div_const"}),
    "lgamma": (torch.lgamma, {"function"}),
    "digamma": (torch.digamma, {"function"}),
    "bessel_y1": (torch.special.bessel_y1, {"function"}),
    "legendre": (lambda x: torch.special.legendre_polynomial_p(x / 5, 4), {"div_const", "function"}),
    "zeta_of_x": (lambda x: torch.special.zeta(x + 1.1, 1.5), {"add", "function"}),
    "zeta_from_x": (lambda x: torch.special.zeta(2.5, x), {"function"}),
    "logaddexp": (lambda x: torch.logaddexp(x, 2 - x),
                  {"sub", "abs", "neg", "softplus", "maximum", "add"}),
}  # fmt: skip


class Bundle(nn.Module):
    """Several functions of one input."""

    def __init__(self, functions: dict[str, Forward]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: function(x) for name, function in self.functions.items()}


@pytest.mark.parametrize("table", [SPELLINGS, POSITIVE], ids=["real", "positive"])
def test_normal_form_computes_what_torch_computes(table: dict[str, tuple[Forward, set[str]]]) -> None:
    x = (
        torch.linspace(0.1, 5, 24).reshape(3, 8)
        if table is POSITIVE
        else torch.linspace(-6, 6, 24).reshape(3, 8)
    )
    functions = {name: forward for name, (forward, _) in table.items() if name != "int_sigmoid"}
    graph = normalize(capture(Bundle(functions), (x,)))
    assert verify(graph) == ()
    for got, want in zip(reference(graph, [x.numpy()]), Bundle(functions)(x).values(), strict=True):
        np.testing.assert_allclose(got, want.double().numpy(), 2e-6, 2e-6)


@pytest.mark.parametrize("name", [*SPELLINGS, *POSITIVE])
def test_each_spelling_becomes_the_named_operations(name: str) -> None:
    forward, ops = {**SPELLINGS, **POSITIVE}[name]
    if name == "int_sigmoid":
        graph = normalize(capture(Bundle({name: torch.sigmoid}), (torch.arange(-4, 4),)))
    else:
        graph = normalize(capture(Bundle({name: forward}), (torch.linspace(0.1, 5, 24).reshape(3, 8),)))
    assert {n.op for n in graph.nodes} - {"input", "constant"} == ops


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda x: x ** float("inf"), "the exponent inf has no finite power"),
        (lambda x: torch.nextafter(x, x + 1), "is not a neighbour in fixed point"),
        (lambda x: torch.special.hermite_polynomial_h(x, x.round()), "one degree known at compile time"),
        (lambda x: torch.special.zeta(x + 1, x), "one of them known at compile time"),
        (lambda x: torch.fmod(x, 0.0), "the divisor is zero"),
    ],
)
def test_parameters_without_a_datapath_are_refused(forward: Forward, reason: str) -> None:
    with pytest.raises(UnsupportedOpError, match=reason):
        normalize(capture(Bundle({"f": forward}), (torch.ones(4),)))
