"""The judge by PyTorch's operator database: what is right, wrong, refused; and a part of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import torchcalyx
from benchmarks import coverage
from benchmarks.opdb import workers
from benchmarks.opdb.findings import Finding, as_json, by_kind, details, summary, table
from benchmarks.opdb.kinds import KINDS, kind
from benchmarks.opdb.reasons import missing, principle
from benchmarks.opdb.samples import LARGEST, Sample, drawn, operators, samples
from benchmarks.opdb.trial import Outcome, trial
from benchmarks.opdb.workers import Work, run_all

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

X = torch.tensor([[1.0, -0.5, 0.25], [8.0, 4.0, -2.0]])


def sample(operator: Any, *args: Any, **kwargs: Any) -> Sample:
    leaves, spec = pytree.tree_flatten((args, kwargs))
    return Sample(operator, tuple(leaves), spec)


def test_a_sample_is_right_wrong_refused_foreign_or_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial(sample(torch.mul, X, 2.0)).verdict == "right"
    none = trial(sample(torch.zeros, 3))
    assert (none.verdict, none.reason) == ("not applicable", "no tensor among the arguments")
    assert trial(sample(torch.mm, X, X)).reason == "eager raises"
    sized = trial(sample(torch.nonzero, X))
    assert (sized.verdict, sized.reason, sized.principle) == ("refused", "result depends on data", True)
    unknown = trial(sample(torch.linalg.eigvalsh, X[:, :2]))
    assert (unknown.verdict, unknown.principle) == ("refused", False)

    def twice(*arguments: Any) -> Any:
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as patched:
        patched.setattr("torchcalyx.compile", twice)
        died = trial(sample(torch.mul, X, 2.0))
    assert (died.verdict, died.reason, died.message) == (
        "foreign",
        "ZeroDivisionError",
        "ZeroDivisionError: by zero",
    )
    monkeypatch.setattr("torchcalyx.CompiledModule.emulate", lambda hw, *inputs: inputs[0])
    assert trial(sample(torch.mul, X, 2.0)).message.startswith("8 for 16 at (1, 0)")


def test_tensors_anywhere_in_the_arguments_become_inputs() -> None:
    nested = sample(lambda parts, *, by: parts[0] * by["scale"] + parts[1], [X, X], by={"scale": X})
    assert len(nested.tensors) == 3
    assert torch.equal(nested.module()(X, X + 1, X + 2), X * (X + 2) + X + 1)


def test_wide_runs_replace_types_given_as_arguments() -> None:
    summed = sample(torch.sum, X, dtype=torch.float32)
    assert summed.module(wide=True)(X.double()).dtype == torch.float64
    assert summed.module()(X).dtype == torch.float32


@pytest.mark.needs("calyx", "calyx-py", "verilator")
def test_hardware_is_compared_with_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = trial(sample(torch.mul, X, 2.0), rtl=True)
    assert found.verdict == "right"
    assert found.cycles > 0
    simulate = torchcalyx.CompiledModule.simulate

    def reason(**changed: Any) -> str:
        monkeypatch.setattr(
            torchcalyx.CompiledModule, "simulate", lambda hw, *i: replace(simulate(hw, *i), **changed)
        )
        return trial(sample(torch.mul, X, 2.0), rtl=True).reason

    assert reason(cycles=found.cycles + 1) == "cycles"
    assert reason(outputs=X) == "hardware differs from its model"


def test_a_refusal_of_principle_says_so() -> None:
    assert (
        principle("the model cannot be captured:\n  - random values: aten.rand at a.py:1 gives") == "random"
    )
    assert principle("no kernel yet for aten.svd") == ""
    assert (
        missing("a\n    decomposed from aten.x: no kernel yet for aten.atan\n")
        == "no kernel yet for aten.atan"
    )
    assert (
        missing("torch.export could not capture the model at a/b.py:46: Odd: it is") == "capture: Odd: it is"
    )
    assert missing("1 operation\n- aten.x\n    strange reason\n    hint: none") == "strange reason"


def test_samples_are_the_same_each_time_and_small() -> None:
    first, again = samples("index_select"), samples("index_select")
    assert len(first) > 1
    assert all(
        torch.equal(a, b)
        for s, r in zip(first, again, strict=True)
        for a, b in zip(s.tensors, r.tensors, strict=True)
    )
    assert max(sum(t.numel() for t in s.tensors) for s in samples("mm")) <= LARGEST
    assert len(samples("add", 2)) == 2
    assert all(t.dtype == torch.int64 for s in samples("gcd", 3) for t in s.tensors)


def test_operators_are_drawn_by_the_hash_of_their_names() -> None:
    names = list(operators())
    assert len(names) > 600
    assert drawn(names[::-1], 40) == drawn(names, 40)
    assert set(drawn(names, 40)) < set(drawn(names, 80))


def test_every_operator_has_a_kind() -> None:
    assert {kind(name) for name in operators()} == set(KINDS)
    assert kind("nn.functional.conv3d") == "products with computed weights, three dimensions"
    assert kind("special.bessel_j1") == "functions of one variable"


RIGHT, WRONG = Outcome("right"), Outcome("wrong", "value", "2 for 1", inputs="float32[2]")
REFUSED, NEVER = Outcome("refused", "no kernel yet for x"), Outcome("refused", "random", principle=True)
FOREIGN, VOID = Outcome("foreign", "KeyError", "KeyError: 3"), Outcome("not applicable", "eager raises")


@pytest.mark.parametrize(
    ("outcomes", "answer", "settled"),
    [
        ((RIGHT, RIGHT, VOID), "right", True),
        ((RIGHT, REFUSED), "partly", False),
        ((RIGHT, NEVER), "partly", True),
        ((REFUSED, NEVER), "refused", False),
        ((NEVER,), "refused", True),
        ((RIGHT, WRONG, REFUSED), "wrong", False),
        ((WRONG, FOREIGN), "foreign", True),
        ((VOID,), "not applicable", True),
        ((), "not applicable", True),
    ],
)
def test_an_operator_is_judged_by_all_its_samples(
    outcomes: tuple[Outcome, ...], answer: str, settled: bool
) -> None:
    finding = Finding("add", outcomes)
    assert (finding.answer, finding.settled) == (answer, settled)


def test_what_is_printed_names_faults_and_reasons() -> None:
    findings = [Finding("add", (RIGHT,)), Finding("atan", (REFUSED,)), Finding("cos", (WRONG,))]
    findings += [Finding("fmod", (FOREIGN,)), Finding("rand_like", (NEVER,)), Finding("sort", (RIGHT, NEVER))]
    assert summary(findings) == (
        "1 of 6 operators of PyTorch's operator database right, 1 partly (1 of them but for what no static "
        "hardware can mean), 2 refused (1 on principle), 1 wrong, 1 failing, 0 not applicable."
    )
    shown = details(findings)
    assert (
        "wrong: cos\n    value: 2 for 1\n        (float32[2])\nforeign: fmod\n    KeyError: KeyError: 3"
        in shown
    )
    assert [line.split()[:2] for line in shown.splitlines() if " random " in line] == [
        ["principle:", "random"]
    ]
    assert "refused  atan: no kernel yet for x" in by_kind(findings)
    assert table(findings).splitlines()[-1].split() == ["all", "1", "1", "2", "1", "1", "0", "6"]
    assert as_json(findings)["operators"]["sort"]["answer"] == "partly"


forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing is loaded beforehand, and the threads of this process stay."""
    monkeypatch.setattr(workers, "_warm_up", lambda: None)
    yield monkeypatch


