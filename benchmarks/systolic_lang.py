"""Calyx's own systolic array generator beside ours: cycles of one product on an array of its size.

    python -m benchmarks.systolic_lang [--quick]

The generator (`frontends/systolic-lang` in the source of the calyx crate, run from there) makes an
output-stationary array for one single product: 32-bit fixed point, four multiplier stages, one memory for
each row and column. It goes through the same Calyx compiler, harness and simulator as ours, and its result is
compared with numpy's. Ours multiplies 16-bit words and rounds to such; it is shown with one and three stages.

Bound of a product with inner size K on an M x N array: K + M + N - 2. Goal: fewer cycles than the generator
needs with its option for fixed sizes, which saves it one. --quick leaves out the 16 x 16 array.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, run
from benchmarks.gemm import product
from benchmarks.measure import quick_simulator
from torchcalyx.design import Design, DesignMemory, Image
from torchcalyx.errors import ToolNotFound
from torchcalyx.simulate.harness import harness_text, testbench_text, write_data
from torchcalyx.simulate.icarus import build_icarus, icarus_command
from torchcalyx.simulate.process import Run, run_simulator
from torchcalyx.simulate.results import read_output
from torchcalyx.simulate.verilator import build_verilator, verilator_command
from torchcalyx.tools.toolchain import CALYX_VERSION, compile_calyx, crate_sources

TITLE = "One product, beside Calyx's systolic-lang"
FRACTION = 16
LIMIT = 10_000
SIZES = ((4, 4, 4), (4, 64, 4), (2, 8, 4), (8, 8, 8), (8, 64, 8), (16, 16, 16), (16, 64, 16))


def generator() -> Path:
    """The generator's script. Raises ToolNotFound when the crate's source is not on this machine."""
    for folder in crate_sources():
        script = folder / "frontends" / "systolic-lang" / "gen-systolic.py"
        if script.is_file():
            return script
    raise ToolNotFound(
        "the source of the calyx crate (with frontends/systolic-lang) is not on this machine.\n"
        f"Fetch it with: cargo install calyx --version {CALYX_VERSION} --locked --force"
    )


def cycles(rows: int, inner: int, cols: int, *, fixed: bool) -> int:
    """Cycles from go to done of the generated array for (rows x inner) @ (inner x cols); asserts the result.

    fixed: with the generator's option for an inner size known when it runs.
    """
    script = generator()
    sizes = {"-tl": cols, "-td": inner, "-ll": rows, "-ld": inner}
    options = [text for name, size in sizes.items() for text in (name, str(size))]
    command = [sys.executable, script.name, *options, *(["--fixed-dim"] if fixed else [])]
    futil = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=True).stdout
    rng = np.random.default_rng(0)
    left, top = rng.integers(-40, 40, (rows, inner)), rng.integers(-40, 40, (inner, cols))
    images = {f"l{i}": left[i] << FRACTION for i in range(rows)}
    images |= {f"t{i}": top[:, i] << FRACTION for i in range(cols)}
    found, count = _simulate(futil, {name: image[:, None] for name, image in images.items()}, rows, cols)
    assert np.array_equal(found, (left @ top) << FRACTION), "the generated array computes something else"
    return count


def _simulate(futil: str, images: dict[str, Image], rows: int, cols: int) -> tuple[Image, int]:
    """The product, (rows, cols), and the cycles of one call."""
    inputs = [DesignMemory(name, len(image), 1, 32, "input") for name, image in images.items()]
    outputs = [DesignMemory(f"out_mem_{i}", cols, 1, 32, "output") for i in range(rows)]
    design = Design(futil, (*inputs, *outputs), LIMIT)
    # Its memories read without a clock, so the only access to watch is a write.
    harness = harness_text(design).replace(".content_en", ".write_en")
    verilog = compile_calyx(futil)
    with tempfile.TemporaryDirectory() as name:
        call = Run(Path(name), 1, LIMIT)
        write_data(call.data, design, [images])
        if quick_simulator() == "icarus":
            command = icarus_command(build_icarus(verilog, harness, testbench_text(design)), call)
        else:
            command = verilator_command(build_verilator(verilog, harness), call)
        count = run_simulator(command, vectors=1, wall_limit=300, on_vector=lambda done: None)
        return np.array([read_output(call.data, memory, 0)[:, 0] for memory in outputs]), count[0]


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    found = []
    for rows, inner, cols in SIZES:
        if quick and rows > 8:
            continue
        theirs, fixed = (cycles(rows, inner, cols, fixed=option) for option in (False, True))
        rival = f"systolic-lang: {theirs}, fixed sizes: {fixed}"
        for stages in (1, 3):
            ours = product(rows, inner, cols, stages)
            what = f"{rows}x{inner}x{cols}, multiplier stages: {stages} ({rival})"
            found.append(Figure(what, ours.cycles, inner + rows + cols - 2, fixed - 1, calls=ours.calls))
    return found


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
