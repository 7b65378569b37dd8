"""Every example runs as its docstring says; the benchmarks that end in seconds too."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import torchcalyx
from tests.kernels.support import check, tensor
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.match import Rule

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.needs("calyx", "verilator")


def load(path: str) -> ModuleType:
    """A script as a module, without running its main."""
    name = f"script_{Path(path).stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    """The demo's network, trained once."""
    digits = load("examples/digits_mlp.py")
    seen, _, labels, _ = digits.images()
    net: nn.Module = digits.train(seen, labels)
    return net


@pytest.fixture
def digits(trained: nn.Module, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The demo with its network trained already."""
    module = load("examples/digits_mlp.py")
    monkeypatch.setattr(module, "train", lambda x, y: trained)
    return module


def test_digits_reach_the_accuracy_goals(digits: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert digits.main() == 0
    shown = capsys.readouterr().out
    assert shown.count("RTL equals its software model to the bit: yes") == 3
    assert "accuracy on 450 test images" in shown
    bits = [int(found) for found in re.findall(r"(\d+) bits of memory", shown)]
    assert len(bits) == 3 and bits[2] < 0.6 * bits[0], "auto takes far less memory than fixed16"


def test_digits_fail_when_the_hardware_differs(
    digits: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torchcalyx.CompiledModule, "emulate", lambda self, x: torch.zeros(1, 10))
    assert digits.main(test_images=2) == 1
    assert "to the bit: NO" in capsys.readouterr().out


def test_digits_fail_when_an_accuracy_goal_is_missed(
    digits: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = torch.zeros(50, 10)
    monkeypatch.setattr(digits, "run_in_hardware", lambda *arguments: (wrong, True, 8))
    assert digits.main(test_images=50) == 1
    assert capsys.readouterr().out.count("MISSED") == 3


def test_emit_futil_saves_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load("examples/emit_futil.py").main(tmp_path / "gate")
    assert (tmp_path / "gate" / "design.futil").read_text().startswith("import")
    assert "cycles, max error against PyTorch" in capsys.readouterr().out


@pytest.mark.parametrize("size", [1, 3, 8])
def test_kernel_library_multiplies_matrices(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    load("examples/kernel_library.py").main(size)
    assert (
        f"{size}x{size}x{size} on {size * size} multipliers: {3 * size + 2} cycles" in capsys.readouterr().out
    )


def test_kernel_library_does_not_need_torch() -> None:
    script = str(ROOT / "examples/kernel_library.py")
    code = (
        f"import runpy, sys; runpy.run_path({script!r}, None, '__main__'); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_own_functions_are_tables(capsys: pytest.CaptureFixture[str]) -> None:
    load("examples/own_function.py").main()
    assert "hardware and software model agree to the bit" in capsys.readouterr().out


def test_own_kernel_replaces_the_built_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    load("examples/own_kernel.py").main()
    shown = capsys.readouterr().out
    assert "k0_running_sum (rule running sum)" in shown
    assert "hardware and software model agree to the bit" in shown


@pytest.mark.parametrize(
    ("times", "channels", "lanes"), [(1, 5, 3), (7, 1, 1), (4, 8, 4), (5, 7, 8), (3, 17, 4)]
)
def test_own_kernel_equals_its_model(times: int, channels: int, lanes: int) -> None:
    shape, wide, narrow = (times, channels), fixed(9, 5), fixed(8, 3)
    kernel = load("examples/own_kernel.py").RunningSum(
        tensor(shape, wide, lanes), tensor(shape, narrow, lanes)
    )
    check(kernel, calls=2)


def test_own_kernel_is_right_on_known_numbers() -> None:
    fmt = fixed(8, 2)
    kernel = load("examples/own_kernel.py").RunningSum(tensor((3, 2), fmt, 2), tensor((3, 2), fmt, 2))
    found = kernel.emulate(np.array([[4, 100, -1, 100, 2, -3]]))
    assert found.outputs[0].tolist() == [[4, 100, 3, 127, 5, 127]]  # 200 and 197 saturate
    assert found.saturated == 2


def test_own_kernel_refuses_what_it_cannot_read() -> None:
    shape, fmt = (3, 8), fixed(8, 2)
    x, y = tensor((8, 3), fmt, 4), tensor(shape, fmt, 4)
    turned = type(x)(x.fmt, x.layout, x.access.permute((1, 0)))
    with pytest.raises(KernelParameterError, match=r"running sum over \(3, 8\): no: neighbours"):
        load("examples/own_kernel.py").RunningSum(turned, y)


def test_own_rule_copies_a_turned_operand() -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(x.t(), 0)

    rule: Any = Rule("running sum", load("examples/own_kernel.py").running_sum)
    comparison = torchcalyx.compile(Turned().eval(), torch.randn(6, 9), rules=(rule,)).check(
        torch.randn(6, 9)
    )
    assert comparison.ok
    assert comparison.max_error < 0.01


def test_program_size_does_not_grow_with_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("benchmarks/futil_size.py").main(narrow=16, wide=64) == 0
    assert "the same program but for numbers: yes" in capsys.readouterr().out


def test_engine_build_runs_the_product() -> None:
    calyx, simulator, cycles, multipliers = load("benchmarks/engine_build.py").build(2)
    assert (cycles, multipliers) == (3 * 2 + 2, 4)
    assert min(calyx, simulator) >= 0


@pytest.mark.slow
def test_engine_build_counts_what_the_tools_use() -> None:
    script = str(ROOT / "benchmarks/engine_build.py")
    done = subprocess.run([sys.executable, script, "8"], cwd=ROOT, check=True, capture_output=True, text=True)
    seconds = [float(found) for found in re.findall(r"(\d+\.\d+) s CPU", done.stdout)]
    assert len(seconds) == 2
    assert min(seconds) > 0


def test_every_example_has_a_test() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert {name for name in names if name not in tests} == set()
