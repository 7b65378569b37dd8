"""Calls tell what saturated: in the result, and once, at the user's line, as `on_saturation` says."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

import torchcalyx
from tests.selections import Sketch
from torchcalyx import compiled as compiled_module
from torchcalyx.backend import torchcalyx_backend
from torchcalyx.cli import main as cli
from torchcalyx.emulate import emulate
from torchcalyx.errors import SaturationError, SaturationWarning, TorchCalyxError
from torchcalyx.host import Stored
from torchcalyx.kernels.arith.numerics import IntArray, fixed
from torchcalyx.kernels.arith.saturation import Saturation
from torchcalyx.kernels.contract import Emulated
from torchcalyx.kernels.elementwise import Elementwise
from torchcalyx.options import Options
from torchcalyx.results.saturations import Saturated, describe, find_saturations

needs_icarus = pytest.mark.needs("calyx", "icarus")
X = torch.tensor([[0.9, 0.1, 0.2, 0.1], [-0.9, -0.1, 0.2, -0.1]])  # fixed16.14: to 1, and a spare bit


class Growing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 1.1  # the line that saturates


class Chain(nn.Module):
    """Stored values of which each is computed from the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Growing()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.inner(x)
        return y, torch.cumsum(y, -1)  # the running sum


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def build(module: nn.Module | None = None, **options: Any) -> torchcalyx.CompiledModule:
    module = (module or Growing()).eval()
    return torchcalyx.compile(module, X, **{"multipliers": 4, "simulator": "icarus", **options})


def saturations(hw: torchcalyx.CompiledModule, x: Tensor) -> tuple[Saturated, ...]:
    """As `RunResult.saturations`, without a simulation."""
    stored = hw._store((x,), {})
    return find_saturations(hw.stages.selection, stored, emulate(hw.stages.selection, stored.arrays))


@needs_icarus
def test_a_run_lists_inputs_and_kernels_with_their_places() -> None:
    hw = build(precision="fixed12.8")  # -8 to 7.996
    x = torch.zeros(2, 4)
    x[0, :3] = torch.tensor([7.5, -7.5, 100.0])  # 8.25 and -8.25, and 100 becomes 7.996
    with pytest.warns(SaturationWarning) as caught:
        run = hw.simulate(x)
    assert [w.filename for w in caught] == [__file__]  # one warning for input and kernel together
    given, kernel = run.saturations
    assert (given.name, given.kernel, given.count, given.elements) == ("x", "", 1, 8)
    assert (given.fmt, given.bits, given.at_least) == (fixed(12, 8), 4, False)  # 100 < 128 = 8 * 2**4
    assert (kernel.name, kernel.count, kernel.elements, kernel.bits) == ("mul", 3, 8, 1)  # 8.25, -8.25, 8.8
    assert kernel.kernel == hw.stages.selection.calls[0].name
    assert kernel.at_least  # its operand was cut before
    assert kernel.source.file == __file__ and kernel.source.line == line_of("# the line that saturates")
    assert dict(run.saturated_inputs) == {"x": 1}
    assert run.outputs[0].tolist() == [8 - 2**-8, -8, 8 - 2**-8, 0] and not run.outputs[1].any()
    assert hw.simulate(X).saturations == ()


def test_the_message_names_places_needs_and_ways_out() -> None:
    hw = build(Chain())
    with pytest.warns(SaturationWarning) as caught:
        hw.emulate(12 * X)
    (warning,) = caught
    assert str(warning.message) == (
        "values of 1 input and 2 kernel calls left the range of their formats and were cut:\n"
        "  input 'x': 4 of 8 outside fixed16.14 (-2 to 2); 3 more integer bits would have been enough\n"
        f"  node 'mul' at {__file__}:{line_of('# the line that saturates')} in inner: "
        "4 of 8 outside fixed16.14 (-2 to 2); at least 1 more integer bit needed\n"  # 1.1 * 2
        f"  node 'cumsum' at {__file__}:{line_of('# the running sum')}: "
        "2 of 8 outside fixed16.13 (-4 to 4); at least 1 more integer bit needed\n"  # 2 + 1.3 + 2 + 1.3
        "what to do: give inputs like these as calibration, or compile with headroom=4, or choose a wider "
        "precision for these places; on_saturation='ignore' silences this, 'error' refuses the call"
    )


