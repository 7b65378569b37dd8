"""What has no kernel is reported once, complete: operation, types, place, reasons, hint."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.normalize.models import Function
from torchcalyx.capture import capture
from torchcalyx.errors import CaptureError, UnsupportedOpError
from torchcalyx.normalize import normalize

HINT = "write it with operations of torchcalyx.ir.normalform.OPS (the README lists them as torch names)"
X = torch.arange(1.0, 7.0).reshape(2, 3)


def refusal(function: Any, *inputs: Any) -> str:
    module = function if isinstance(function, nn.Module) else Function(function)
    with pytest.raises(UnsupportedOpError) as caught:
        normalize(capture(module, inputs or (X,)))
    return str(caught.value)


def test_one_error_lists_every_node_with_all_its_parts() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fraction = Function(torch.frac)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.fraction(torch.igamma(x, x))
            return torch.nextafter(y, x)

    text = re.sub(r"at \S+?(\w+\.py):\d+", r"at \1:N", refusal(Model()))
    assert text == (
        "3 operations of the model cannot be compiled:\n"
        "- aten.igamma (node 'igamma', float32[2, 3], float32[2, 3] -> float32[2, 3])"
        " at test_refusals.py:N\n"
        "    no kernel yet for aten.igamma\n"
        f"    hint: {HINT}\n"
        "- aten.frac (node 'frac', float32[2, 3] -> float32[2, 3]) at models.py:N in module 'fraction'\n"
        "    decomposed from aten.frac: no kernel yet for aten.trunc\n"
        f"    hint: {HINT}\n"
        "- aten.nextafter (node 'nextafter', float32[2, 3], float32[2, 3] -> float32[2, 3])"
        " at test_refusals.py:N\n"
        "    the neighbour of a floating-point number is not a neighbour in fixed point\n"
        f"    hint: {HINT}"
    )


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "igamma": (lambda x: torch.igamma(x, x), (), "no kernel yet for aten.igamma"),
    "infinite power": (lambda x: x ** float("inf"), (), "the exponent inf has no finite power"),
    "next number": (lambda x: torch.nextafter(x, x + 1), (), "is not a neighbour in fixed point"),
    "quantile between two": (
        lambda x, q: torch.quantile(x, q, interpolation="lower"),
        (torch.zeros(4), torch.tensor([0.5])),
        "a rounding error would choose another element",
    ),
    "sorter": (
        lambda x, i: torch.searchsorted(x, x, sorter=i),
        (torch.zeros(3), torch.arange(3)),
        "no kernel yet for a sorter; sort the sequence before",
    ),
    "floor": (lambda x: torch.floor(x), (), "no kernel yet for aten.floor"),
    "rounded division by zero": (lambda x: x // 0.0, (), "the divisor is zero"),
    "division by zero": (lambda x: x / 0, (), "the divisor is zero"),
    "infinite mask": (lambda x: x.tril() + torch.full((3,), -float("inf")), (), "for the value -inf"),
    "padding with infinity": (lambda x: F.pad(x, (1, 1), value=-float("inf")), (), "for the value -inf"),
    "unsigned": (
        lambda x: x.float(),
        (X.to(torch.uint16),),
        "dtype uint16 of the input has no hardware form",
    ),
    "complex product": (lambda x: (x * 1j).prod(), (), "no kernel yet for aten.prod"),
    "one value variance": (lambda x: x[:1].var(0), (), "a variance of too few values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operation(name: str) -> None:
    function, inputs, text = REFUSED[name]
    assert text in refusal(function, *inputs)


@torch.library.custom_op("torchcalyx_tests::wiggle", mutates_args=())
def wiggle(x: Tensor) -> Tensor:
    return x + 1


@wiggle.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_custom_operators_are_named() -> None:
    text = refusal(lambda x: torch.ops.torchcalyx_tests.wiggle(x))
    assert "torchcalyx_tests.wiggle (node 'wiggle', float32[2, 3] -> float32[2, 3])" in text


def test_custom_operators_of_known_tensors_are_computed() -> None:
    known = torch.ones(3)
    graph = normalize(capture(Function(lambda x: x + torch.ops.torchcalyx_tests.wiggle(known)), (X,)))
    assert [n.op for n in graph.nodes] == ["input", "constant", "add"]
    assert graph.constants[graph.nodes[1].name].tolist() == [2, 2, 2]


def test_unused_operations_are_no_refusal() -> None:
    graph = normalize(capture(Function(lambda x: (x.exp(), x + 1)[1]), (X,)))
    assert [n.op for n in graph.nodes] == ["input", "constant", "add"]


def test_parameters_that_are_not_finite_are_named() -> None:
    linear = nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight[1, 2] = float("nan")
        linear.bias[:] = float("inf")
    with pytest.raises(CaptureError) as caught:
        normalize(capture(nn.Sequential(linear), (X,)))
    assert str(caught.value).splitlines()[1:] == [
        "  - parameter '0.weight' holds nan at index [1, 2] (1 of 6 values)",
        "  - parameter '0.bias' holds inf at index [0] (2 of 2 values)",
    ]


def test_the_name_survives_folding() -> None:
    weight = nn.Parameter(torch.full((2, 3), float("nan")))
    module = Function(lambda x: x @ (weight.t() * 2))
    module.weight = weight
    with pytest.raises(CaptureError, match="parameter 'weight' holds nan"):
        normalize(capture(module, (X,)))


def test_unused_parameters_may_hold_anything() -> None:
    module = Function(lambda x: F.relu(x))
    module.unused = nn.Parameter(torch.tensor(float("nan")))
    assert normalize(capture(module, (X,))).constants == {}
