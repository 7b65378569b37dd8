"""Masks where the user gives the number format: a masked position has probability 0 wherever the format
reaches far enough below the scores, and where it does not, compiling names the tensor and the best point.
"""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import Tensor

import torchcalyx
from tests.test_masks import CAUSAL, PADDED, SOME_BLIND, WAYS, Way, call, compare, module, wanted
from torchcalyx.errors import AccuracyWarning

ABSORBING = [way for way in WAYS if way.name != "add -1e4"]
UNITS = 4
"""Units in the last place by which weights and result may err for each key."""


def compiled(way: Way, hidden: Tensor, precision: str | dict[str, str]) -> torchcalyx.CompiledModule:
    samples = [call(way, hidden, seed) for seed in range(2)]
    return torchcalyx.compile(module(way, hidden), samples[0], calibration=samples, precision=precision)


@pytest.mark.parametrize("precision", ["fixed16.8", "fixed16.9", "fixed24.12", "fixed32.16"])
@pytest.mark.parametrize("way", ABSORBING, ids=lambda way: way.name)
def test_a_format_that_reaches_below_the_scores_holds_the_mask(way: Way, precision: str) -> None:
    """Without a word, at compile time and at the calls: warnings are errors here."""
    hw = compiled(way, CAUSAL, precision)
    for seed in range(3):
        weights, result = (x.double() for x in hw.emulate(*call(way, CAUSAL, seed)))
        exact, exact_result = wanted(way, CAUSAL, seed)
        assert torch.all(weights[CAUSAL] == 0)
        limit = UNITS * len(CAUSAL) * 2.0 ** -int(precision.split(".")[1])
        assert (weights - exact).abs().max() <= limit and (result - exact_result).abs().max() <= limit


@pytest.mark.parametrize("way", [w for w in ABSORBING if w.kind != "constant"], ids=lambda way: way.name)
def test_a_mask_that_is_an_input_may_change(way: Way) -> None:
    hw = compiled(way, CAUSAL, "fixed32.16")
    compare(way, PADDED, hw.emulate(*call(way, PADDED)))
    if not way.nan:
        compare(way, SOME_BLIND, hw.emulate(*call(way, SOME_BLIND)))


@pytest.mark.parametrize(
    "way", [w for w in ABSORBING if w.uniform and w.name != "tril"], ids=lambda w: w.name
)
def test_a_fully_masked_row_weighs_all_keys_alike(way: Way) -> None:
    hw = compiled(way, SOME_BLIND, "fixed16.9")
    weights, _ = hw.emulate(*call(way, SOME_BLIND))
    blind = weights[SOME_BLIND.all(-1)]
    assert torch.all((blind - 1 / len(CAUSAL)).abs() <= 2.0**-9)


@pytest.mark.parametrize("way", ABSORBING, ids=lambda way: way.name)
def test_a_format_that_does_not_is_named_with_the_best_one(way: Way) -> None:
    """The binary point that is recommended works."""
    with pytest.warns(AccuracyWarning) as told:
        compiled(way, CAUSAL, "fixed16.11")
    text = str(told[0].message)
    row = re.search(
        r"fixed16\.11 for (constant|input) '[^']+': .* with values up to ([0-9.]+); (\S+) fits", text
    )
    assert row is not None, text
    assert 30 < float(row[2]) < 64 and row[3] == "fixed16.9", text


def test_a_format_for_the_mask_alone() -> None:
    """Patterns over module paths: the mask belongs to the model, everything else too."""
    way = WAYS[0]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled(way, CAUSAL, {"": "fixed16.12"})
    assert any("for constant 'mask'" in str(w.message) and "fits best" in str(w.message) for w in told)
