"""Build a design's simulator with Verilator: two-valued logic, slower to build, hundreds of times faster.

Three steps: Verilator turns the Verilog into C++, g++ compiles it in a few parts of like size side by side,
and the linker joins it with Verilator's runtime. The runtime (and a precompiled form of its header) does
not depend on the design and is compiled once per cache. The files are given to g++ directly: the packaged
Verilator has no makefile settings for the language standard.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeAlias

from torchcalyx.errors import ToolNotFound
from torchcalyx.simulate.builds import build_once
from torchcalyx.simulate.process import Run, run_tool
from torchcalyx.tools import toolchain
from torchcalyx.tools.cache import content_key

Waveform: TypeAlias = Literal["", "vcd", "fst"]

# Undefined values become random: a design that depends on one then differs from its software model.
_VERILATOR_FLAGS = (
    *("--cc", "--top-module", "harness", "--prefix", "Vharness", "--Mdir", "model"),
    *("--x-assign", "unique", "--x-initial", "unique"),
    # Warnings about style do not stop a build; these would mean a wrong program.
    *("-Wno-fatal", "-Werror-MULTIDRIVEN", "-Werror-SELRANGE", "-Werror-LATCH", "-Werror-IMPLICIT"),
)
_TRACE_FLAGS: dict[Waveform, tuple[str, ...]] = {"": (), "vcd": ("--trace",), "fst": ("--trace-fst",)}
# -O1 takes a third longer to compile than -O0 and runs six times faster; -O2 gains nothing more.
_CXX_FLAGS = ("-std=gnu++20", "-O1", "-w", "-pthread")
_PART_BYTES = 400_000


def build_verilator(verilog: str, harness: str, waveform: Waveform = "") -> Path:
    """The simulator's executable, cached by its sources and tools.

    waveform: kind of file that the executable writes. Raises ToolNotFound, or ToolError with the log.
    """
    if waveform == "fst":
        _require_fst_headers()
    driver = Path(__file__).with_name("driver.cpp").read_text()
    sources = {"design.sv": verilog, "harness.sv": harness, "driver.cpp": driver}

    def build(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="torchcalyx-") as scratch:
            _compile(Path(scratch), sources, waveform, folder / "simulator")

    key = content_key(*sources.values(), *_VERILATOR_FLAGS, *_toolset(waveform))
    return build_once("verilator", key, build) / "simulator"


def verilator_command(program: Path, run: Run) -> list[str]:
    """The command line of an executable of `build_verilator`."""
    arguments = (run.vectors, run.limit, int(run.dump), run.trace or "-")
    return [str(program), *map(str, arguments), f"+DATA={run.data}"]


def _compile(work: Path, sources: dict[str, str], waveform: Waveform, program: Path) -> None:
    for name, text in sources.items():
        (work / name).write_text(text)
    flags = (*_VERILATOR_FLAGS, *_TRACE_FLAGS[waveform])
    run_tool("Verilator", [*toolchain.verilator_command(), *flags, "harness.sv", "design.sv"], work)
    runtime = _runtime(waveform)
    parts = _write_parts(work)
    gxx = str(toolchain.find_tool("g++").path)
    compiler = [gxx, "-I", str(runtime), "-include", "runtime.h", *_cxx_flags(waveform)]
    _run_together(work, [[*compiler, "-c", part, "-o", f"{part}.o"] for part in parts])
    objects = [f"{part}.o" for part in parts]
    libraries = [str(runtime / "libruntime.a"), *_libraries(waveform)]
    run_tool("The linker (g++)", [gxx, "-pthread", *objects, *libraries, "-o", str(program)], work)


def _runtime(waveform: Waveform) -> Path:
    """The folder with libruntime.a and the precompiled runtime.h."""
    names = ["verilated.cpp", "verilated_threads.cpp", *([f"verilated_{waveform}_c.cpp"] if waveform else [])]
    include = toolchain.verilator_root() / "include"
    compiler = [str(toolchain.find_tool("g++").path), *_cxx_flags(waveform)]

    def build(folder: Path) -> None:
        (folder / "runtime.h").write_text('#include "verilated.h"\n')
        commands = [[*compiler, "-c", str(include / name), "-o", f"{name}.o"] for name in names]
        commands += [[*compiler, "-x", "c++-header", "runtime.h", "-o", "runtime.h.gch"]]
        _run_together(folder, commands)
        objects = [f"{name}.o" for name in names]
        run_tool("The archiver (ar)", ["ar", "rcs", "libruntime.a", *objects], folder)
        for name in objects:
            (folder / name).unlink()

    return build_once("runtime", content_key(*names, *_toolset(waveform)), build)


def _write_parts(work: Path) -> list[str]:
    """Join the generated sources and the driver into parts of like size, each with the headers once."""
    sources = sorted((work / "model").glob("*.cpp"), key=lambda path: (-path.stat().st_size, path.name))
    total = sum(path.stat().st_size for path in sources)
    count = min(len(sources), -(-total // _PART_BYTES))
    sizes = [0] * count
    texts = ['#include "driver.cpp"\n', *[""] * (count - 1)]
    for path in sources:
        smallest = sizes.index(min(sizes))
        sizes[smallest] += path.stat().st_size
        texts[smallest] += f'#include "model/{path.name}"\n'
    names = [f"part{index}.cpp" for index in range(count)]
    for name, text in zip(names, texts, strict=True):
        (work / name).write_text(text)
    return names


def _run_together(folder: Path, commands: Sequence[list[str]]) -> None:
    """Run g++ once for each command, as many at a time as there are processors."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(count) as pool:
        for finished in [pool.submit(run_tool, "The C++ compiler (g++)", c, folder) for c in commands]:
            finished.result()


