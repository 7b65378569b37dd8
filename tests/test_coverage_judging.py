"""What counts as right beside eager PyTorch, in the benchmark of its operator database."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks.opdb.judging import judge

X = torch.tensor([[1.0, -0.5, 0.25], [8.0, 4.0, -2.0]])


def wrong(got: Any, eager: Any, ideal: Any = None) -> str:
    wide = pytree.tree_map(
        lambda t: t.double() if isinstance(t, Tensor) and t.is_floating_point() else t, eager
    )
    return judge(got, eager, wide, [] if ideal is None else [ideal]).wrong


def test_a_small_error_is_right_and_its_share_of_what_is_allowed_is_told() -> None:
    judged = judge(X + 2.0**-8, X, X.double(), [X.double()])
    allowed = 2.0**-7 * 1.0 + 2.0**-12 * 8.0  # of the first row, whose largest element is 1
    assert judged.wrong == ""
    assert judged.error == pytest.approx(2.0**-8 / allowed)


def test_an_error_is_judged_against_its_own_row() -> None:
    off = torch.tensor([[0.0, 0.0, 0.0], [0.05, 0.0, 0.0]])
    assert wrong(X + off, X) == ""
    assert wrong(X + off.flip(0), X) == "1.05 for 1 at (0, 0), 0.0098 allowed"


def test_what_the_rounding_of_the_inputs_causes_is_allowed_twice() -> None:
    ideal = X.double() + 0.1
    assert wrong(X + 0.2, X, ideal) == ""
    assert wrong(X + 0.3, X, ideal).startswith("-0.2 for -0.5 at (0, 1)")


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (X[:1], "float32[1, 3], eager has float32[2, 3]"),
        (X.double(), "float64[2, 3], eager has float32[2, 3]"),
        ((X, X), "2 results, eager has 1"),
        (4, "a int, eager has a tensor"),
        (torch.full_like(X, math.nan), "nan for 1 at (0, 0), 0.0098 allowed"),
    ],
)
def test_another_shape_dtype_or_number_of_results_is_wrong(got: Any, text: str) -> None:
    assert wrong(got, X) == text


def test_every_result_is_judged() -> None:
    assert wrong([X, X.clone()], (X, X)) == ""
    assert wrong([X, X + 1], (X, X)).startswith("result 1: 2 for 1 at (0, 0)")
    assert wrong([X, 3], (X, 4)) == "result 1: 3, eager has 4"


def test_integers_are_exact_unless_the_rounded_inputs_give_others() -> None:
    eager = torch.tensor([3, 5])
    assert wrong(torch.tensor([3, 5]), eager) == ""
    assert wrong(torch.tensor([3, 6]), eager) == "1 of 2 differ, first 6 for 5 at (1,)"
    assert wrong(torch.tensor([3, 6]), eager, torch.tensor([4, 6])) == ""
    assert wrong(torch.tensor([True]), torch.tensor([False])) == "1 of 1 differ, first True for False at (0,)"


def test_an_infinity_is_the_end_of_a_format() -> None:
    eager = torch.tensor([2.0, math.inf, -math.inf, math.nan])
    assert wrong(torch.tensor([2.0, 4.0, -4.0, 9.0]), eager) == ""
    assert wrong(torch.tensor([2.0, 4.0, 4.0, 0.0]), eager) == "4 for -inf at (2,)"
    assert wrong(torch.tensor([2.0, 1.0, -4.0, 0.0]), eager) == "1 for inf at (1,)"


def test_eager_is_the_reference_where_float64_means_another_number() -> None:
    eager, wide = torch.tensor([3.0e38, 1.0]), torch.tensor([1.7e308, 1.0], dtype=torch.float64)
    assert judge(eager.clone(), eager, wide, []).wrong == ""
    assert judge(torch.tensor([1.0e38, 1.0]), eager, wide, []).wrong


def test_complex_results_are_judged_as_pairs() -> None:
    eager = torch.complex(X, X)
    assert wrong(torch.complex(X, X + 2.0**-9), eager) == ""
    assert wrong(torch.complex(X, -X), eager)
