"""Build a design's simulator with Icarus Verilog: four-valued logic, quick to build, slow to run."""

from __future__ import annotations

from pathlib import Path

from torchcalyx.simulate.builds import build_once
from torchcalyx.simulate.process import Run, run_tool
from torchcalyx.tools.cache import content_key
from torchcalyx.tools.toolchain import find_tool, vvp_path

_FLAGS = ("-g2012", "-s", "testbench")


def build_icarus(verilog: str, harness: str, testbench: str) -> Path:
    """The compiled `.vvp` program, cached by its sources. Raises ToolNotFound or ToolError with the log."""
    icarus = find_tool("icarus")
    sources = {"design.sv": verilog, "harness.sv": harness, "testbench.sv": testbench}

    def build(folder: Path) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text)
        run_tool("Icarus Verilog", [str(icarus.path), *_FLAGS, "-o", "simulator.vvp", *sources], folder)

    key = content_key(icarus.version, *_FLAGS, *sources.values())
    return build_once("icarus", key, build) / "simulator.vvp"


def icarus_command(program: Path, run: Run) -> list[str]:
    """The command line of a program of `build_icarus`; the suffix of `run.trace` chooses VCD or FST."""
    options = [
        f"+DATA={run.data}",
        f"+VECTORS={run.vectors}",
        f"+LIMIT={run.limit}",
        f"+DUMP={int(run.dump)}",
    ]
    if run.trace is not None:
        options = ["-fst" if run.trace.suffix == ".fst" else "-vcd", *options, f"+TRACE={run.trace}"]
    return [str(vvp_path()), "-n", str(program), *options]
