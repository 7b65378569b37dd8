"""Run the programs of a simulation: compilers that must succeed, simulators that report each vector."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchcalyx.errors import SimulationError, ToolError

_LOG_LINES = 60
_VECTOR_LINE = re.compile(r"vector (\d+): (\d+) cycles")
# What tells most about a failure stands first: a check of our harness, else a check of Calyx's primitives.
_REASONS = (re.compile(r"torchcalyx: (.*)"), re.compile(r"%(?:Error|Fatal): (.*)"))


@dataclass(frozen=True, slots=True)
class Run:
    """What a simulator process shall do.

    data: folder of the memory files. limit: cycles after which a call counts as hung. dump: store the private
    memories as well. trace: waveform file, or None.
    """

    data: Path
    vectors: int
    limit: int
    dump: bool = False
    trace: Path | None = None


def run_tool(what: str, command: Sequence[str], folder: Path) -> None:
    """Run a program in `folder`. Raises ToolError with the end of its log when it cannot start or fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ToolError(f"{what}: {command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        lines = done.stdout.replace(f"{folder}/", "").splitlines()
        # Compilers name the first error first; the rest of a long log follows from it.
        kept = (
            lines
            if len(lines) <= _LOG_LINES
            else [*lines[: _LOG_LINES // 2], "...", *lines[-_LOG_LINES // 2 :]]
        )
        raise ToolError(f"{what} failed: {_ending(done.returncode)}.\n" + "\n".join(kept))


def run_simulator(
    command: Sequence[str], *, vectors: int, wall_limit: float, on_vector: Callable[[int], None]
) -> tuple[int, ...]:
    """Run a simulator through all vectors; the cycles of each.

    wall_limit: seconds after which the process is ended. on_vector: called with the count of vectors done.
    Raises SimulationError with the reason and the end of the log when the simulator cannot start, hangs or
    stops early.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise SimulationError(f"The simulator {command[0]} cannot be run: {error}") from error
    late = threading.Event()

    def end_late() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(wall_limit, end_late)
    timer.daemon = True
    timer.start()
    log: deque[str] = deque(maxlen=_LOG_LINES)
    try:
        with process:
            cycles = _read_cycles(process, log, on_vector)
    finally:
        timer.cancel()
        process.kill()  # does nothing when it has ended; after an exception here nothing may keep running
    if late.is_set():
        reason = f"it ran longer than {wall_limit:.0f} s and was ended"
    elif process.returncode != 0:
        reason = _ending(process.returncode)
    elif len(cycles) != vectors:
        reason = f"it ended after {len(cycles)} of {vectors} vectors"
    else:
        return tuple(cycles)
    raise SimulationError(_message(reason, len(cycles), list(log)))


def _read_cycles(
    process: subprocess.Popen[str], log: deque[str], on_vector: Callable[[int], None]
) -> list[int]:
    assert process.stdout is not None
    cycles: list[int] = []
    try:
        for line in process.stdout:
            match = _VECTOR_LINE.fullmatch(line.strip())
            if match and int(match[1]) == len(cycles):
                cycles.append(int(match[2]))
                on_vector(len(cycles))
            else:
                log.append(line.rstrip())
    except BaseException:
        process.kill()
        raise
    return cycles


def _message(reason: str, done: int, log: list[str]) -> str:
    found = [match[1] for pattern in _REASONS for line in log if (match := pattern.search(line))]
    text = f"The simulation failed in vector {done}: {found[0] if found else reason}."
    return text + (f"\nThe simulator's log ({reason}):\n" + "\n".join(log) if log else "")


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"ended by signal {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"
