"""The benchmark of numbers: what counts as silent, as broken, and as the exit code."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import torchcalyx
from benchmarks import exactness, scales
from benchmarks.exactness import Exactness, worst
from benchmarks.scales import CASES, Case, Outcome, outcome
from tests.accuracy import Memories, Subject
from tests.models import Function
from tests.rowwise import OPS, calibration
from torchcalyx.kernels.arith.numerics import fixed

SOFTMAX = next(op for op in OPS if op.name == "softmax")


class Warned(UserWarning):
    """Stands for a warning of the project."""

    __module__ = "torchcalyx.errors"


def answers(result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compilation gives a program whose result is `result` (an exception is raised)."""

    class Program:
        stages = SimpleNamespace(selection=SimpleNamespace(inputs=[SimpleNamespace(fmt=fixed(16, 8))]))

        def emulate(self, *inputs: Tensor) -> Tensor:
            found = result(*inputs)
            assert isinstance(found, Tensor)
            return found

    def compiled(*arguments: Any, **options: Any) -> Program:
        if isinstance(result, Exception):
            raise result
        return Program()

    monkeypatch.setattr(torchcalyx, "compile", compiled)


def twice() -> Case:
    return Case("twice", "", "", lambda: Function(lambda x: 2 * x), lambda: (torch.ones(2, 3),))


def test_a_wrong_result_without_a_word_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(lambda x: 3 * x, monkeypatch)
    found = outcome(twice(), "fixed16")
    assert (found.error, found.share, found.said, found.silent) == (1.0, 0.5, (), True)
    assert str(found) == "100 %, no word"


def test_a_result_within_the_tolerance_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(lambda x: 2.0625 * x, monkeypatch)
    assert not outcome(twice(), "fixed16").silent
    answers(lambda x: 2.063 * x, monkeypatch)
    assert outcome(twice(), "fixed16").silent
    answers(lambda x: x * math.nan, monkeypatch)
    assert outcome(twice(), "fixed16").silent


def test_only_warnings_of_the_project_are_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def warned(category: type[Warning]) -> Any:
        def run(x: Tensor) -> Tensor:
            warnings.warn("inaccurate", category, stacklevel=1)
            return 3 * x

        return run

    answers(warned(UserWarning), monkeypatch)
    assert outcome(twice(), "fixed16").silent
    answers(warned(Warned), monkeypatch)
    found = outcome(twice(), "fixed16")
    assert not found.silent and str(found) == "100 %, Warned"


def test_a_refusal_is_a_word_and_a_foreign_exception_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(torchcalyx.OptionsError("no"), monkeypatch)
    refused = outcome(twice(), "fixed16")
    assert (str(refused), refused.silent) == ("OptionsError", False)
    answers(OverflowError("too many digits"), monkeypatch)
    stopped = outcome(twice(), "fixed16")
    assert (str(stopped), stopped.silent) == ("OverflowError", True)


def test_errors_are_measured_by_row_channel_and_element() -> None:
    real = torch.tensor([[1.0, 4.0], [10.0, 20.0]], dtype=torch.float64)
    got = real + torch.tensor([[0.0, 1.0], [5.0, 0.0]])
    assert scales.of_row(got, real).tolist() == [0.25, 0.25]
    assert scales.of_column(got, real).tolist() == [0.5, 0.05]
    assert scales.of_each(got, real).tolist() == [[0, 0.25], [0.5, 0]]
    assert scales.of_largest(got, real).tolist() == [[0, 0.05], [0.25, 0]]


def test_the_cases_are_the_lines_of_the_issue() -> None:
    names = [case.model for case in CASES]
    assert len(set(names)) == len(names) == 19
    decoder = scales.DecoderLayer()
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    with torch.no_grad():
        q, k, _ = decoder.qkv(decoder.before(x)).view(8, 3, 2, 8).permute(1, 2, 0, 3)
    largest = float((q @ k.transpose(-2, -1) / 8**0.5).abs().max())
    assert 6 < largest < 20, "scores near zero make a wrong softmax look right"
    constant = next(c for c in CASES if "constant" in c.model)
    assert len(torch.unique(constant.calibration()[0])) == 1


@pytest.mark.parametrize(("off", "broken"), [(0.0, 0), (3.0, 192)])
def test_an_operation_is_measured_over_its_calls(off: float, broken: int) -> None:
    kept = Memories((fixed(16, 11),), fixed(16, 15), {})
    samples = tuple((x * 2**11).round() / 2**11 for x in calibration(SOFTMAX, "unlike", 1))

    def run(x: Tensor) -> Tensor:
        stored = (torch.softmax((x.double() * 2**11).round() / 2**11, -1) * 2**15).round()
        return (stored.clamp(max=2**15 - 1) + off * 50) / 2**15

    judged = Subject("softmax", "fixed16", Function(lambda x: torch.softmax(x, -1)), kept, run, (samples,))
    found = worst(SOFTMAX, "fixed16", judged)
    assert (found.broken, found.elements, found.met) == (broken, 192, not broken)
    assert found.cells()[-1] == ("NO" if broken else "yes")


def test_the_exit_code_tells_of_either_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, silent = Outcome(0.0), Outcome(1.0, 1.0)
    fine, broken = Exactness("a", "fixed16", elements=9), Exactness("b", "fixed16", broken=2, elements=9)
    failed = Exactness("c", "fixed16", failed="OverflowError")
    for one, row, code in (
        (good, fine, 0),
        (silent, fine, 1),
        (good, broken, 1),
        (good, failed, 1),
    ):
        monkeypatch.setattr(exactness, "models", lambda quick, one=one: [(one,)] * len(CASES))
        monkeypatch.setattr(exactness, "twelve", lambda quick, row=row: [row])
        assert exactness.main("--quick") == code
        assert [figure.met for figure in exactness.figures(True)] == [not one.silent, row.met]
    shown = capsys.readouterr().out
    assert "2 of 9" in shown and "OverflowError" in shown
    assert exactness.main("--fast") == 2


def test_all_twelve_operations_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exactness, "exactness", lambda op, precision: Exactness(op.name, precision))
    assert len(exactness.twelve(True)) == 12
    assert len(exactness.twelve(False)) == 36


def test_scripts_beside_it_find_the_standard_library_s_numbers() -> None:
    folder = Path(exactness.__file__).parent
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import numbers; print(numbers.Integral.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "Integral\n", done.stderr
