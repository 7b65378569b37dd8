"""Which outside tools are usable here: name, version, place, and for a missing one what installs it.

In: the running environment. Out: one `Finding` for each tool, in a fixed order. Nothing is changed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchcalyx.errors import ToolNotFound
from torchcalyx.tools.toolchain import (
    CALYX_VERSION,
    TOOL_NAMES,
    find_tool,
    install_command,
    primitives_dir,
    verilator_root,
    vvp_path,
)

_PURPOSES = {
    "calyx": "compiles the program to Verilog",
    "calyx-py": "builds the program",
    "verilator": "simulates (the default)",
    "icarus": "simulates (the second simulator)",
    "g++": "compiles the simulators",
    "make": "used by Verilator",
    "perl": "runs Verilator's driver",
}
_OPTIONAL = frozenset({"icarus"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One tool as found, or why not.

    place, version: empty when the tool is missing. problem, install: empty when it is usable.
    required: whether torchcalyx needs it with its default options.
    """

    name: str
    purpose: str
    required: bool
    version: str = ""
    place: str = ""
    problem: str = ""
    install: str = ""

    @property
    def usable(self) -> bool:
        """Whether the tool was found in an accepted version."""
        return not self.problem


def examine() -> tuple[Finding, ...]:
    """Look for every tool; never raises for a missing one."""
    tools = [_examine(name, partial(_usable, name)) for name in TOOL_NAMES]
    primitives = _examine("primitives", lambda: (CALYX_VERSION, primitives_dir() / "primitives"))
    return (_torch(), *tools, primitives)


def _usable(name: str) -> tuple[str, Path]:
    tool = find_tool(name)
    if name == "icarus":
        vvp_path()
    if name == "verilator":
        verilator_root()
    return tool.version, tool.path


def _examine(name: str, look: Callable[[], tuple[str, Path]]) -> Finding:
    purpose = _PURPOSES.get(name, "Calyx's own components")
    required = name not in _OPTIONAL
    install = install_command("calyx" if name == "primitives" else name)
    try:
        version, place = look()
    except ToolNotFound as error:
        return Finding(name, purpose, required, problem=str(error), install=install)
    return Finding(name, purpose, required, version, str(place))


def _torch() -> Finding:
    """PyTorch by its package record: importing it would take seconds."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        problem = f"torch is not installed in {sys.prefix}."
        return Finding(
            "torch", "captures the module", True, problem=problem, install="python -m pip install torch"
        )
    spec = importlib.util.find_spec("torch")
    place = str(Path(spec.origin).parent) if spec and spec.origin else sys.prefix
    return Finding("torch", "captures the module", True, version, place)
