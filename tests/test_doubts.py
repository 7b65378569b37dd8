"""What compilation warns of: constant calibration, formats that do not hold the calibration data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.models import Function
from torchcalyx.errors import AccuracyWarning

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    """A layer and a function of it; weights of size 0.5, a tiny bias."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        with torch.no_grad():
            self.layer.bias.copy_(torch.tensor([1e-3, -1e-3, 5e-4]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x))


def texts(module: Any, *inputs: Tensor, **options: Any) -> list[str]:
    """The warnings of a compilation; each stands at the line of the call."""
    module = module if isinstance(module, nn.Module) else Function(module)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torchcalyx.compile(module.eval(), inputs, **{"multipliers": 4, "tolerance": math.inf, **options})
    assert all(w.category is AccuracyWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


def two(x: Tensor, y: Tensor) -> Tensor:
    return x * y


ZEROS, ONES = torch.zeros(2, 4), torch.ones(2, 4)


def test_a_constant_calibration_is_named() -> None:
    assert texts(Net(), ZEROS) == [
        "argument 'x' (0 everywhere): calibration has seen one value only, and the result depends on it, so "
        "the number formats may not hold what real calls bring; give typical values as example inputs or as "
        "calibration=[...]"
    ]
    (text,) = texts(two, ZEROS, -2.5 * ONES)
    assert text.startswith("arguments 'args[0]' (0 everywhere), 'args[1]' (-2.5 everywhere): calibration")
    (text,) = texts(two, X, X, calibration=[(X, ONES), (2 * X, ONES)])
    assert text.startswith("argument 'args[1]' (1 everywhere): ")


SILENT: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], dict[str, Any]]] = {
    "values that differ": (two, (X, X), {}),
    "constants that differ between samples": (two, (X, X), {"calibration": [(X, ZEROS), (X, ONES)]}),
    "one element": (two, (X, torch.ones(1)), {}),
    "a scalar": (two, (X, torch.tensor(0.0)), {}),
    "integers": (two, (X.to(torch.int32), ZEROS.to(torch.int32)), {}),
    "bools": (lambda x, m: torch.where(m, x, -x), (X, ONES.bool()), {}),
    "no result depends on it": (lambda x, y: x + 1, (X, ZEROS), {}),
    "formats of the user alone": (two, (X, ONES), {"precision": "fixed16.10"}),
    "a bias much smaller than what it is added to": (Net(), (X,), {"precision": "fixed16.8"}),
    "a residual as well": (lambda x, y: x + y.view(1, 4) + 1, (X, 1e-4 * X[1]), {"precision": "fixed16.8"}),
    "a constant smaller than any unit": (lambda x: x * x + 1e-5, (X,), {"precision": "fixed16.8"}),
    "full range, one unit above": (two, (X, X), {"precision": "fixed8.7"}),
    "zeros inside": (lambda x: x * torch.zeros(4), (X,), {"precision": "fixed16.8"}),
    "calibrated bits": (Net(), (X,), {"precision": "fixed8"}),
    "little headroom": (Net(), (X,), {"headroom": 4}),
    "integers only": (lambda x: x + 1, (torch.arange(4),), {"precision": "fixed16.40"}),
}


@pytest.mark.parametrize("case", SILENT)
def test_what_is_in_order_is_not_warned_of(case: str) -> None:
    module, inputs, options = SILENT[case]
    assert texts(module, *inputs, **options) == []


@pytest.mark.parametrize(
    ("precision", "kind"),
    [
        ("fixed2.1", "2 bits are too few with any binary point"),
        ("fixed8.12", "fixed8.6 fits best"),
        ("fixed16.40", "fixed16.14 fits best"),
        ("fixed16.-3", "fixed16.14 fits best"),
        ({"*": "fixed16", "": "fixed16.40"}, None),  # the first pattern wins: nothing is fixed
    ],
)
def test_formats_that_cannot_hold_the_data_are_named_with_the_best_binary_point(
    precision: Any, kind: str | None
) -> None:
    found = texts(Net(), X, precision=precision)
    if kind is None:
        assert found == []
        return
    (text,) = found
    lines = text.splitlines()
    assert "tensors do not fit the formats chosen by precision or headroom:" in lines[0]
    (line,) = (line for line in lines if "input 'x'" in line)
    assert line.startswith(f"  {precision} for input 'x': ") and line.endswith(f"values up to 1; {kind}")
    assert any("constant 'layer.weight'" in line for line in lines)
    assert lines[-1] == (
        "what to do: give fixed8, fixed16 or fixed32 alone, and calibration chooses the binary point of each "
        "tensor"
    )


def test_the_numbers_of_a_misfit_are_those_of_the_data() -> None:
    class Sums(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cumsum(x, 0)  # the sums

    line = next(i for i, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the sums" in t)
    (text,) = texts(Sums(), torch.tensor([0.25, 1.0, 2.0, -4.0]), precision="fixed8.6")  # -2 to 1.984
    assert text.splitlines()[:3] == [
        "2 of 2 tensors do not fit the formats chosen by precision or headroom:",
        # -4 becomes -2; 2 is stored as 1.984
        "  fixed8.6 for input 'x': 2 of 4 elements saturate, error 50 % with values up to 4; "
        "fixed8.4 fits best",
        # 0.25, 1.25, 3.25, -0.75: 3.25 becomes 1.984
        f"  fixed8.6 for node 'cumsum' at {__file__}:{line}: 1 of 4 elements saturate, error 38.9 % with "
        "values up to 3.25; fixed8.5 fits best",
    ]


def test_only_the_tensors_of_a_mapping_that_are_fixed_are_judged() -> None:
    (text,) = texts(Net(), X, precision={"layer": "fixed16.40"})
    assert "constant 'layer.weight'" in text and "input 'x'" not in text


def test_headroom_that_leaves_no_bits_is_named() -> None:
    (text,) = texts(Net(), X, headroom=16)
    assert "input 'x'" in text and "layer.weight" not in text  # parameters are known: no headroom for them
    assert text.splitlines()[-1].startswith("what to do: lower headroom, or give fixed8,")


def test_the_first_call_warns_too_at_its_own_line() -> None:
    hw = torchcalyx.compile(Net().eval())
    with pytest.warns(AccuracyWarning) as caught:
        hw.emulate(ZEROS)
    (warning,) = caught
    assert warning.filename == __file__ and "'x' (0 everywhere)" in str(warning.message)
