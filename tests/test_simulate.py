"""Simulation: both simulators give the sums, and nothing undefined, endless or broken passes silently."""

from __future__ import annotations

import dataclasses
import multiprocessing
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vcdvcd import VCDVCD

from tests.small_designs import Fault, expected_sum, random_vectors, vector_add
from torchcalyx.design import Role
from torchcalyx.errors import InputError, OptionsError, PlanError, SimulationError, ToolError, ToolNotFound
from torchcalyx.simulate import SIMULATORS, Simulator, simulate
from torchcalyx.simulate.builds import build_once
from torchcalyx.simulate.process import run_simulator, run_tool
from torchcalyx.tools import toolchain
from torchcalyx.tools.cache import cache_dir
from torchcalyx.tools.toolchain import compile_calyx

pytestmark = pytest.mark.needs("calyx", "verilator", "icarus", "g++")
both = pytest.mark.parametrize("simulator", SIMULATORS)

FST_START = bytes(1) + (329).to_bytes(8, "big")  # the header block: its kind (0) and length

SHAPES = {
    "words narrower than a digit": (4, 1, 1),
    "word of 15 bits": (6, 3, 5),
    "word of 128 bits": (5, 8, 16),
    "64-bit elements": (3, 2, 64),
    "a single word": (1, 2, 7),
    "power of two words": (8, 1, 32),
}


@both
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_many_vectors_run_in_one_process(simulator: Simulator, shape: tuple[int, int, int]) -> None:
    design = vector_add(*shape)
    vectors = random_vectors(design, 5)
    result = simulate(design, compile_calyx(design.futil), vectors, simulator=simulator, dump=["t"])
    assert result.cycles == (design.cycles,) * 5
    for vector, output, private in zip(vectors, result.outputs, result.memories, strict=True):
        np.testing.assert_array_equal(output["out"], expected_sum(design, vector))
        np.testing.assert_array_equal(private["t"], expected_sum(design, vector))


@both
def test_no_vectors_give_an_empty_result(simulator: Simulator) -> None:
    result = simulate(vector_add(), "", [], simulator=simulator)
    assert (result.outputs, result.cycles, result.memories) == ((), (), ())


@both
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("unwritten", "Word 5 of memory out was left undefined by vector 0: the call did not write it."),
        (
            "single_shot",
            "Word 0 (and 5 more words) of memory out was left undefined by vector 1: the call did not write",
        ),
        ("hang", "The simulation failed in vector 0: the call is not done after 10250 cycles."),
        (
            "write_outside",
            "The simulation failed in vector 0: memory out of 6 words is accessed at address 6.",
        ),
    ],
)
def test_a_faulty_design_is_an_error(simulator: Simulator, fault: Fault, message: str) -> None:
    design = vector_add(fault=fault)
    with pytest.raises(SimulationError, match=f"^{re.escape(message)}"):
        simulate(design, compile_calyx(design.futil), random_vectors(design, 2), simulator=simulator)


def test_a_read_outside_a_memory_is_an_error() -> None:
    design = vector_add(fault="read_outside")
    verilog, vectors = compile_calyx(design.futil), random_vectors(design, 1)
    with pytest.raises(SimulationError, match="memory t of 6 words is accessed at address 6"):
        simulate(design, verilog, vectors, simulator="icarus")
    with pytest.raises(SimulationError, match="(?s)Out of bounds access.*addr0: 6"):
        simulate(design, verilog, vectors, simulator="verilator")


def test_a_value_never_defined_is_an_error_or_random() -> None:
    design = vector_add(fault="uninitialised")
    verilog, vectors = compile_calyx(design.futil), random_vectors(design, 1)
    message = "Word 0 (and 5 more words) of memory out was left undefined by vector 0: it has bits of unknown"
    with pytest.raises(SimulationError, match=f"^{re.escape(message)}"):
        simulate(design, verilog, vectors, simulator="icarus")
    first, second = (simulate(design, verilog, vectors, dump=["t"]) for _ in range(2))
    output = first.outputs[0]["out"]
    assert np.unique(output).size > 1  # neither all zero nor all one
    np.testing.assert_array_equal(output, second.outputs[0]["out"])
    assert not first.memories[0]["t"].any()  # a word that a call did not write is zero


@both
def test_the_weights_may_not_be_written(simulator: Simulator) -> None:
    design = vector_add()
    roles: dict[str, Role] = {"out": "weight", "b": "weight", "a": "input", "t": "output"}
    memories = tuple(dataclasses.replace(m, role=roles[m.name]) for m in design.memories)
    weights = {**design.weights, "out": design.weights["b"]}
    changed = dataclasses.replace(design, memories=memories, weights=weights)
    with pytest.raises(SimulationError, match="memory out holds weights and is written at address 0"):
        simulate(changed, compile_calyx(design.futil), random_vectors(design, 1), simulator=simulator)


