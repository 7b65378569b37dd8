"""Save a compiled design as a folder that runs in Icarus or Verilator alone, without Python.

The folder appears whole or not at all: it is written beside its place and moved there in one step. Its
testbench loads the saved example vectors, runs them and compares every output word with the expected one.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchcalyx.design import Design, Image
from torchcalyx.errors import InputError
from torchcalyx.simulate.harness import (
    default_cycle_limit,
    harness_text,
    render,
    testbench_text,
    write_data,
    write_expected,
)

WRITTEN = frozenset(
    ("design.futil", "design.sv", "testbench.sv", "manifest.json", "README.md", "report.html", "data")
)
"""Entries of a saved folder that a later save replaces."""
MANIFEST = "manifest.json"
FORMAT = "torchcalyx-design-1"


def save_design(
    directory: Path | str,
    design: Design,
    verilog: str,
    vectors: Sequence[Mapping[str, Image]],
    expected_outputs: Sequence[Mapping[str, Image]],
    manifest_extra: Mapping[str, Any] | None = None,
    report_html: str | None = None,
) -> Path:
    """Write the folder and return its path.

    vectors, expected_outputs: the example calls, one image for each input and each output memory.
    manifest_extra: further JSON values for `manifest.json` (a name of ours is refused). An earlier save in
    `directory` is replaced; files that the user put beside it stay.

    Raises InputError when the images do not fit the design, or when `directory` is something else than a new
    or empty folder or an earlier save, or cannot be written.
    """
    target = Path(directory).absolute()
    _check_target(target)
    if len(vectors) != len(expected_outputs):
        raise InputError(f"{len(vectors)} vectors to save, but {len(expected_outputs)} expected outputs.")
    manifest = _manifest(design, len(vectors))
    if taken := sorted(manifest.keys() & (manifest_extra or {}).keys()):
        raise InputError(f"manifest_extra may not set {', '.join(taken)}.")
    try:
        _write_folder(
            target,
            design,
            verilog,
            vectors,
            expected_outputs,
            {**manifest, **(manifest_extra or {})},
            report_html,
        )
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def _write_folder(
    target: Path,
    design: Design,
    verilog: str,
    vectors: Sequence[Mapping[str, Image]],
    expected_outputs: Sequence[Mapping[str, Image]],
    manifest: Mapping[str, Any],
    report_html: str | None,
) -> None:
    """Make the folder beside its place and move it there when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        new = Path(scratch) / "new"
        (new / "data").mkdir(parents=True)
        write_data(new / "data", design, vectors)
        write_expected(new / "data", design, expected_outputs)
        limit = default_cycle_limit(design)
        testbench = testbench_text(design, vectors=len(vectors), limit=limit, check=True)
        _write(new / "design.futil", design.futil)
        _write(new / "design.sv", verilog)
        _write(new / "testbench.sv", f"{harness_text(design)}\n{testbench}")
        _write(new / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        _write(new / "README.md", _readme(design, len(vectors), report=report_html is not None))
        if report_html is not None:
            _write(new / "report.html", report_html)
        _check_target(target)
        _keep_foreign(target, new)
        _put(new, target, Path(scratch) / "old")


def _keep_foreign(target: Path, new: Path) -> None:
    """Copy what the user put beside an earlier save (anything a save does not write) into the new folder."""
    for entry in target.iterdir() if target.is_dir() else ():
        if entry.name in WRITTEN:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, new / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, new / entry.name, follow_symlinks=False)


def _put(new: Path, target: Path, old: Path) -> None:
    """Move `new` to `target` and what is there to `old`; on failure everything is as before."""
    if not target.exists():
        os.rename(new, target)
        return
    os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        os.rename(old, target)
        raise


def _check_target(target: Path) -> None:
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise InputError(f"{target} exists and is not a folder; choose another place to save to.")
    if any(target.iterdir()) and not _is_save(target):
        raise InputError(
            f"{target} is not empty and was not written by an earlier save (it has no {MANIFEST} of ours): "
            "nothing was written. Choose another folder, or remove this one yourself."
        )


def _is_save(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def _manifest(design: Design, vectors: int) -> dict[str, Any]:
    memories = [
        {
            "name": memory.name,
            "role": memory.role,
            "words": memory.words,
            "lanes": memory.lanes,
            "element_width": memory.element_width,
        }
        for memory in design.memories
    ]
    return {"format": FORMAT, "cycles": design.cycles, "vectors": vectors, "memories": memories}


def _readme(design: Design, vectors: int, *, report: bool) -> str:
    limit = default_cycle_limit(design)
    return render("saved-readme.md.j2", design=design, vectors=vectors, report=report, limit=limit)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
