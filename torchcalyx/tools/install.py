"""Install what no Python index has: the Calyx compiler, its builder calyx-py and its primitives.

In: the running environment. Out: one `Step` for each part. A part that is there already is left alone, so
that a second run takes a moment. The compiler is built from its crate; the others come from its source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import filelock

from torchcalyx.errors import ToolError, ToolNotFound
from torchcalyx.tools.programs import cargo_home, environment_root
from torchcalyx.tools.toolchain import (
    CALYX_VERSION,
    crate_sources,
    find_tool,
    foreign_calyx_package,
    forget_tools,
    has_primitives,
    install_command,
    installed_primitives,
)

Announce = Callable[[str], None]
CARGO_HINT = "install Rust: the system's package `cargo` (1.70 or newer) or rustup"


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the set-up: its name, whether it was there before, and its place."""

    part: str
    state: Literal["present", "installed"]
    place: Path


def setup(announce: Announce) -> tuple[Step, ...]:
    """Install the missing parts into the running environment.

    announce is called with one line before each long step. Raises ToolNotFound with all missing prerequisites
    before anything is changed, and ToolError when an installation fails.
    """
    forget_tools()
    check_prerequisites()
    root = environment_root()
    share = installed_primitives().parent
    try:
        share.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(
            f"{root} cannot be written ({error}). Use a virtual environment of your own: python -m venv DIR"
        ) from error
    with filelock.FileLock(share / ".setup.lock"):
        steps = (_calyx(root, announce), _calyx_py(announce), _primitives(announce))
    forget_tools()
    return steps


def check_prerequisites() -> None:
    """Raise ToolNotFound that names every missing prerequisite and the way to install it."""
    missing = [f"  {name}: {install_command(name)}" for name in ("g++", "make", "perl") if not _has(name)]
    if not _cargo() and not (_has("calyx") and _has("calyx-py") and has_primitives(installed_primitives())):
        missing.append(f"  cargo: {CARGO_HINT}")
    if missing:
        raise ToolNotFound("torchcalyx setup needs tools that are not installed:\n" + "\n".join(missing))


def crate_source(announce: Announce) -> Path:
    """The source folder of the calyx crate, fetched when cargo has none. Raises ToolNotFound or ToolError."""
    if not _crate_or_none():
        announce(f"fetching the source of calyx {CALYX_VERSION}")
        with tempfile.TemporaryDirectory(prefix="torchcalyx-") as folder:
            _write_dependent_crate(Path(folder))
            _run(
                [_need_cargo(), "fetch", "--manifest-path", f"{folder}/Cargo.toml"],
                "fetching the calyx crate",
            )
    source = _crate_or_none()
    if source is None:
        raise ToolError(
            f"cargo fetched calyx {CALYX_VERSION}, but {cargo_home()}/registry/src does not hold its source."
        )
    return source


def _calyx(root: Path, announce: Announce) -> Step:
    if _has("calyx"):
        return Step("calyx", "present", find_tool("calyx").path)
    announce(f"building the Calyx compiler {CALYX_VERSION} (a few minutes)")
    crate = ["calyx", "--version", CALYX_VERSION, "--locked", "--root", str(root)]
    # The crate's build script writes an incomplete, older library into this folder (else into ~/.calyx) and
    # makes it the compiler's default; `_primitives` then replaces it by the complete one.
    default_library = {"CALYX_PRIMITIVES_DIR": str(installed_primitives())}
    # cargo believes its own record even when the program was deleted: hence --force.
    _run([_need_cargo(), "install", "--force", *crate], "building the Calyx compiler", default_library)
    shutil.rmtree(installed_primitives(), ignore_errors=True)
    forget_tools()
    return Step("calyx", "installed", find_tool("calyx").path)


def _calyx_py(announce: Announce) -> Step:
    if _has("calyx-py"):
        return Step("calyx-py", "present", find_tool("calyx-py").path)
    if foreign_calyx_package():
        find_tool("calyx-py")  # raises with the way out
    source = crate_source(announce) / "calyx-py"
    announce("installing calyx-py, the builder of Calyx programs")
    with tempfile.TemporaryDirectory(prefix="torchcalyx-") as folder:
        # A copy: building in place would leave files in cargo's registry.
        copy = shutil.copytree(source, Path(folder) / "calyx-py")
        _run([sys.executable, "-m", "pip", "install", "--no-deps", str(copy)], "installing calyx-py")
    forget_tools()
    return Step("calyx-py", "installed", find_tool("calyx-py").path)


def _primitives(announce: Announce) -> Step:
    target = installed_primitives()
    if has_primitives(target):
        return Step("primitives", "present", target)
    source = crate_source(announce) / "primitives"
    announce("copying Calyx's primitives")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".primitives-") as folder:
        shutil.copytree(source, Path(folder) / "new" / "primitives")
        shutil.rmtree(target, ignore_errors=True)
        os.replace(Path(folder) / "new", target)
    return Step("primitives", "installed", target)


def _crate_or_none() -> Path | None:
    whole = (
        s for s in crate_sources() if has_primitives(s) and (s / "calyx-py" / "pyproject.toml").is_file()
    )
    return next(whole, None)


def _write_dependent_crate(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").write_text("")
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\ncalyx = "={CALYX_VERSION}"\n'
    )


def _has(name: str) -> bool:
    try:
        find_tool(name)
    except ToolNotFound:
        return False
    return True


def _cargo() -> str | None:
    return shutil.which("cargo") or shutil.which("cargo", path=str(cargo_home() / "bin"))


def _need_cargo() -> str:
    cargo = _cargo()
    if cargo is None:
        raise ToolNotFound(f"cargo was not found; {CARGO_HINT}.")
    return cargo


def _run(command: Sequence[str], what: str, variables: dict[str, str] | None = None) -> None:
    """Run an installer; what it prints goes to our standard error, so that standard output stays ours."""
    done = subprocess.run(command, stdout=2, check=False, env={**os.environ, **(variables or {})})
    if done.returncode != 0:
        raise ToolError(
            f"{what} failed with status {done.returncode}; its messages stand above. It was:\n"
            f"  {' '.join(command)}"
        )
