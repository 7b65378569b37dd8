"""The goals of the benchmarks: predicted for every size, simulated where that takes a moment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import torchcalyx
from benchmarks import __main__ as summary
from benchmarks import batch_one, build_cost, digits, gemm, systolic_lang, vectors
from benchmarks.figures import Figure, run, show
from benchmarks.measure import measure, quick_simulator
from tests import tally
from torchcalyx.errors import ToolNotFound
from torchcalyx.tools.toolchain import crate_sources

WITH_GENERATOR = pytest.mark.skipif(
    not crate_sources(), reason="the source of the calyx crate is not on this machine"
)


def predicted(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> torchcalyx.CompiledModule:
    return torchcalyx.compile(module.eval(), inputs, **options)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_one_square_product_takes_three_times_its_size(size: int, stages: int) -> None:
    square = torch.rand(size, size)
    options = {"multipliers": size * size, "lanes": size, "multiplier_stages": stages}
    assert predicted(gemm.Product(), square, square + 0.1, **options).cycles == 3 * size + 1 + stages


@pytest.mark.parametrize(("rows", "inner", "cols"), systolic_lang.SIZES)
def test_one_product_is_shorter_than_the_generator_s(rows: int, inner: int, cols: int) -> None:
    a, b = torch.rand(rows, inner), torch.rand(inner, cols)
    for stages in (1, 3):
        options = {"multipliers": rows * cols, "lanes": cols, "multiplier_stages": stages}
        assert predicted(gemm.Product(), a, b, **options).cycles < inner + rows + cols + 5


@pytest.mark.parametrize(("size", "array"), [(64, 8), (128, 16)])
def test_streamed_products_keep_99_percent_of_the_multipliers_busy(size: int, array: int) -> None:
    a, b = torch.rand(size, size), torch.rand(size, size)
    hw = predicted(gemm.Product(), a, b, multipliers=array * array, lanes=array)
    assert hw.report().multipliers == array * array
    assert size**3 / (hw.cycles * array * array) >= 0.99


@pytest.mark.parametrize(
    ("widths", "multipliers", "goal"),
    [
        ((256, 256), 64, 1085),
        ((64, 48, 4), 16, 250),
        ((64, 48, 4), 64, 90),
        ((16, 64, 32, 32, 5), 64, 130),
    ],
)
def test_batch_one_programs_reach_their_goals(widths: tuple[int, ...], multipliers: int, goal: int) -> None:
    hw = predicted(batch_one.mlp(*widths), torch.rand(1, widths[0]), multipliers=multipliers)
    assert hw.cycles <= goal
    assert hw.report().multipliers <= multipliers


@pytest.mark.parametrize("name", vectors.FUNCTIONS)
def test_elementwise_chains_take_a_word_a_cycle(name: str) -> None:
    x, y = torch.rand(vectors.SIZE), torch.rand(vectors.SIZE)
    module = vectors.Elementwise(vectors.FUNCTIONS[name])
    assert predicted(module, x, y, multipliers=vectors.LANES, lanes=vectors.LANES).cycles <= 140


@pytest.mark.needs("calyx", "icarus")
def test_a_measured_product_is_simulated_and_compared() -> None:
    found = gemm.product(4, 4, 4)
    assert (found.cycles, found.calls) == (14, 2)
    tally.count(found.calls, found.calls)
    assert found.report.simulated_cycles == 14
    assert found.useful == pytest.approx(100 * 64 / (14 * 16))
    assert gemm.one_tile(4, stages=3) == Figure(
        "one 4x4x4 product, 4x4 array, 3 multiplier stages", 16, 10, None, calls=2
    )


@pytest.mark.needs("calyx", "icarus")
def test_a_measured_network_is_simulated_and_compared() -> None:
    found = measure(batch_one.mlp(12, 8, 3), torch.rand(1, 12), multipliers=16, simulator="icarus")
    assert found.report.macs == 12 * 8 + 8 * 3
    assert found.report.simulated_cycles == found.cycles
    tally.count(found.calls, found.calls)


@pytest.mark.needs("calyx", "icarus")
@pytest.mark.parametrize("wrong", ["emulate", "cycles"])
def test_hardware_that_differs_from_its_models_gives_no_figure(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced: dict[str, Any] = {
        "emulate": lambda self, a, b: torch.zeros(4, 4),
        "cycles": property(lambda self: 7),
    }
    monkeypatch.setattr(torchcalyx.CompiledModule, wrong, replaced[wrong])
    message = "model differ" if wrong == "emulate" else "14 cycles simulated, 7 predicted"
    with pytest.raises(AssertionError, match=message):
        gemm.product(4, 4, 4)


@WITH_GENERATOR
@pytest.mark.needs("calyx", "icarus")
@pytest.mark.parametrize(("rows", "inner", "cols"), [(2, 3, 2), (1, 4, 3), (4, 4, 4)])
def test_the_generator_s_cycles_are_measured(rows: int, inner: int, cols: int) -> None:
    assert systolic_lang.cycles(rows, inner, cols, fixed=False) == inner + rows + cols + 6
    assert systolic_lang.cycles(rows, inner, cols, fixed=True) == inner + rows + cols + 5


@WITH_GENERATOR
@pytest.mark.needs("calyx", "icarus")
def test_a_wrong_generated_array_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = systolic_lang._simulate
    monkeypatch.setattr(
        systolic_lang,
        "_simulate",
        lambda *arguments: (simulated(*arguments)[0] + 1, simulated(*arguments)[1]),
    )
    with pytest.raises(AssertionError, match="computes something else"):
        systolic_lang.cycles(2, 3, 2, fixed=True)


def test_a_missing_generator_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systolic_lang, "crate_sources", lambda: [])
    with pytest.raises(ToolNotFound, match="Fetch it with: cargo install calyx --version"):
        systolic_lang.generator()


def test_short_calls_are_simulated_without_icarus_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ToolNotFound(name)

    monkeypatch.setattr("benchmarks.measure.find_tool", missing)
    assert quick_simulator() == "verilator"


def test_digits_are_figures_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits.digits_mlp, "train", lambda x, y: torch.nn.Linear(64, 10))
    ran = []

    def hardware(
        net: torch.nn.Module, precision: str, seen: torch.Tensor, x: torch.Tensor
    ) -> tuple[torch.Tensor, bool, int]:
        ran.append(precision)
        with torch.no_grad():
            return net(x), True, 8

    monkeypatch.setattr(digits.digits_mlp, "run_in_hardware", hardware)
    found = digits.figures(True)
    assert ran == ["fixed16", "fixed8", "auto"]
    assert [figure.reached == figure.bound for figure in found] == [True, True, True]
    assert [round(figure.bound - figure.goal, 6) for figure in found] == [0, 1, 1]  # type: ignore[operator]
    assert [figure.calls for figure in found] == [60, 60, 60]


def test_digits_give_no_figure_when_the_hardware_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits.digits_mlp, "train", lambda x, y: torch.nn.Linear(64, 10))
    monkeypatch.setattr(
        digits.digits_mlp,
        "run_in_hardware",
        lambda net, precision, seen, x: (torch.zeros(len(x), 10), False, 8),
    )
    with pytest.raises(AssertionError, match="fixed16: the hardware does not do"):
        digits.figures(True)


@pytest.mark.needs("calyx")
def test_an_engine_is_compiled_within_a_gigabyte() -> None:
    seconds, memory = build_cost.figures(True)
    assert seconds.reached > 0
    assert memory.met
    assert memory.reached > 100  # torch alone is larger


@pytest.mark.parametrize(
    ("figure", "met", "cells"),
    [
        (Figure("a", 14, 10, 14), True, ("a", "cycles", "10", "14", "1.400", "<= 14", "yes")),
        (Figure("a", 15, 10, 14), False, ("a", "cycles", "10", "15", "1.500", "<= 14", "NO")),
        (Figure("a", 15, 10), True, ("a", "cycles", "10", "15", "1.500", "", "")),
        (Figure("a", 98.5, 100, 99, "%", True), False, ("a", "%", "100", "98.50", "0.985", ">= 99", "NO")),
        (Figure("a", 99.5, 100, 99, "%", True), True, ("a", "%", "100", "99.50", "0.995", ">= 99", "yes")),
        (Figure("a", 3.25, goal=5, unit="s"), True, ("a", "s", "", "3.25", "", "<= 5", "yes")),
    ],
)
def test_a_figure_states_its_goal(figure: Figure, met: bool, cells: tuple[str, ...]) -> None:
    assert figure.met is met
    assert figure.cells() == cells


def test_a_table_has_a_line_for_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    show("Products", [Figure("small", 14, 10, 14), Figure("large", 150, 46)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Products"
    assert [line.split()[0] for line in lines[-2:]] == ["small", "large"]


@pytest.mark.parametrize(("reached", "code"), [(14, 0), (15, 1)])
def test_a_missed_goal_is_the_exit_code(
    reached: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gemm", "--quick"])
    assert run("Products", lambda quick: [Figure(f"quick {quick}", reached, goal=14)]) == code
    assert "quick True" in capsys.readouterr().out


def test_the_summary_counts_goals_and_calls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Figure("kept", 14, goal=14, calls=2),
        Figure("lost", 15, goal=14, calls=3),
        Figure("said", 9, calls=1),
    ]
    module = SimpleNamespace(TITLE="Products", figures=lambda quick: rows)
    monkeypatch.setattr(summary, "MODULES", (module,))
    assert summary.main("--quick") == 1
    shown = capsys.readouterr().out
    assert "6 calls of simulated hardware" in shown
    assert "1 of 2 goals met\n  missed: lost\n" in shown
    rows.remove(rows[1])
    assert summary.main() == 0


def test_unknown_arguments_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summary.main("--fast") == 2
    monkeypatch.setattr("sys.argv", ["gemm", "--fast"])
    assert run("Products", lambda quick: []) == 2
    assert capsys.readouterr().err.count("unknown argument --fast; the only one is --quick") == 2


def test_a_missing_tool_stops_its_own_benchmark_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(quick: bool) -> list[Figure]:
        raise ToolNotFound("no generator")

    modules = (
        SimpleNamespace(TITLE="Beside", figures=lacking),
        SimpleNamespace(TITLE="Products", figures=lambda quick: [Figure("kept", 14, goal=14)]),
    )
    monkeypatch.setattr(summary, "MODULES", modules)
    assert summary.main() == 1
    shown = capsys.readouterr().out
    assert "Beside: not run\n\nno generator" in shown
    assert shown.endswith("1 of 1 goals met\n  not run: Beside\n")


def test_every_benchmark_with_goals_is_run_by_the_summary() -> None:
    folder = Path(summary.__file__).parent
    named = {path.stem for path in folder.glob("*.py") if "\ndef figures(quick" in path.read_text()}
    assert {module.__name__.split(".")[1] for module in summary.MODULES} == named
