"""The command line: what is printed where, and the exit codes."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import torchcalyx
from torchcalyx import cli, errors
from torchcalyx.factory import load_model
from torchcalyx.tools import toolchain

MODEL = """
print("noise of the model file")
def factory():
    return "module", ("input",)
def single():
    return "module", "input"
def wrong():
    return "module"
def raises():
    raise RuntimeError("no weights")
def leaves():
    raise SystemExit(0)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return str(path)


@dataclasses.dataclass
class StandIn:
    """What `torchcalyx.api.compile` returns in these tests: a compiled model with fixed answers."""

    cycles: int = 12
    simulated: int = 12
    exact: bool = True

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "design.futil").write_text("program")
        (directory / "data").mkdir()
        (directory / "data" / "x.hex").write_text("0")

    def check(self, *inputs: Any) -> Any:
        ok = self.exact and self.simulated == self.cycles
        return Text("comparison of 1 output", exact=self.exact, ok=ok, simulated_cycles=self.simulated)

    def expected_excess(self) -> dict[str, float]:
        return {}

    def report(self) -> Any:
        return Text("report table")

    def explain(self) -> str:
        return "linear -> gemm\nrelu -> gemm"


@dataclasses.dataclass
class Text:
    text: str
    exact: bool = True
    ok: bool = True
    simulated_cycles: int = 12
    saturations: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> str:
        return json.dumps({"text": self.text})

    def to_html(self) -> str:
        return f"<p>{self.text}</p>"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Replaces the compiler by a stand-in; the arguments of the last call are in its `call`."""
    hw = StandIn()

    def compile(module: Any, inputs: Any, **options: Any) -> StandIn:
        hw.call = (module, inputs, options)  # type: ignore[attr-defined]
        return hw

    monkeypatch.setitem(sys.modules, "torchcalyx.api", types.SimpleNamespace(compile=compile))
    return hw


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, list(arguments))


def test_compile_saves_and_names_what_it_wrote(compiled: StandIn, model: str, tmp_path: Path) -> None:
    done = invoke("compile", f"{model}:factory", "-o", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "directory": str(tmp_path / "out"),
        "cycles": 12,
        "files": ["data/x.hex", "design.futil"],
        "warnings": [],
    }
    assert "noise of the model file" in done.stderr


def test_only_given_options_reach_the_compiler(compiled: StandIn, model: str) -> None:
    invoke("explain", f"{model}:factory")
    assert compiled.call == ("module", ("input",), {})
    options = ["--precision", "fixed8", "--multipliers", "16", "--lanes", "4", "--simulator", "icarus"]
    invoke("explain", f"{model}:single", *options)
    assert compiled.call == (
        "module",
        ("input",),
        {"precision": "fixed8", "multipliers": 16, "lanes": 4, "simulator": "icarus"},
    )


@pytest.mark.parametrize(
    ("simulated", "exact", "code"), [(12, True, 0), (13, True, 1), (12, False, 1)], ids=str
)
def test_run_fails_on_any_mismatch(
    compiled: StandIn, model: str, simulated: int, exact: bool, code: int
) -> None:
    compiled.simulated, compiled.exact = simulated, exact
    done = invoke("run", f"{model}:factory")
    assert done.exit_code == code
    assert done.stdout == f"{simulated} cycles simulated, 12 predicted\ncomparison of 1 output\n"
    done = invoke("run", f"{model}:factory", "--json")
    assert done.exit_code == code
    assert json.loads(done.stdout) == {
        "cycles": simulated,
        "predicted_cycles": 12,
        "exact": exact,
        "comparison": {"text": "comparison of 1 output"},
        "warnings": [],
    }


def test_report_and_explain(compiled: StandIn, model: str, tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    done = invoke("report", f"{model}:factory", "--html", str(html))
    assert (done.exit_code, done.stdout) == (0, "report table\n")
    assert html.read_text() == "<p>report table</p>"
    assert json.loads(invoke("report", f"{model}:factory", "--json").stdout) == {"text": "report table"}
    assert invoke("explain", f"{model}:factory").stdout == "linear -> gemm\nrelu -> gemm\n"


REAL = """
import torch
from torch import nn
def factory():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), (torch.randn(1, 4),)
"""


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_every_command_on_a_real_model(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text(REAL)
    model = ("--simulator", "icarus", "--multipliers", "4", f"{tmp_path}/real.py:factory")
    done = json.loads(invoke("run", *model, "--json").stdout)
    assert done["exact"] and done["cycles"] == done["predicted_cycles"]
    assert done["comparison"]["max_error"] < 1e-2
    saved = json.loads(invoke("compile", *model, "-o", f"{tmp_path}/out", "--json").stdout)
    assert {"design.futil", "design.sv", "testbench.sv", "manifest.json"} <= set(saved["files"])
    (row,) = (r for r in json.loads(invoke("explain", *model, "--json").stdout) if r["op"] == "relu")
    assert row["became"] == "k0_dot" and row["rule"] == "matmul with epilogue"
    assert "k0_dot" in invoke("report", *model).stdout
    for command in (("compile", *model, "-o", "/proc/none"), ("report", *model, "--html", "/proc/none")):
        done = invoke(*command, "--json")
        assert done.exit_code == 2 and "cannot be written" in json.loads(done.stdout)["message"]
    done = invoke("report", *model, "--lanes", "0", "--json")
    assert done.exit_code == 2 and json.loads(done.stdout)["error"] == "UsageError"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MismatchError, 1),
        (errors.OptionsError, 2),
        (errors.UnsupportedOpError, 2),
        (errors.CaptureError, 2),
        (errors.ToolNotFound, 3),
        (errors.SimulationError, 3),
    ],
)
def test_errors_become_messages_and_exit_codes(
    monkeypatch: pytest.MonkeyPatch, model: str, error: type[Exception], code: int
) -> None:
    def compile(*_: Any, **__: Any) -> None:
        raise error("what went wrong")

    monkeypatch.setitem(sys.modules, "torchcalyx.api", types.SimpleNamespace(compile=compile))
    done = invoke("report", f"{model}:factory")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.endswith(f"{error.__name__}: what went wrong\n")
    done = invoke("report", f"{model}:factory", "--json")
    assert done.exit_code == code
    assert json.loads(done.stdout) == {"error": error.__name__, "message": "what went wrong"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{m}", "'{m}' is not FILE.py:FACTORY, the file and the name of a function in it."),
        ("nowhere.py:factory", "nowhere.py does not exist."),
        (
            "{m}:other",
            "my_model.py has no function 'other'. It has: factory, leaves, raises, single, wrong.",
        ),
        ("{m}:wrong", "wrong() of {m} returned str; it must return (module, example_inputs)."),
    ],
    ids=["no-factory", "no-file", "no-function", "no-pair"],
)
def test_wrong_targets_are_user_errors(compiled: StandIn, model: str, target: str, message: str) -> None:
    done = invoke("explain", target.format(m=model))
    assert done.exit_code == 2
    assert done.stderr.endswith(f"InputError: {message.format(m=model)}\n")


def test_exception_of_the_factory_shows_its_line(model: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        load_model(f"{model}:raises")
    text = str(caught.value)
    assert text.startswith(f"raises() of {model} failed:\nTraceback (most recent call last):\n")
    assert "my_model.py" in text and text.endswith("RuntimeError: no weights")
    assert "factory.py" not in text


def test_model_file_may_be_named_like_a_package(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def factory():\n    return 1, (2,)\n")
    assert load_model(f"{tmp_path}/json.py:factory") == (1, (2,))
    assert sys.modules["json"] is json


def test_doctor_lists_every_tool() -> None:
    done = invoke("doctor", "--json")
    answer = json.loads(done.stdout)
    names = [tool["name"] for tool in answer["tools"]]
    assert names == ["torch", *toolchain.TOOL_NAMES, "primitives"]
    assert answer["cache"] == str(toolchain.cache_dir())
    for tool in answer["tools"]:
        assert tool["version"] and tool["place"] if tool["usable"] else tool["problem"] and tool["install"]
    usable = all(tool["usable"] for tool in answer["tools"] if tool["required"])
    assert done.exit_code == (0 if usable else 3)


def test_doctor_names_the_cure_of_a_missing_tool(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh_tools.setenv("TORCHCALYX_CALYX", str(tmp_path / "nothing"))
    done = invoke("doctor")
    assert done.exit_code == 3
    row = next(line for line in done.stdout.splitlines() if line.startswith("│ calyx "))
    assert "missing" in row and "install it: torchcalyx setup" in row
    assert f"calyx: TORCHCALYX_CALYX={tmp_path}/nothing does not name a program" in done.stderr


def test_missing_optional_tool_is_no_failure(fresh_tools: pytest.MonkeyPatch) -> None:
    known = {name: toolchain.Tool(name, Path("/opt") / name, "1.0") for name in toolchain.TOOL_NAMES}

    def find(name: str) -> toolchain.Tool:
        if name == "icarus":
            raise errors.ToolNotFound("no iverilog")
        return known[name]

    fresh_tools.setattr("torchcalyx.tools.doctor.find_tool", find)
    fresh_tools.setattr("torchcalyx.tools.doctor.verilator_root", lambda: Path("/opt"))
    fresh_tools.setattr("torchcalyx.tools.doctor.primitives_dir", lambda: Path("/opt"))
    done = invoke("doctor")
    assert done.exit_code == 0, done.output
    row = next(line for line in done.stdout.splitlines() if line.startswith("│ icarus "))
    assert "missing (optional)" in row and "install it: apt-get install iverilog" in row


def test_kernels_lists_families_with_parameters() -> None:
    done = invoke("kernels", "--json")
    assert done.exit_code == 0, done.output
    families = json.loads(done.stdout)
    assert families and all(f["name"] and f["summary"] and f["parameters"] for f in families)
    text = invoke("kernels").stdout
    assert all(f["name"] in text for f in families)


def test_version_and_usage_errors() -> None:
    assert invoke("--version").stdout == f"torchcalyx, version {torchcalyx.__version__}\n"
    assert invoke("compile").exit_code == 2
    assert invoke("run", "x.py:f", "--simulator", "magic").exit_code == 2
    assert invoke("run", "x.py:f", "--lanes", "0").exit_code == 2


def test_a_factory_that_exits_is_a_mistake_of_the_user(model: str) -> None:
    done = invoke("explain", f"{model}:leaves", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"] == "InputError"