@both
def test_the_cycle_limit_can_be_set(simulator: Simulator) -> None:
    design = vector_add()
    verilog, vectors = compile_calyx(design.futil), random_vectors(design, 1)
    assert simulate(design, verilog, vectors, simulator=simulator, cycle_limit=25).cycles == (25,)
    with pytest.raises(SimulationError, match="not done after 24 cycles"):
        simulate(design, verilog, vectors, simulator=simulator, cycle_limit=24)


@both
def test_verilog_with_an_error_gives_the_log(simulator: Simulator) -> None:
    design = vector_add()
    broken = compile_calyx(design.futil).replace("assign done =", "assign nonsense_port =")
    with pytest.raises(
        ToolError, match=r"(?s)^(Verilator|Icarus Verilog) failed: exit status.*nonsense_port"
    ):
        simulate(design, broken, random_vectors(design, 1), simulator=simulator)


@pytest.mark.parametrize(
    ("simulator", "suffix"), [("verilator", "vcd"), ("icarus", "vcd"), ("icarus", "fst")]
)
def test_a_waveform_is_written(simulator: Simulator, suffix: str, tmp_path: Path) -> None:
    design = vector_add()
    vectors = random_vectors(design, 1)
    trace = tmp_path / f"wave.{suffix}"
    result = simulate(design, compile_calyx(design.futil), vectors, simulator=simulator, trace=trace)
    np.testing.assert_array_equal(result.outputs[0]["out"], expected_sum(design, vectors[0]))
    if suffix == "fst":
        assert trace.read_bytes()[:9] == FST_START
        return
    wave = VCDVCD(str(trace))
    done = next(name for name in wave.signals if name.endswith("dut.done"))
    assert {value for _, value in wave[done].tv} >= {"0", "1"}


def test_fst_without_its_headers_is_refused(tmp_path: Path) -> None:
    design = vector_add()
    verilog, vectors = compile_calyx(design.futil), random_vectors(design, 1)
    trace = tmp_path / "wave.fst"
    try:
        simulate(design, verilog, vectors, trace=trace)
    except ToolNotFound as error:
        assert re.search(r"the header (zlib|lz4)\.h is not installed", str(error))
        assert not trace.exists()
    else:
        assert trace.read_bytes()[:9] == FST_START


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    design = vector_add()
    (vector,) = random_vectors(design, 1)
    cases: tuple[tuple[type[Exception], str, dict[str, Any]], ...] = (
        (
            OptionsError,
            "simulator is 'spice'; it must be one of 'verilator', 'icarus'.",
            {"simulator": "spice"},
        ),
        (OptionsError, 'must end in ".vcd" or ".fst".', {"trace": tmp_path / "wave.txt"}),
        (OptionsError, "The folder of the waveform file", {"trace": tmp_path / "none" / "wave.vcd"}),
        (InputError, "dump names b, nothing; the private memories are: t.", {"dump": ["nothing", "b"]}),
        (InputError, "exactly one vector, not of 2.", {"trace": tmp_path / "w.vcd", "vectors": [vector] * 2}),
        (InputError, "Input vector 1 has no image for memory a.", {"vectors": [vector, {}]}),
        (
            InputError,
            "Input vector 0 has an image for unknown memory z (known: a).",
            {"vectors": [{**vector, "z": vector["a"]}]},
        ),
    )
    for error, message, arguments in cases:
        with pytest.raises(error, match=re.escape(message)):
            simulate(design, "", **{"vectors": [vector], **arguments})
    with pytest.raises(PlanError, match="weight memory b but holds no image"):
        simulate(dataclasses.replace(design, weights={}), "", [vector])


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -SEGV $$", "failed in vector 0: ended by signal SIGSEGV."),
        ("echo 'vector 0: 7 cycles'; exit 3", "failed in vector 1: exit status 3."),
        ("echo 'vector 0: 7 cycles'", "failed in vector 1: it ended after 1 of 2 vectors."),
        ("echo oops; exit 4", "exit status 4.\nThe simulator's log (exit status 4):\noops"),
        ("exec sleep 60", "failed in vector 0: it ran longer than 1 s and was ended."),
        ("echo 'torchcalyx: a reason'; exit 1", "failed in vector 0: a reason."),
    ],
)
def test_a_simulator_that_breaks_off_is_an_error(script: str, message: str) -> None:
    with pytest.raises(SimulationError, match=re.escape(message)):
        run_simulator(["sh", "-c", script], vectors=2, wall_limit=1.0, on_vector=lambda done: None)


def test_a_simulator_reports_each_vector() -> None:
    seen: list[int] = []
    command = ["printf", "vector 0: 7 cycles\\nnoise\\nvector 1: 9 cycles\\n"]
    assert run_simulator(command, vectors=2, wall_limit=60.0, on_vector=seen.append) == (7, 9)
    assert seen == [1, 2]


