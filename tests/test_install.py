"""`torchcalyx setup` on machines that lack this or that, with stand-ins for cargo and pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchcalyx.cli import main
from torchcalyx.errors import ToolError, ToolNotFound
from torchcalyx.tools import install, toolchain

# Stands in for cargo: `install` puts a compiler below --root, and each call the crate's source in CARGO_HOME.
CARGO = """#!/bin/sh
echo "$@" >> "$CARGO_HOME/log"
crate="$CARGO_HOME/registry/src/index/calyx-0.7.1"
mkdir -p "$crate/primitives/memories" "$crate/calyx-py"
echo seq > "$crate/primitives/memories/seq.futil"
echo "[project]" > "$crate/calyx-py/pyproject.toml"
if [ "$1" = install ]; then
    mkdir -p "$CALYX_PRIMITIVES_DIR/primitives"
    echo old > "$CALYX_PRIMITIVES_DIR/primitives/memories.futil"
    for last in "$@"; do :; done
    mkdir -p "$last/bin"
    printf '#!/bin/sh\\necho "Calyx compiler version 0.7.1"\\n' > "$last/bin/calyx"
    chmod +x "$last/bin/calyx"
fi
"""


@pytest.fixture
def machine(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An empty environment below tmp_path/env with g++, make and perl, and cargo's home in tmp_path/cargo."""
    for place in ("env/bin", "path", "cargo/bin"):
        (tmp_path / place).mkdir(parents=True)
    for program, answer in {"g++": "12.2.0", "make": "GNU Make 4.3", "perl": "v5.36.0"}.items():
        executable(tmp_path / "path" / program, f'#!/bin/sh\necho "{answer}"\n')
    fresh_tools.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "env" / "bin"))
    fresh_tools.setenv("PATH", f"{tmp_path}/path{os.pathsep}/usr/bin{os.pathsep}/bin")
    fresh_tools.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    fresh_tools.delenv("TORCHCALYX_CALYX", raising=False)
    return fresh_tools


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def builder_is_absent(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """calyx-py counts as missing until pip has been called; returns the list of pip's arguments."""
    calls: list[list[str]] = []
    real_run, real_find = install._run, toolchain._find_calyx_py

    def run(command, what, variables=None):
        if "pip" in command:
            calls.append(list(command))
        else:
            real_run(command, what, variables)

    def find():
        if not calls:
            raise ToolNotFound("no builder")
        return real_find()

    monkeypatch.setattr(install, "_run", run)
    monkeypatch.setattr(toolchain, "_find_calyx_py", find)
    return calls


@pytest.mark.needs("calyx-py")
def test_new_environment_gets_everything_once(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "cargo" / "bin" / "cargo", CARGO)
    pip_calls = builder_is_absent(machine)
    said: list[str] = []
    steps = install.setup(said.append)
    assert [(s.part, s.state) for s in steps] == [
        ("calyx", "installed"),
        ("calyx-py", "installed"),
        ("primitives", "installed"),
    ]
    assert steps[0].place == tmp_path / "env" / "bin" / "calyx"
    share = tmp_path / "env" / "share" / "torchcalyx" / "calyx-0.7.1"
    assert [str(p.relative_to(share)) for p in share.rglob("*") if p.is_file()] == [
        "primitives/memories/seq.futil"
    ]
    assert toolchain.primitives_dir() == share
    assert len(pip_calls) == 1 and pip_calls[0][-1].endswith("/calyx-py")
    assert said == [
        "building the Calyx compiler 0.7.1 (a few minutes)",
        "installing calyx-py, the builder of Calyx programs",
        "copying Calyx's primitives",
    ]
    log = (tmp_path / "cargo" / "log").read_text()
    assert log == f"install --force calyx --version 0.7.1 --locked --root {tmp_path}/env\n"

    again = install.setup(said.append)
    assert {s.state for s in again} == {"present"} and [s.place for s in again] == [s.place for s in steps]
    assert len(said) == 3 and (tmp_path / "cargo" / "log").read_text() == log


@pytest.mark.needs("calyx-py")
def test_source_is_fetched_when_only_the_compiler_is_there(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executable(tmp_path / "cargo" / "bin" / "cargo", CARGO)
    executable(tmp_path / "env" / "bin" / "calyx", "#!/bin/sh\necho 'Calyx compiler version 0.7.1'\n")
    said: list[str] = []
    steps = install.setup(said.append)
    assert [s.state for s in steps] == ["present", "present", "installed"]
    assert said == ["fetching the source of calyx 0.7.1", "copying Calyx's primitives"]
    assert (tmp_path / "cargo" / "log").read_text().startswith("fetch --manifest-path ")


def test_all_missing_prerequisites_are_named_at_once(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "path" / "perl").unlink()
    (tmp_path / "path" / "g++").unlink()
    machine.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(ToolNotFound) as caught:
        install.setup(lambda line: pytest.fail("nothing may start"))
    assert str(caught.value) == (
        "torchcalyx setup needs tools that are not installed:\n"
        "  g++: apt-get install g++\n"
        "  perl: apt-get install perl\n"
        "  cargo: install Rust: the system's package `cargo` (1.70 or newer) or rustup"
    )
    assert not (tmp_path / "env" / "share").exists()


def test_failing_build_is_an_error_with_the_command(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "cargo" / "bin" / "cargo", "#!/bin/sh\nexit 101\n")
    with pytest.raises(ToolError) as caught:
        install.setup(lambda line: None)
    assert str(caught.value) == (
        "building the Calyx compiler failed with status 101; its messages stand above. It was:\n"
        f"  {tmp_path}/cargo/bin/cargo install --force calyx --version 0.7.1 --locked --root {tmp_path}/env"
    )


def test_environment_that_cannot_be_written(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "cargo" / "bin" / "cargo", CARGO)
    (tmp_path / "env" / "share").write_text("a file where a folder must be")
    with pytest.raises(ToolError, match="cannot be written .* Use a virtual environment of your own"):
        install.setup(lambda line: None)


@pytest.mark.needs("calyx-py")
def test_command_prints_json_and_exit_code(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "cargo" / "bin" / "cargo", CARGO)
    done = CliRunner().invoke(main, ["setup", "--json"])
    assert done.exit_code == 0, done.output
    steps = json.loads(done.stdout)
    assert [s["part"] for s in steps] == ["calyx", "calyx-py", "primitives"]
    (tmp_path / "path" / "make").unlink()
    machine.setenv("PATH", str(tmp_path / "path"))
    done = CliRunner().invoke(main, ["setup"])
    assert done.exit_code == 3
    assert (
        "ToolNotFound: torchcalyx setup needs tools" in done.stderr and "apt-get install make" in done.stderr
    )


@pytest.mark.parametrize(
    ("python", "last"),
    [
        (
            "",
            "Python 3.11 or newer: apt-get install python3.11 python3.11-venv, "
            "or make PYTHON=/path/to/python",
        ),
        ("/no/python", "Python 3.11 or newer: PYTHON=/no/python is older or cannot be run"),
    ],
    ids=["no-python", "wrong-python"],
)
def test_make_names_missing_prerequisites(tmp_path: Path, python: str, last: str) -> None:
    (tmp_path / "make").touch(0o755)
    variables = {"PATH": str(tmp_path), "HOME": str(tmp_path), "VENV": str(tmp_path), "PYTHON": python}
    script = Path(__file__).parent.parent / ".ci" / "prerequisites"
    done = subprocess.run(["/bin/sh", str(script)], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "torchcalyx: these prerequisites are missing:\n"
        "  g++: apt-get install g++\n"
        "  perl: apt-get install perl\n"
        "  cargo: install Rust: the system's package cargo (1.70 or newer) or rustup\n"
        f"  {last}\n"
    )


def test_make_is_content_with_a_whole_machine(tmp_path: Path) -> None:
    for program in ("g++", "make", "perl", "cargo"):
        (tmp_path / program).touch(0o755)
    variables = {"PATH": str(tmp_path), "HOME": str(tmp_path), "VENV": "venv", "PYTHON": sys.executable}
    script = Path(__file__).parent.parent / ".ci" / "prerequisites"
    done = subprocess.run(["/bin/sh", str(script)], env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
