"""Calibration inputs never make a SaturationWarning where the compiler chose the formats; inputs outside of
what they showed do.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.networks import ResNet8
from torchcalyx.cli import main
from torchcalyx.errors import SaturationWarning

MODEL = """
import torch
from torch import nn

def clipped():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).eval(), (torch.randn(16, 16) * 8,)
"""


def clipped() -> tuple[nn.Module, Tensor]:
    """At eight bits the compiler clips what only the tanh reads."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
    return net, torch.randn(16, 16) * 8


@pytest.mark.parametrize("seed", [101, 120, 128])
def test_rounding_past_the_end_of_a_range_is_no_news(seed: int) -> None:
    """In these three of forty networks a value at the end of its range is rounded up once too often."""
    torch.manual_seed(seed)
    net, x = ResNet8(4).eval(), torch.randn(1, 3, 8, 8)
    hw = torchcalyx.compile(net, x, precision="fixed8")
    hw.emulate(x)  # warnings are errors here
    assert hw.expected_excess(), "nothing is cut in calibration: this tests nothing"
    assert max(hw.expected_excess().values()) < 4 / 255
    with pytest.warns(SaturationWarning, match="values of 1 input and [0-9]+ kernel calls left"):
        hw.emulate(x * 2.5)


def test_values_outside_of_calibration_are_news_though_the_input_is_inside() -> None:
    """Every element of the input is in its range, the sum of the first layer is not."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    x = torch.randn(8, 16)
    hw = torchcalyx.compile(net, x, precision="fixed8")
    hw.emulate(x)
    aligned = net[0].weight.detach()[0].sign() * x.abs().max() * 0.99
    with pytest.warns(SaturationWarning, match="values of 2 kernel calls left .*\n  node 'relu'"):
        hw.emulate(aligned.expand(8, 16))


def test_what_all_calibration_inputs_cut_is_known() -> None:
    """Not only of the few that compiling looks at."""
    net, x = clipped()
    calls = [x * (1 + number / 40) for number in range(40)]
    hw = torchcalyx.compile(net, x, calibration=calls, precision="fixed8")
    for call in calls:
        hw.emulate(call)


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_every_way_to_run_knows_it() -> None:
    net, x = clipped()
    hw = torchcalyx.compile(net, x, precision="fixed8", simulator="icarus")
    run = hw.simulate(x)
    (row,) = run.saturations
    assert row.bits == 2 and row.count > 9, "what was cut stays in the result"
    assert row.to_dict()["excess"] == row.excess == max(hw.expected_excess().values())
    assert torch.equal(hw(x), run.outputs) and torch.equal(hw.emulate(x), run.outputs)
    hw.simulate_batch([(x,), (x,)])
    with pytest.warns(SaturationWarning, match="input 'input': .* outside"):
        hw.simulate(x * 4)


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_the_command_line_knows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` is quiet about its own calibration input, and tells of a format of the user."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    file = tmp_path / "clipped.py"
    file.write_text(MODEL)
    arguments = ["run", f"{file}:clipped", "--simulator", "icarus", "--precision"]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "fixed8"])
    out, err = capsys.readouterr()
    assert ended.value.code == 0 and "cycles simulated" in out and err == ""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "fixed8.7"])
    err = capsys.readouterr().err
    assert ended.value.code == 0
    assert err.count("AccuracyWarning: ") == 2 and err.count("SaturationWarning: ") == 1
    assert "\n  input 'input': 237 of 256 outside fixed8.7 (-1 to 0.9922); 5 more integer bits" in err
    assert "warn_explicit" not in err and ".py:" not in err.split("\n")[0]
