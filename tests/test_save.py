"""A saved design runs by the commands of its own README, in both simulators, without Python."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.small_designs import expected_sum, random_vectors, vector_add
from torchcalyx.errors import InputError
from torchcalyx.results import save
from torchcalyx.results.save import save_design
from torchcalyx.simulate import simulate
from torchcalyx.tools.toolchain import compile_calyx, verilator_command

pytestmark = pytest.mark.needs("calyx")

DESIGN = vector_add(5, 3, 7)
VECTORS = random_vectors(DESIGN, 3)
EXPECTED = [{"out": expected_sum(DESIGN, vector)} for vector in VECTORS]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    verilog = compile_calyx(DESIGN.futil)
    return save_design(
        tmp_path / "saved", DESIGN, verilog, VECTORS, EXPECTED, {"model": "sum"}, "<p>report</p>"
    )


def readme_commands(folder: Path, word: str) -> str:
    """The shell block of the README that holds `word`, with the Verilator that torchcalyx uses."""
    blocks = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    return re.sub(r"^verilator", lambda _: shlex.join(verilator_command()), block, flags=re.MULTILINE)


def run(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-ec", commands], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )


def check_run(folder: Path, word: str) -> None:
    done = run(readme_commands(folder, word), folder)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for index in range(3):
        assert f"vector {index}: {DESIGN.cycles} cycles" in lines
    assert "PASS: all output words of 3 vectors are as expected" in lines
    for index in range(3):
        stored = (folder / "data" / f"out.{index}.hex").read_text()
        words = [line for line in stored.splitlines() if not line.startswith("//")]
        assert words == (folder / "data" / f"out.{index}.expected.hex").read_text().splitlines()


@pytest.mark.needs("icarus")
def test_a_saved_design_passes_in_icarus(saved: Path) -> None:
    check_run(saved, "iverilog")


@pytest.mark.needs("verilator", "g++", "make")
def test_a_saved_design_passes_in_verilator(saved: Path) -> None:
    check_run(saved, "verilator")


@pytest.mark.needs("icarus")
def test_a_wrong_word_fails(saved: Path) -> None:
    expected = saved / "data" / "out.1.expected.hex"
    lines = expected.read_text().splitlines()
    flipped = f"{int(lines[2], 16) ^ 1:06x}"
    expected.write_text("\n".join([*lines[:2], flipped, *lines[3:]]) + "\n")
    done = run(readme_commands(saved, "iverilog"), saved)
    assert done.returncode != 0
    assert f"vector 1: out[2] is {lines[2]}, expected {flipped}" in done.stdout
    assert "FAIL: 1 words differ in 3 vectors" in done.stdout
    assert "PASS" not in done.stdout


@pytest.mark.needs("icarus")
def test_a_word_that_is_not_written_fails(tmp_path: Path) -> None:
    faulty = vector_add(5, 3, 7, fault="single_shot")
    folder = save_design(
        tmp_path / "saved", faulty, compile_calyx(faulty.futil), VECTORS[:1] * 2, EXPECTED[:1] * 2
    )
    done = run(readme_commands(folder, "iverilog"), folder)
    assert done.returncode != 0
    assert re.search(r"vector 1: out\[0\] was not written, expected \w+", done.stdout)
    assert "FAIL: 5 words differ in 2 vectors" in done.stdout


@pytest.mark.needs("icarus")
def test_the_saved_run_equals_simulate(saved: Path) -> None:
    result = simulate(DESIGN, (saved / "design.sv").read_text(), VECTORS, simulator="icarus")
    for output, expected in zip(result.outputs, EXPECTED, strict=True):
        np.testing.assert_array_equal(output["out"], expected["out"])


def test_the_folder_holds_exactly_its_files(saved: Path) -> None:
    inputs = [f"data/a.{index}.hex" for index in range(3)]
    outputs = [f"data/out.{index}.expected.hex" for index in range(3)]
    named = ["README.md", "design.futil", "design.sv", "manifest.json", "report.html", "testbench.sv"]
    files = {str(p.relative_to(saved)) for p in saved.rglob("*") if p.is_file()}
    assert files == {*named, *inputs, *outputs, "data/b.hex"}
    assert sorted(p.name for p in saved.parent.iterdir()) == ["saved"]
    assert (saved / "design.futil").read_text() == DESIGN.futil
    assert (saved / "report.html").read_text() == "<p>report</p>"


def test_the_manifest_describes_the_memories(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format"] == "torchcalyx-design-1"
    assert (manifest["cycles"], manifest["vectors"], manifest["model"]) == (DESIGN.cycles, 3, "sum")
    expected = {"name": "a", "role": "input", "words": 5, "lanes": 3, "element_width": 7}
    assert manifest["memories"][0] == expected
    assert [memory["name"] for memory in manifest["memories"]] == ["a", "b", "out", "t"]


def test_an_earlier_save_is_replaced(saved: Path) -> None:
    save_design(saved, DESIGN, "module main; endmodule", VECTORS[:1], EXPECTED[:1])
    assert (saved / "design.sv").read_text() == "module main; endmodule"
    assert not (saved / "report.html").exists()
    assert not (saved / "data" / "a.1.hex").exists()
    assert sorted(p.name for p in saved.parent.iterdir()) == ["saved"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    save_design(tmp_path / "empty", DESIGN, "", VECTORS, EXPECTED)
    assert (tmp_path / "empty" / "manifest.json").is_file()


@pytest.mark.parametrize("manifest", [None, "{}", "[]", "not json", '{"format": "other"}'])
def test_a_foreign_folder_is_never_overwritten(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(
        InputError, match=r"is not empty and was not written by an earlier save .*nothing was written"
    ):
        save_design(tmp_path, DESIGN, "", VECTORS, EXPECTED)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a folder"):
        save_design(tmp_path / "file", DESIGN, "", VECTORS, EXPECTED)


def test_images_that_do_not_fit_leave_nothing(tmp_path: Path) -> None:
    for vectors, expected, message in (
        (VECTORS, EXPECTED[:2], "3 vectors to save, but 2 expected outputs."),
        (VECTORS, [{}] * 3, "Expected output vector 0 has no image for memory out."),
        ([{}] * 3, EXPECTED, "Input vector 0 has no image for memory a."),
    ):
        with pytest.raises(InputError, match=f"^{message}$"):
            save_design(tmp_path / "saved", DESIGN, "", vectors, expected)
    with pytest.raises(InputError, match="^manifest_extra may not set cycles.$"):
        save_design(tmp_path / "saved", DESIGN, "", VECTORS, EXPECTED, {"cycles": 1})
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_writing_keeps_the_earlier_save(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (saved / "design.sv").read_text()

    def fail(*_: object, **__: object) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(save, "testbench_text", fail)
    with pytest.raises(InputError, match="disk full"):
        save_design(saved, DESIGN, "", VECTORS, EXPECTED)
    assert (saved / "design.sv").read_text() == before
    assert sorted(p.name for p in saved.parent.iterdir()) == ["saved"]


def test_a_later_save_keeps_the_user_s_own_files(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "run").mkdir()
    (saved / "run" / "log").write_text("also mine")
    (saved / "data" / "stale.hex").write_text("0")
    save_design(saved, DESIGN, "", VECTORS, EXPECTED)
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "run" / "log").read_text() == "also mine"
    assert not (saved / "data" / "stale.hex").exists()