def test_programs_that_cannot_start_are_errors(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    with pytest.raises(SimulationError, match=r"The simulator .*absent cannot be run"):
        run_simulator([absent], vectors=1, wall_limit=1.0, on_vector=lambda done: None)
    with pytest.raises(ToolError, match=r"^The maker: .*absent cannot be run"):
        run_tool("The maker", [absent], tmp_path)


def test_progress_is_silent_when_not_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    design = vector_add()
    simulate(design, compile_calyx(design.futil), random_vectors(design, 1), simulator="icarus")
    assert capfd.readouterr() == ("", "")


# The cache


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, but for Verilator's compiled runtime, which takes long and is the same for all."""
    design = vector_add()
    simulate(design, compile_calyx(design.futil), random_vectors(design, 1))
    (tmp_path / "runtime").symlink_to(cache_dir() / "runtime")
    monkeypatch.setenv("TORCHCALYX_CACHE", str(tmp_path))
    return tmp_path


def entries(cache: Path, kind: str) -> list[Path]:
    return sorted(path for path in (cache / kind).iterdir() if path.is_dir())


@both
def test_a_damaged_simulator_is_built_again(simulator: Simulator, own_cache: Path) -> None:
    design = vector_add()
    verilog, vectors = compile_calyx(design.futil), random_vectors(design, 1)

    def run() -> None:
        outputs = simulate(design, verilog, vectors, simulator=simulator).outputs
        np.testing.assert_array_equal(outputs[0]["out"], expected_sum(design, vectors[0]))

    run()
    (entry,) = entries(own_cache, simulator)
    program = next(path for path in entry.iterdir() if path.stem == "simulator")
    built = program.stat().st_ino
    run()
    assert program.stat().st_ino == built
    program.write_bytes(program.read_bytes()[:-100])
    run()
    assert program.stat().st_ino != built
    assert entries(own_cache, simulator) == [entry]


def test_a_half_written_build_is_never_used(own_cache: Path) -> None:
    made: list[str] = []

    def build(folder: Path) -> None:
        made.append("build")
        (folder / "result").write_text("whole")

    place = own_cache / "some" / "key"
    place.mkdir(parents=True)
    (place / "result").write_text("torn")
    assert (build_once("some", "key", build) / "result").read_text() == "whole"
    assert (build_once("some", "key", build) / "result").read_text() == "whole"
    (place / "extra").write_text("foreign")
    assert (build_once("some", "key", build) / "result").read_text() == "whole"
    (place / "seal.json").write_text("[")
    assert (build_once("some", "key", build) / "result").read_text() == "whole"
    assert made == ["build"] * 3


def test_a_build_that_fails_leaves_nothing(own_cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "result").write_text("half")
        raise ToolError("no")

    with pytest.raises(ToolError, match="^no$"):
        build_once("some", "key", fail)
    assert entries(own_cache, "some") == []


def test_a_cache_that_cannot_be_written_is_named(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_cache / "file").write_text("")
    monkeypatch.setenv("TORCHCALYX_CACHE", str(own_cache / "file"))
    with pytest.raises(ToolError, match=r"(?s)file cannot be written: .*Set TORCHCALYX_CACHE to a folder"):
        build_once("some", "key", lambda folder: None)


def _simulate_in_process(simulator: Simulator) -> list[list[int]]:
    design = vector_add(words=7)
    (vector,) = random_vectors(design, 1)
    output = simulate(design, compile_calyx(design.futil), [vector], simulator=simulator).outputs[0]["out"]
    equal: list[list[int]] = (output - expected_sum(design, vector)).tolist()
    return equal


@both
def test_processes_that_build_the_same_design_at_once(simulator: Simulator, own_cache: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        differences = pool.map(_simulate_in_process, [simulator] * 3)
    assert differences == [[[0] * 3] * 7] * 3
    assert len(entries(own_cache, simulator)) == 1


def test_a_missing_compiler_is_named(fresh_tools: pytest.MonkeyPatch, tmp_path: Path) -> None:
    design = vector_add()
    verilog = compile_calyx(design.futil)
    for name in ("perl", "calyx"):
        (tmp_path / name).symlink_to(str(shutil.which(name) or Path(sys.executable).parent / name))
    fresh_tools.setenv("PATH", str(tmp_path))
    toolchain.forget_tools()
    with pytest.raises(ToolNotFound, match=r"(?s)g\+\+ was not found.*apt-get install g\+\+"):
        simulate(design, verilog, random_vectors(design, 1))
    with pytest.raises(ToolNotFound, match=r"(?s)iverilog was not found.*apt-get install iverilog"):
        simulate(design, verilog, random_vectors(design, 1), simulator="icarus")
