"""Run a compiled design in a simulator: input images in, output images and exact cycle counts out.

All vectors of one call run in one process and without a reset between them, so a design that keeps stale
state shows it. Nothing undefined comes back silently: an output word that a call did not write, an
undefined bit, an access outside a memory, a call that never ends and a simulator that crashes are all
SimulationErrors.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from rich.console import Console
from rich.progress import Progress

from torchcalyx.design import Design, DesignMemory, Image
from torchcalyx.errors import InputError, OptionsError
from torchcalyx.simulate.harness import default_cycle_limit, harness_text, testbench_text, write_data
from torchcalyx.simulate.icarus import build_icarus, icarus_command
from torchcalyx.simulate.process import Run, run_simulator
from torchcalyx.simulate.results import read_output, read_private
from torchcalyx.simulate.verilator import Waveform, build_verilator, verilator_command

__all__ = ["SIMULATORS", "SimulationResult", "Simulator", "default_cycle_limit", "simulate"]

Simulator: TypeAlias = Literal["verilator", "icarus"]
SIMULATORS: tuple[Simulator, ...] = ("verilator", "icarus")

# A guard beside the cycle limit, far from any real run: Icarus makes some hundred cycles a second of a
# large array.
_WALL_SECONDS = 300.0
_WALL_CYCLES_PER_SECOND = 20.0


@dataclass(frozen=True)
class SimulationResult:
    """What the vectors of one run gave, in their order.

    outputs: image of each output memory. cycles: clock edges from go to done. memories: images of the private
    memories asked for by `dump`, as each call left them; a word that the call did not write is zero.
    """

    outputs: tuple[Mapping[str, Image], ...]
    cycles: tuple[int, ...]
    memories: tuple[Mapping[str, Image], ...] = ()


def simulate(
    design: Design,
    verilog: str,
    vectors: Sequence[Mapping[str, Image]],
    *,
    simulator: Simulator = "verilator",
    trace: Path | None = None,
    cycle_limit: int | None = None,
    progress: bool | None = None,
    dump: Sequence[str] = (),
) -> SimulationResult:
    """Run every vector (one int64 image for each input memory) through the compiled design.

    verilog: text of component `main`, as `toolchain.compile_calyx(design.futil)` makes it. Elements are
    two's complement: a 1-bit element reads as 0 or -1. trace: waveform file of a single vector, `.vcd` or
    `.fst`. cycle_limit: cycles after which a call counts as hung (default: ten times the prediction, plus
    10000). progress: show it on stderr (default: only on a terminal). dump: names of private ("temp")
    memories to return.

    Raises InputError (vectors or `dump` do not fit the design), OptionsError (simulator or trace),
    ToolNotFound, ToolError (a build fails), SimulationError (hang, crash, undefined output, access outside
    a memory).
    """
    waveform = _check_options(simulator, trace, len(vectors))
    dumped = _dumped(design, dump)
    if not vectors:
        return SimulationResult((), ())
    shown = sys.stderr.isatty() if progress is None else progress
    bar = Progress(console=Console(stderr=True), transient=True, disable=not shown)
    with tempfile.TemporaryDirectory(prefix="torchcalyx-") as scratch, bar:
        task = bar.add_task(f"{simulator}: build", total=None)
        data = Path(scratch)
        write_data(data, design, vectors)
        limit = default_cycle_limit(design) if cycle_limit is None else cycle_limit
        run = Run(data, len(vectors), limit, bool(dumped), trace.absolute() if trace else None)
        if simulator == "icarus":
            command = icarus_command(build_icarus(verilog, harness_text(design), testbench_text(design)), run)
        else:
            command = verilator_command(build_verilator(verilog, harness_text(design), waveform), run)
        bar.update(task, description=f"{simulator}: run", total=len(vectors))
        cycles = run_simulator(
            command,
            vectors=len(vectors),
            wall_limit=_WALL_SECONDS + design.cycles * len(vectors) / _WALL_CYCLES_PER_SECOND,
            on_vector=lambda done: bar.update(task, completed=done),
        )
        indices, results = range(len(vectors)), design.of_role("output")
        outputs = tuple({m.name: read_output(data, m, index) for m in results} for index in indices)
        memories = tuple({m.name: read_private(data, m, index) for m in dumped} for index in indices)
    return SimulationResult(outputs, cycles, memories if dumped else ())


def _check_options(simulator: str, trace: Path | None, vectors: int) -> Waveform:
    if simulator not in SIMULATORS:
        raise OptionsError(
            f"simulator is {simulator!r}; it must be one of {', '.join(map(repr, SIMULATORS))}."
        )
    if trace is None:
        return ""
    if vectors != 1:
        raise InputError(f"A waveform is written of exactly one vector, not of {vectors}.")
    if not trace.absolute().parent.is_dir():
        raise OptionsError(f"The folder of the waveform file {trace} does not exist.")
    if trace.suffix == ".vcd":
        return "vcd"
    if trace.suffix == ".fst":
        return "fst"
    raise OptionsError(f'The waveform file {trace} must end in ".vcd" or ".fst".')


def _dumped(design: Design, names: Sequence[str]) -> tuple[DesignMemory, ...]:
    private = {memory.name: memory for memory in design.of_role("temp")}
    if unknown := sorted(set(names) - private.keys()):
        known = ", ".join(sorted(private)) or "none"
        raise InputError(f"dump names {', '.join(unknown)}; the private memories are: {known}.")
    return tuple(private[name] for name in dict.fromkeys(names))
