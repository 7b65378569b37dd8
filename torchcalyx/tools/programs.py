"""Find one program on this machine, ask its version, run it.

The places are looked at in one fixed order: the program's environment variable, the folder for programs of
the running Python environment, PATH, cargo's folder for programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from torchcalyx.errors import ToolNotFound


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is found and asked for its version.

    version_pattern: regular expression whose first group is the version in what `version_args` print.
    install: the command that installs it. variable: environment variable that may hold its path, or "".
    """

    executable: str
    version_args: tuple[str, ...]
    version_pattern: str
    install: str
    variable: str = ""


def environment_root() -> Path:
    """The root folder of the running Python environment: `torchcalyx setup` installs below it."""
    return Path(sysconfig.get_path("scripts")).parent


def cargo_home() -> Path:
    """Cargo's own folder (CARGO_HOME, else ~/.cargo)."""
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def locate(program: Program) -> Path:
    """The program's path; ToolNotFound with all places looked at and the command that installs it."""
    override = os.environ.get(program.variable) if program.variable else None
    if override:
        if not is_program(Path(override)):
            raise ToolNotFound(f"{program.variable}={override} does not name a program that can be run.")
        return Path(override).absolute()
    own = Path(sysconfig.get_path("scripts"))
    cargo = cargo_home() / "bin"
    path = os.environ.get("PATH", "")
    for folder in (str(own), *path.split(os.pathsep), str(cargo)):
        found = shutil.which(program.executable, path=folder) if folder else None
        if found:
            return Path(found).absolute()
    places = [f"${program.variable} (not set)"] if program.variable else []
    places += [str(own), f"PATH ({path})", str(cargo)]
    looked = "".join(f"\n  {place}" for place in places)
    raise ToolNotFound(
        f"{program.executable} was not found. Looked in:{looked}\nInstall it with: {program.install}"
    )


def ask_version(program: Program, path: Path) -> str:
    """The version that the program at `path` prints; ToolNotFound when it prints none or cannot be run."""
    answer = run([str(path), *program.version_args])
    printed = answer.stdout + answer.stderr
    match = re.search(program.version_pattern, printed)
    if match is None:
        raise ToolNotFound(
            f"{path} does not tell its version: `{path.name} {' '.join(program.version_args)}` exited with "
            f"{answer.returncode} and printed {printed.strip()[:300]!r}.\n"
            f"Install it anew with: {program.install}"
        )
    return match[1]


def is_program(path: Path) -> bool:
    """Whether `path` is a file that may be executed."""
    return path.is_file() and os.access(path, os.X_OK)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its text; a failure status is the caller's to judge.

    Raises ToolNotFound when the command cannot be started.
    """
    # A compiler's internal backtrace tells a user of ours nothing.
    quiet = {**os.environ, "RUST_BACKTRACE": "0"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=quiet
        )
    except OSError as error:
        raise ToolNotFound(f"{command[0]} cannot be run: {error}") from error