def _toolset(waveform: Waveform) -> list[str]:
    """What a build depends on besides its sources."""
    tools = [toolchain.find_tool(name) for name in ("verilator", "g++")]
    return [*(f"{tool.name} {tool.version} {tool.path}" for tool in tools), *_cxx_flags(waveform)]


def _cxx_flags(waveform: Waveform) -> list[str]:
    include = toolchain.verilator_root() / "include"
    defines = ["VERILATOR=1", "VM_COVERAGE=0", "VM_SC=0", "VM_TIMING=0", f"VM_TRACE={int(bool(waveform))}"]
    for kind in ("vcd", "fst"):
        value = int(waveform == kind)
        defines += [f"VM_TRACE_{kind.upper()}={value}", f"TRACE_{kind.upper()}={value}"]
    folders = ["-I.", "-Imodel", "-I", str(include), "-I", str(include / "vltstd")]
    return [*_CXX_FLAGS, *(f"-D{define}" for define in defines), *folders]


def _libraries(waveform: Waveform) -> list[str]:
    if waveform != "fst":
        return []
    writer = toolchain.verilator_root() / "include" / "fstcpp" / "fstcpp_writer.cpp"
    return ["-lz", *(["-llz4"] if writer.is_file() and "<lz4.h>" in writer.read_text() else [])]


def _require_fst_headers() -> None:
    source = toolchain.verilator_root() / "include" / "verilated_fst_c.cpp"
    compiler = [str(toolchain.find_tool("g++").path), *_cxx_flags("fst")]
    done = subprocess.run(
        [*compiler, "-E", str(source), "-o", os.devnull],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    missing = re.search(r"fatal error: (\S+): No such file", done.stderr)
    what = f"the header {missing[1]} is not installed" if missing else done.stderr.strip()[-500:]
    raise ToolNotFound(
        f"Verilator's FST waveform writer cannot be compiled: {what}.\n"
        'Install it with: apt-get install zlib1g-dev liblz4-dev; or write a ".vcd" file; '
        'or use simulator="icarus", which writes FST by itself.'
    )
