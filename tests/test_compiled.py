"""`torchcalyx.compile` and `CompiledModule` on small modules: calls, inputs, laziness, saving, errors."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx, nn

import torchcalyx
from tests.tally import count
from torchcalyx import api, compiled
from torchcalyx.emulate import EmulationResult
from torchcalyx.errors import InputError, MismatchError, OptionsError, UnsupportedOpError
from torchcalyx.results import bundle

needs_tools = pytest.mark.needs("calyx", "verilator")
needs_icarus = pytest.mark.needs("calyx", "icarus")


def mlp(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def compile_small(module: Any, *inputs: Any, **options: Any) -> torchcalyx.CompiledModule:
    return torchcalyx.compile(module, inputs, **{"multipliers": 4, **options})


@pytest.fixture(scope="module")
def small() -> torchcalyx.CompiledModule:
    """The compiled `mlp`, for tests that change nothing."""
    return compile_small(mlp(), torch.randn(2, 6))


class TwoInputs(nn.Module):
    """Two inputs, results in a dict: computed, an input itself, a constant, a list with None."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([3, -1, 7]))

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor]) -> dict[str, Any]:
        a, b = pair
        return {"sum": torch.relu(x + a) - b, "same": x, "table": self.table, "more": [x * a, None]}


class Counting(nn.Module):
    """Integers and booleans."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + 2 * y, x > y


class Scaled(nn.Module):
    def forward(self, x: Tensor, factor: float = 2.0, *, shift: float = 0.0) -> Tensor:
        return x * factor + shift


def same(a: Any, b: Any) -> bool:
    """Equal structure, dtypes, shapes and bits."""
    left, spec = torch.utils._pytree.tree_flatten(a)
    right, other = torch.utils._pytree.tree_flatten(b)
    return spec == other and all(
        torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, Tensor) else x == y
        for x, y in zip(left, right, strict=True)
    )


@needs_tools
def test_hardware_equals_the_software_model_and_nears_torch() -> None:
    module, x = mlp(), torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    hw = compile_small(module, x)
    result = hw(x)
    assert isinstance(result, Tensor) and result.dtype == torch.float32 and result.shape == (2, 3)
    assert torch.equal(result, hw.emulate(x))
    with torch.no_grad():
        assert torch.allclose(result, module(x), atol=1e-3)
    run = hw.simulate(x)
    assert run.cycles == hw.cycles and torch.equal(run.outputs, result)
    count(vectors=2, cycles=1)
    assert hw.report().simulated_cycles == hw.cycles
    assert "module main" in hw.verilog and "component main" in hw.futil


@needs_icarus
def test_structures_of_inputs_and_outputs_are_torch_s() -> None:
    module = TwoInputs()
    args = (torch.tensor([[1.0, -2.0, 0.5]]), (torch.tensor([[0.25], [2.0]]), torch.tensor(0.5)))
    hw = compile_small(module, *args, simulator="icarus", precision="fixed16.8")
    result, wanted = hw(*args), module(*args)
    assert same(result, wanted)  # every value here is exact in 8 fraction bits
    assert same(hw.emulate(*args), wanted)
    result["table"].zero_()
    assert same(hw.emulate(*args), wanted)


@needs_icarus
def test_integers_and_booleans_are_exact() -> None:
    x, y = torch.tensor([5, -7, 2**20]), torch.tensor([5, 3, -(2**20)])
    hw = compile_small(Counting(), x, y, simulator="icarus")
    assert same(hw(x, y), Counting()(x, y))
    with pytest.raises(
        InputError,
        match=r"^argument y is 2147483648 at index \(1,\): the hardware's int32 holds "
        "-2147483648 to 2147483647$",
    ):
        hw.emulate(x, torch.tensor([0, 2**31, 0]))


def test_first_call_compiles_without_example_inputs() -> None:
    hw = torchcalyx.compile(mlp(), multipliers=4)
    assert repr(hw) == "CompiledModule(Sequential, not compiled yet)"
    for attribute in ("futil", "verilog", "cycles", "stages"):
        with pytest.raises(InputError) as caught:
            getattr(hw, attribute)
        assert str(caught.value) == (
            "this module is not compiled yet, because its input shapes are unknown: call it once, or pass "
            "example_inputs to torchcalyx.compile"
        )
    x = torch.randn(2, 6)
    assert torch.equal(hw.emulate(x), compile_small(mlp(), x).emulate(x))
    assert re.fullmatch(r"CompiledModule\(Sequential, \d+ kernel calls, \d+ cycles\)", repr(hw))


def test_a_failed_first_call_leaves_the_next_one_free() -> None:
    hw = torchcalyx.compile(mlp())
    with pytest.raises(torchcalyx.CaptureError):
        hw.emulate(torch.randn(2, 7))
    assert hw.emulate(torch.randn(2, 6)).shape == (2, 3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            (torch.zeros(3, 6),),
            "argument input has shape (3, 6), the model was compiled for (2, 6); shapes are fixed in "
            "hardware, compile again for another shape",
        ),
        (
            (torch.zeros(2, 6, dtype=torch.float64),),
            "argument input has dtype torch.float64, the model was compiled for torch.float32; convert it "
            "with .to(torch.float32)",
        ),
        ((), "the compiled model takes 1 argument(s), got 0"),
        ((torch.zeros(2, 6), torch.zeros(2, 6)), "the compiled model takes 1 argument(s), got 2"),
        (("text",), "argument input must be a torch.Tensor, got str"),
    ],
    ids=["shape", "dtype", "none", "many", "kind"],
)
def test_other_inputs_are_refused(
    small: torchcalyx.CompiledModule, args: tuple[Any, ...], message: str
) -> None:
    for call in (small, small.emulate, small.simulate, small.check):
        with pytest.raises(InputError) as caught:
            call(*args)
        assert str(caught.value) == message


def test_nan_is_refused_and_infinity_saturates(small: torchcalyx.CompiledModule) -> None:
    hw = small
    x = torch.zeros(2, 6)
    x[1, 2] = torch.nan
    with pytest.raises(InputError) as caught:
        hw.emulate(x)
    assert str(caught.value) == "argument input is NaN at index (1, 2): fixed-point hardware has no NaN"
    fmt = hw.stages.selection.inputs[0].fmt
    x[1, 2] = torch.inf
    limit = x.clone()
    limit[1, 2] = fmt.max * fmt.resolution
    with pytest.warns(torchcalyx.SaturationWarning, match="no format holds"):
        found = hw.emulate(x)
    assert torch.equal(found, hw.emulate(limit))


def test_module_and_inputs_stay_as_they_were() -> None:
    module, x = mlp().train(), torch.randn(2, 6)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    copy = x.clone()
    hw = compile_small(module, x)
    hw.emulate(x)
    assert torch.equal(x, copy) and module.training and all(m.training for m in module)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


def test_noncontiguous_and_gradient_inputs_are_taken(small: torchcalyx.CompiledModule) -> None:
    x = torch.randn(6, 2).t().requires_grad_()
    assert torch.equal(small.emulate(x), small.emulate(x.detach().contiguous()))


def test_keywords_of_forward_become_positions() -> None:
    x = torch.tensor([1.0, 2.0])
    hw = compile_small(Scaled(), x, 4.0)
    assert torch.equal(hw.emulate(x=x, factor=4.0), hw.emulate(x, 4.0))
    lazy = torchcalyx.compile(Scaled())
    assert torch.allclose(lazy.emulate(factor=4.0, x=x), 4 * x, atol=1e-3)
    with pytest.raises(
        InputError, match=r"^argument factor: the model was compiled for the value 4.0, got 3.0"
    ):
        hw.emulate(x, 3.0)
    with pytest.raises(
        InputError, match="compiled for no keyword arguments, and the call gives the .* shift"
    ):
        hw.emulate(x, 4.0, shift=1.0)
    with pytest.raises(InputError, match="^the arguments do not fit forward of Scaled: .*'gain'"):
        hw.emulate(x, gain=1.0)


def test_graph_modules_and_exported_programs_compile() -> None:
    module, x = mlp(), torch.randn(2, 6)
    wanted = compile_small(module, x).emulate(x)
    assert torch.equal(compile_small(fx.symbolic_trace(module), x).emulate(x), wanted)
    program = torch.export.export(module, (x,))
    assert torch.equal(torchcalyx.compile(program, multipliers=4).emulate(x), wanted)
    assert torch.equal(compile_small(program, x).emulate(x), wanted)


def test_a_single_tensor_counts_as_one_input() -> None:
    x = torch.randn(2, 6)
    assert torchcalyx.compile(mlp(), x, multipliers=4).futil == compile_small(mlp(), x).futil
    with pytest.raises(
        InputError, match="^inputs must be a tuple with one entry for each argument of forward, not int$"
    ):
        torchcalyx.compile(mlp(), 3)


@needs_tools
def test_a_batch_runs_in_one_process_in_order(
    small: torchcalyx.CompiledModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw = small
    calls = [(torch.randn(2, 6),) for _ in range(5)]
    runs: list[int] = []
    simulate = compiled.simulate

    def counting(design: Any, verilog: str, vectors: Any, **options: Any) -> Any:
        runs.append(len(vectors))
        return simulate(design, verilog, vectors, **options)

    monkeypatch.setattr("torchcalyx.compiled.simulate", counting)
    results = hw.simulate_batch(calls)
    assert runs == [5]
    assert all(torch.equal(r.outputs, hw.emulate(*c)) for r, c in zip(results, calls, strict=True))
    assert {r.cycles for r in results} == {hw.cycles}
    count(vectors=5, cycles=5)
    assert hw.simulate_batch([]) == []
    with pytest.raises(InputError, match="^argument input has shape"):
        hw.simulate_batch([calls[0], (torch.zeros(1),)])


@needs_icarus
def test_waveform(tmp_path: Path) -> None:
    hw = compile_small(mlp(), torch.randn(2, 6), simulator="icarus")
    path = tmp_path / "wave.vcd"
    run = hw.simulate(torch.randn(2, 6), trace=path)
    assert run.trace == path and "$enddefinitions" in path.read_text()
    with pytest.raises(OptionsError, match=r'must end in "\.vcd" or "\.fst"'):
        hw.simulate(torch.randn(2, 6), trace=str(tmp_path / "wave.txt"))


@needs_icarus
@pytest.mark.parametrize("features", [3, 4], ids=["padded", "full-words"])
def test_saved_folder_runs_without_python(tmp_path: Path, features: int) -> None:
    torch.manual_seed(0)
    module = nn.Linear(6, features).eval()
    hw = compile_small(module, torch.randn(2, 6), simulator="icarus", on_saturation="ignore")
    calls = [(torch.randn(2, 6),) for _ in range(3)]
    folder = hw.save(tmp_path / "saved", calls)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["inputs"][0]["name"] == "input" and manifest["inputs"][0]["shape"] == [2, 6]
    assert (folder / "report.html").read_text() == hw.report().to_html()
    commands = "iverilog -g2012 -s testbench -o t.vvp testbench.sv design.sv && vvp -n t.vvp"
    done = subprocess.run(["sh", "-c", commands], cwd=folder, capture_output=True, text=True, check=True)
    assert "PASS: all output words of 3 vectors are as expected" in done.stdout
    assert f"vector 2: {hw.cycles} cycles" in done.stdout
    # The manifest alone is enough to read the results back.
    (output,) = manifest["outputs"]
    values = read_saved(folder / "data" / f"{output['memory']}.2.hex", output, manifest["memories"])
    assert np.array_equal(values, hw.emulate(*calls[2]).numpy())


def read_saved(path: Path, output: dict[str, Any], memories: list[dict[str, Any]]) -> np.ndarray:
    """Decode an output as the manifest tells, by arithmetic of its own."""
    width = next(m["element_width"] for m in memories if m["name"] == output["memory"])
    lanes, cols = output["lanes"], output["cols"]
    words = [int(line, 16) for line in path.read_text().split("\n") if line and not line.startswith("//")]
    elements = [(word >> (lane * width)) & ((1 << width) - 1) for word in words for lane in range(lanes)]
    signed = [e - (1 << width) if e >> (width - 1) else e for e in elements]
    row_elements = -(-cols // lanes) * lanes
    frac = int(output["format"].split(".")[1])
    values = np.zeros(output["shape"], np.float32)
    for index in np.ndindex(*output["shape"]):
        row, col = (
            o + sum(i * s for i, s in zip(index, steps, strict=True))
            for o, steps in zip(output["offsets"], output["steps"], strict=True)
        )
        values[index] = signed[row * row_elements + col] * 2.0**-frac
    return values


@needs_icarus
def test_saving_refuses_a_design_that_differs_from_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate = bundle.emulate

    def off_by_one(*args: Any) -> EmulationResult:
        found = emulate(*args)
        return dataclasses.replace(found, outputs=tuple(o if o is None else o + 1 for o in found.outputs))

    hw = compile_small(mlp(), torch.randn(2, 6), simulator="icarus")
    monkeypatch.setattr(bundle, "emulate", off_by_one)
    with pytest.raises(MismatchError) as caught:
        hw.save(tmp_path / "saved")
    assert str(caught.value) == (
        "call 0: output 'linear_1' of the simulated hardware differs from the software model; nothing was "
        "saved (CompiledModule.check shows where)"
    )
    assert not (tmp_path / "saved").exists()


@needs_tools
def test_saving_never_overwrites_foreign_files(small: torchcalyx.CompiledModule, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not empty and was not written by an earlier save"):
        small.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_many_threads_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    capture = api.capture

    def counting(*args: Any) -> Any:
        calls.append(1)
        return capture(*args)

    monkeypatch.setattr("torchcalyx.api.capture", counting)
    hw, x = torchcalyx.compile(mlp(), multipliers=4), torch.randn(2, 6)
    results: list[Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(hw.emulate(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and len(results) == 4
    assert all(torch.equal(r, results[0]) for r in results)


def test_failed_stage_leaves_the_dumps_before_it(tmp_path: Path) -> None:
    class Next(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nextafter(x, x + 1)

    with pytest.raises(UnsupportedOpError):
        torchcalyx.compile(Next(), torch.randn(3), dump=tmp_path / "dump")
    assert [p.name for p in (tmp_path / "dump").iterdir()] == ["10-captured.txt"]
    assert "aten.nextafter" in (tmp_path / "dump" / "10-captured.txt").read_text()