def run(names: list[str], seconds: float = 60) -> dict[str, list[Outcome]]:
    return dict(run_all(names, Work(1, False, seconds), jobs=2))


@forks
def test_an_operator_that_hangs_or_dies_is_a_finding(few: pytest.MonkeyPatch) -> None:
    def fate(s: Sample, rtl: bool) -> Outcome:
        if s.operator is operators()["add"].op:
            time.sleep(600)
        if s.operator is operators()["mul"].op:
            os._exit(7)
        return RIGHT

    few.setattr(workers, "trial", fate)
    found = run(["add", "mul", "sin"], seconds=5)
    assert found["add"] == [Outcome("foreign", "too long", "no answer within 5 s")]
    assert found["mul"] == [Outcome("foreign", "died", "its process ended (exit code 7)")]
    assert found["sin"] == [RIGHT]


@forks
def test_a_fault_is_the_exit_code(
    few: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few.setattr(workers, "trial", lambda s, rtl: RIGHT if s.operator is operators()["sin"].op else WRONG)
    arguments = ["--samples", "1", "--operator", "sin", "--json", str(tmp_path / "found.json")]
    few.setattr(coverage, "chosen", lambda texts, count: ["sin"])
    assert coverage.main(arguments) == 0
    assert json.loads((tmp_path / "found.json").read_text())["operators"]["sin"]["answer"] == "right"
    few.setattr(coverage, "chosen", lambda texts, count: ["sin", "cos"])
    assert coverage.main(arguments) == 1
    assert "wrong: cos" in capsys.readouterr().out
    few.undo()
    assert coverage.main(["--operator", "no such name"]) == 2
    with pytest.raises(SystemExit):
        coverage.main(["--readme", "--samples", "1"])


def test_the_line_of_the_readme_stands_behind_its_mark() -> None:
    changed = coverage.with_line(README, "5 of 7 right.")
    assert "-->\n5 of 7 right.\n\n" in changed
    assert changed != README
    (line,) = coverage.MARKED.findall(README)
    assert coverage.with_line(changed, line) == README
    with pytest.raises(ValueError, match="no place for the line"):
        coverage.with_line("nothing", "5 of 7 right.")


def command(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the command finds; the process is a new one, since operators run in forks of it."""
    path = folder / "found.json"
    words = [sys.executable, "-m", "benchmarks.coverage", "--jobs", "2", "--json", str(path), *arguments]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    found = json.loads(path.read_text())
    assert not [n for n, o in found["operators"].items() if o["answer"] in ("wrong", "foreign")]
    return found


def right(found: dict[str, Any]) -> int:
    return sum(o["answer"] == "right" for o in found["operators"].values())


DRAWN, RIGHT_OF_DRAWN = 300, 215


def test_a_part_of_the_database_is_answered(tmp_path: Path) -> None:
    found = command(tmp_path, "--samples", "1", "--drawn", str(DRAWN))
    assert len(found["operators"]) == DRAWN
    assert right(found) >= RIGHT_OF_DRAWN, found["summary"]


@pytest.mark.slow
def test_the_whole_database_is_answered_as_the_readme_says(tmp_path: Path) -> None:
    found = command(tmp_path, "--samples", str(coverage.README_SAMPLES))
    (line,) = coverage.MARKED.findall(README)
    assert line == found["summary"], "run: python -m benchmarks.coverage --readme"


@pytest.mark.slow
@pytest.mark.needs("calyx", "calyx-py", "verilator")
def test_fifty_operators_are_right_in_hardware(tmp_path: Path) -> None:
    found = command(tmp_path, "--samples", "1", "--drawn", "50", "--rtl")
    assert right(found) >= 24, found["summary"]
