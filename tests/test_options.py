"""Options: validation, unknown names, and for every field a test that shows that it matters."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from torchcalyx.errors import OptionsError
from torchcalyx.kernels.numerics import NumberFormat, fixed, integer
from torchcalyx.options import Options, resolve_precision

KNOWN = [f.name for f in dataclasses.fields(Options)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"precision": "fixed"},
            "precision 'fixed' is not one of fixed8, fixed16, fixed32, a NumberFormat, a text such as "
            "'fixed16.8', or a mapping from module paths to these",
        ),
        ({"precision": integer(8)}, "precision int8 is not a signed fixed-point format"),
        ({"precision": "ufixed8.4"}, "precision ufixed8.4 is not a signed fixed-point format"),
        ({"precision": 16}, "precision 16 is not one of"),
        ({"precision": {"layer.*": "float99"}}, "precision 'float99' is not one of"),
        ({"multipliers": 0}, "multipliers must be a whole number from 1 to 65536, not 0"),
        ({"multipliers": True}, "multipliers must be a whole number from 1 to 65536, not True"),
        ({"multipliers": 2.0}, "multipliers must be a whole number from 1 to 65536, not 2.0"),
        ({"lanes": 0}, "lanes must be a whole number from 1 to 1024, not 0"),
        (
            {"lanes": 8, "multipliers": 4},
            "lanes=8 exceeds multipliers=4: an elementwise product needs one multiplier a lane; raise "
            "multipliers or lower lanes",
        ),
        ({"schedule": "throughput"}, "schedule must be one of 'latency', not 'throughput'"),
        ({"share": 1}, "share must be True or False, not 1"),
        ({"simulator": "modelsim"}, "simulator must be one of 'verilator', 'icarus', not 'modelsim'"),
        ({"unsupported": "ignore"}, "unsupported must be one of 'error', not 'ignore'"),
        ({"multiplier_stages": 4}, "multiplier_stages must be a whole number from 1 to 3, not 4"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_values_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=f"^{re.escape(message)}"):
        Options(**fields)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(OptionsError) as caught:
        Options.of(None, {"precison": "fixed8"})
    expected = f"unknown option 'precison' (did you mean 'precision'?); known options: {', '.join(KNOWN)}"
    assert str(caught.value) == expected
    with pytest.raises(OptionsError) as caught:
        Options.of({"zzz": 1}, {})
    assert str(caught.value) == f"unknown option 'zzz'; known options: {', '.join(KNOWN)}"


def test_options_must_be_options_or_a_mapping() -> None:
    with pytest.raises(OptionsError, match="^options must be an Options or a mapping, not list$"):
        Options.of([("lanes", 2)], {})  # type: ignore[arg-type]


def test_overrides_win_over_options() -> None:
    base = Options(precision="fixed8", lanes=4)
    assert Options.of(base, {"lanes": 2}) == Options(precision="fixed8", lanes=2)
    assert Options.of({"precision": "fixed8", "lanes": 4}, {"lanes": 2}) == Options(
        precision="fixed8", lanes=2
    )
    assert Options.of(None, {}) == Options()
    assert base.lanes == 4


@pytest.mark.parametrize(
    ("multipliers", "lanes"), [(1, 1), (3, 1), (4, 2), (15, 2), (16, 4), (64, 8), (255, 8), (256, 16)]
)
def test_lanes_follow_from_the_multipliers(multipliers: int, lanes: int) -> None:
    assert Options(multipliers=multipliers).lane_count == lanes
    assert Options(multipliers=multipliers, lanes=1).lane_count == 1


@pytest.mark.parametrize(
    ("precision", "resolved"),
    [("fixed8", 8), ("fixed32", 32), ("fixed16.8", fixed(16, 8)), (fixed(12, 3), fixed(12, 3))],
    ids=str,
)
def test_precisions(precision: Any, resolved: int | NumberFormat) -> None:
    assert resolve_precision(precision) == resolved


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().lanes = 3  # type: ignore[misc]