@pytest.mark.filterwarnings("ignore::torchcalyx.AccuracyWarning")  # so much headroom leaves few bits
@pytest.mark.parametrize("factor", [3.0, 12.0, 100.0])
@pytest.mark.parametrize("precision", ["fixed8", "fixed16", "fixed32"])
def test_the_bits_would_have_been_enough_and_no_fewer(precision: str, factor: float) -> None:
    """The statement itself: compile again with so much more headroom, and with one bit less."""
    hw = build(precision=precision)
    (given, *_) = saturations(hw, factor * X)
    assert given.kernel == "" and given.bits is not None and not given.at_least
    spare = Options().spare_bits(given.fmt.width) + given.bits
    assert saturations(build(precision=precision, headroom=spare), factor * X) == ()
    assert saturations(build(precision=precision, headroom=spare - 1), factor * X)[0].bits == 1


def test_a_kernel_alone_states_its_exact_need() -> None:
    class Product(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * y

    inputs = torch.tensor([4.0, 0.5]), torch.tensor([0.5, 4.0])  # products of 2, operands of 4
    hw = torchcalyx.compile(Product(), inputs, multipliers=4, headroom=0)
    x = torch.tensor([3.9, 3.9])  # 15.2
    with pytest.warns(SaturationWarning, match="2 more integer bits would have been enough"):
        hw.emulate(x, x)
    wide = torchcalyx.compile(Product(), inputs, multipliers=4, headroom=2)
    assert wide.emulate(x, x).sub(x * x).abs().max() < 0.01


@needs_icarus
def test_error_raises_before_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    hw = build(on_saturation="error")
    assert torch.allclose(hw(X), 1.1 * X, atol=1e-3)
    monkeypatch.setattr(compiled_module, "simulate", None)  # would fail when called
    big = 50 * X
    for call in (hw, hw.emulate, hw.simulate, lambda x: hw.simulate_batch([(X,), (x,)])):
        with pytest.raises(SaturationError, match="^values of 1 input and 1 kernel call left the range"):
            call(big)
    assert issubclass(SaturationError, TorchCalyxError)


@needs_icarus
def test_ignore_is_silent_but_the_result_still_tells() -> None:
    hw = build(on_saturation="ignore")
    assert torch.equal(hw.emulate(50 * X), hw(50 * X))
    assert [s.name for s in hw.simulate(50 * X).saturations] == ["x", "mul"]


@needs_icarus
def test_a_batch_warns_once_and_every_run_tells_its_own() -> None:
    hw = build()
    with pytest.warns(SaturationWarning) as caught:
        runs = hw.simulate_batch([(X,), (10 * X,), (50 * X,)])
    (warning,) = caught
    assert "were cut in 2 of 3 calls:\n  input 'x': 12 of 16 outside" in str(warning.message)
    assert [[(s.name, s.bits) for s in run.saturations] for run in runs] == [
        [], [("x", 3), ("mul", 1)], [("x", 5), ("mul", 1)]
    ]  # fmt: skip


def test_infinite_and_far_values_are_told_apart() -> None:
    hw = build()
    far, infinite = X.clone(), X.clone()
    far[0, 0], infinite[0, 0] = 1e30, -torch.inf
    with pytest.warns(SaturationWarning) as caught:
        hw.emulate(far)
    text = str(caught[0].message)
    assert "99 more integer bits would have been enough" in text  # 1e30 < 2**100
    assert "check the values of 'x': no format serves them and the usual ones" in text
    assert "headroom=" not in text
    with pytest.warns(SaturationWarning) as caught:
        hw.emulate(infinite)
    text = str(caught[0].message)
    assert "input 'x': 1 of 8 outside fixed16.14 (-2 to 2)\n" in text
    assert "keep infinite values from the inputs: no format holds them" in text


def test_formats_of_the_user_get_another_advice() -> None:
    hw = build(precision="fixed16.13")
    with pytest.warns(SaturationWarning) as caught:
        hw.emulate(10 * X)  # 9 is outside of 4, by 2 bits
    assert str(caught[0].message).endswith(
        "what to do: give formats with fewer fraction bits, here fixed16.11; on_saturation='ignore' silences "
        "this, 'error' refuses the call"
    )


def test_long_lists_are_cut_and_causes_come_first() -> None:
    rows = [replace(s, name=f"n{i}") for i, s in enumerate(saturations(build(Chain()), 12 * X) * 2)]
    assert [r.at_least for r in rows] == [False, True, True, False, True, True]
    lines = describe([tuple(rows)], Options()).splitlines()
    assert [line.split("'")[1] for line in lines[1:5]] == ["n0", "n3", "n1", "n4"]  # the share of cut values
    assert lines[5] == "  and 2 more, all in RunResult.saturations"


@pytest.mark.parametrize("style", ["module", "function"])
def test_behind_torch_compile_the_warning_stands_at_the_call(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch._dynamo.reset()

    monkeypatch.setattr(torchcalyx.CompiledModule, "__call__", torchcalyx.CompiledModule.emulate)
    model: Any = Growing().eval() if style == "module" else Growing().eval().forward
    fast = torch.compile(model, backend=torchcalyx_backend)
    assert torch.allclose(fast(X), 1.1 * X, atol=1e-3)
    with pytest.warns(SaturationWarning) as caught:
        fast(9 * X)  # the caller's line
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line_of("# the caller's line"))
    torch._dynamo.reset()


def test_the_warning_stands_at_the_users_line_and_can_be_an_error() -> None:
    hw = build()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hw.emulate(9 * X)  # here
        hw.emulate(9 * X)
    assert [(w.category, w.filename) for w in caught] == [(SaturationWarning, __file__)] * 2
    assert caught[0].lineno == line_of("hw.emulate(9 * X)  # here")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SaturationWarning):
            hw.emulate(9 * X)


