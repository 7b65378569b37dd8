"""The same model is the same program, byte by byte, in every process: what is emitted depends on no hash of a
string, on no address, and not on what was compiled before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.same_program import MODELS

ROOT = Path(__file__).parents[1]


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    running = []
    for seed, *order in (("1",), ("4242", "--reversed")):
        command = [sys.executable, "-m", "tests.same_program", str(tmp_path / seed), *order]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        running.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        )
    for process in running:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    first, second = (_files(tmp_path / seed) for seed in ("1", "4242"))
    assert {name.split("/")[0] for name in first} == {make.__name__ for make in MODELS}
    assert any(name.endswith(".bin") and "w_" in name for name in first), "no image of a weight"
    assert first.keys() == second.keys()
    differing = [name for name in first if first[name] != second[name]]
    assert not differing, f"written differently: {', '.join(differing)}"


def _files(folder: Path) -> dict[str, bytes]:
    """Contents by path, smallest names first."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
