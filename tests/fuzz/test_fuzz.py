"""A few random graphs in every run (`make fuzz` runs more), and the tests of the testers."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch import nn

import torchcalyx
from tests import tally
from tests.fuzz.__main__ import run, save, signature
from tests.fuzz.bounds import error_bounds
from tests.fuzz.graphs import graphs, program
from tests.fuzz.minimise import minimise
from tests.fuzz.multipliers import count_multipliers
from tests.fuzz.program import Line, Program, load
from tests.fuzz.runner import Failure, judge

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))

SMALL = Program(
    inputs=(("x0", "torch.randn([3, 5]).clamp(-3, 3)"), ("x1", "torch.randint(-9, 9, [5])")),
    setup=("self.member0 = nn.Linear(5, 4)",),
    lines=(
        Line("v1", "self.member0(x0)"),
        Line("v2", "torch.relu(v1)"),
        Line("v3", "v2.clone()"),
        Line("", "v3[1:, 0] = 2.0"),
        Line("v4", "x1 * 3"),
    ),
    result=("v3", "v4", "x0"),
    shape="({}, [{}, {}])",
    options={"simulator": "icarus", "multipliers": 8, "lanes": 2},
)


@pytest.mark.needs("calyx", "calyx-py", "icarus", "verilator")
@given(graphs())
@settings(
    max_examples=EXAMPLES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
)
def test_random_graphs(graph: Program) -> None:
    verdict = run(graph)
    tally.count(vectors=verdict.vectors, cycles=verdict.cycles)
    assert verdict.failure is None, (
        f"{verdict.failure}\nRun this file in the folder fuzz-failures:\n{graph.source}"
    )


def test_programs_are_valid_and_reproducible() -> None:
    """Torch runs what is generated; the same seed gives the same text, another seed another."""
    texts = [program(Random(seed)).source for seed in range(60)]
    assert len(set(texts)) == len(texts)
    assert texts[7] == program(Random(7)).source
    for text in texts:
        loaded = load(text)
        model, (vector, *_) = loaded.make_model(), loaded.make_vectors()
        with torch.no_grad():
            first, second = model(*vector), loaded.make_model()(*loaded.make_vectors()[0])
        leaves = zip(
            torch.utils._pytree.tree_leaves(first), torch.utils._pytree.tree_leaves(second), strict=True
        )
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in leaves)


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_a_correct_program_passes_and_its_file_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(SMALL).failure is None
    path = save(tmp_path / "fuzz-failures", 3, SMALL, Failure("a kind", 'quotes """ and \\ survive'))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert not ended.value.code
    assert capsys.readouterr().out == "all checks passed on 4 vectors\n"


class Unsteady(nn.Module):
    """Gives another result after the calls that make the expected values."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * (1.0 if self.calls == 1 else 1.001)


def test_a_wrong_value_is_seen() -> None:
    x = torch.full((4,), 2.0)
    failure = judge(Unsteady, lambda: [(x,)], {}).failure
    assert failure is not None and failure.kind == "torch"
    assert "2.002" in failure.text and "instead of 2.0" in failure.text


class Refused(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nextafter(x, x + 1)


def test_a_refusal_counts_as_a_failure() -> None:
    failure = judge(Refused, lambda: [(torch.randn(4),)], {}).failure
    assert failure is not None and failure.kind.startswith("refused") and "nextafter" in failure.text


class Crashing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_a_foreign_exception_counts_as_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(torchcalyx, "compile", broken)
    failure = judge(Crashing, lambda: [(torch.randn(4),)], {}).failure
    assert failure is not None and failure.kind.startswith("crash KeyError")


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[0.75, -0.5], [0.3, 0.1]]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x @ self.weight, x > 0.5, x[0] + 1


def test_bounds_are_zero_for_exact_numbers_and_small_for_others() -> None:
    x = torch.tensor([[1.0, 0.5], [0.25, -2.0]])
    stages = torchcalyx.compile(Weighted(), (x,)).stages
    (_, product), (_, compared), (_, moved) = error_bounds(stages.graph, stages.typed.formats, [x.numpy()])
    assert not compared.any(), "0.5 > 0.5 is certain"
    assert not moved.max() > 2**-23, "1.0 + 1 and 0.5 + 1 are exact, up to the conversion to float32"
    last = stages.typed.formats[stages.graph.outputs[0]].resolution
    assert 0 < product.max() < 3 * last
    inexact = x + 0.0001
    bounds = error_bounds(stages.graph, stages.typed.formats, [inexact.numpy()])
    assert np.array_equal(bounds[1][1], [[0, 1], [0, 0]]), "only 0.5001 is near 0.5"


FUTIL = """\
comb primitive tc_mul[L, R, O](@data left: L, @data right: R) -> (out: O) {
  assign out = $signed(left) * $signed(right);
}
comb primitive gate[W](in: W) -> (out: W) { assign out = in; }
component pair(a: 4) -> (y: 4) {
  cells {
    m0 = tc_mul(4, 4, 8);
    @data m1 = tc_mul(4, 4, 8);
  }
  wires {}
  control {}
}
static<3> component kernel() -> () {
  cells {
    ref other = pair();
    own = pair();
    g = gate(1);
  }
  wires {}
  control {}
}
component main() -> () {
  cells {
    one = kernel();
    two = kernel();
    shared = pair();
    @external m = seq_mem_d1(32, 12, 4);
  }
  wires {}
  control {}
}
"""


def test_multipliers_are_counted_by_instance() -> None:
    assert count_multipliers(FUTIL) == 6


def test_minimise_keeps_what_fails() -> None:
    def fails(candidate: Program) -> bool:
        loaded = load(candidate.source)
        try:
            loaded.make_model()(*loaded.make_vectors()[0])
        except Exception:
            return False
        return "torch.relu(" in candidate.source

    small = minimise(SMALL, fails, seconds=20)
    assert [line.text.split("(")[0] for line in small.lines] == ["torch.relu"]
    assert len(small.inputs) == 1 and not small.setup and small.calls == 1
    assert small.options == {"simulator": "icarus"}
    assert signature("torch", small) == signature("torch", small)
    assert signature("error A", small) == "error A"