@dataclass(frozen=True)
class OnlyCounts(Elementwise):
    """A kernel of a user whose model knows a count and nothing else."""

    def emulate(self, *arrays: IntArray) -> Emulated:
        found = super().emulate(*arrays)
        return Emulated(found.outputs, int(found.saturated))


def test_a_kernel_that_only_counts_is_reported_without_bits() -> None:
    s = Sketch()
    selection = s.build(s.call("double", "y", s.input("x", (4,))))
    spec = selection.calls[0].spec
    assert isinstance(spec, Elementwise)
    own = OnlyCounts(spec.expr, spec.operands, spec.out)
    selection = replace(selection, calls=(replace(selection.calls[0], spec=own),))
    x = np.array([20000, -20000, 1, 2])
    (found,) = find_saturations(selection, Stored((x,), ("x",), {}), emulate(selection, [x]))
    assert (found.count, found.elements, found.bits) == (2, 4, None)
    assert str(found).endswith("2 of 4 outside fixed16.8 (-128 to 128)")
    assert isinstance(emulate(selection, [x]).saturated[selection.calls[0].name], Saturation)


MODEL = """
import torch
from torch import nn
class Growing(nn.Module):
    def forward(self, x):
        return x + x
def saturating():
    return Growing().eval(), (torch.tensor([0.75, -1.0, 0.25]),)
"""


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_the_command_line_prints_and_carries_them(tmp_path: Path) -> None:
    (tmp_path / "growing.py").write_text(MODEL)
    arguments = [
        "run",
        f"{tmp_path}/growing.py:saturating",
        "--simulator",
        "icarus",
        "--precision",
        "fixed8.7",
    ]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    # 1.5 and -2 of a format that ends at 1: the compiler has warned, and the run does.
    assert "AccuracyWarning: 1 of 2 tensors do not fit" in done.stderr
    assert "SaturationWarning: values of 1 kernel call left the range" in done.stderr
    answer = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    # The format does not hold the data, and the outputs miss the tolerance for it.
    kinds = ["AccuracyWarning", "AccuracyWarning", "SaturationWarning"]
    assert [w["warning"] for w in answer["warnings"]] == kinds
    (place,) = answer["comparison"]["saturations"]
    assert (place["name"], place["count"], place["bits"], place["fmt"]) == ("add", 2, 1, "fixed8.7")
    assert place["source"]["file"] == f"{tmp_path}/growing.py" and place["source"]["line"] == 6
