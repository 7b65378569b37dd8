"""`check`: agreement is found, and so is every kind of disagreement, at the first layer that has it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.tally import count
from torchcalyx import api
from torchcalyx.ir.graph import Source
from torchcalyx.kernels.arith.numerics import IntArray, fixed
from torchcalyx.kernels.contract import Cost, Emulated, KernelSpec, Port
from torchcalyx.kernels.engine.spec import EngineSpec
from torchcalyx.results.comparison import Comparison, ValueComparison, compare_value
from torchcalyx.selection import Selection

needs_icarus = pytest.mark.needs("calyx", "icarus")
SOURCE = Source("aten.add", "model.py", 3)


class Chain(nn.Module):
    """Layers that share memories: each is gone when the next but one is computed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return {"last": x}


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def build(module: nn.Module, *inputs: Any, **options: Any) -> torchcalyx.CompiledModule:
    return torchcalyx.compile(module.eval(), inputs, **{"multipliers": 4, "simulator": "icarus", **options})


@needs_icarus
def test_outputs_and_layers_agree_also_where_memories_are_shared() -> None:
    hw = build(Chain(), X)
    assert any(len(m.buffers) > 1 for m in hw.stages.plan.memories)
    found = hw.check(X)
    assert found.ok and found.exact and found.first_difference is None
    assert [v.name for v in found.outputs] == ["output['last']"]
    assert [v.op for v in found.layers] == ["relu"] * 4
    assert all(v.differing == 0 for v in (*found.outputs, *found.layers))
    assert found.predicted_cycles == found.simulated_cycles == hw.cycles
    assert found.layers_cycles is not None and len(set(found.layers_cycles)) == 1
    count(vectors=2, cycles=2)
    assert hw.report().simulated_cycles == hw.cycles


@needs_icarus
def test_errors_are_those_against_torch() -> None:
    module = Chain()
    hw = build(module, X)
    found = hw.check(X)
    with torch.no_grad():
        wanted = module(X)["last"]
    errors = (hw.emulate(X)["last"].double() - wanted.double()).abs()
    (output,) = found.outputs
    assert output.max_error == found.max_error == errors.max().item() > 0
    assert output.mean_error == pytest.approx(errors.mean().item())
    assert output.largest == pytest.approx(wanted.abs().max().item())
    assert found.layers[-1].max_error == pytest.approx(output.max_error, abs=1e-6)
    assert found.layers[0].max_error < 2 * 2.0**-10


@needs_icarus
def test_weights_changed_after_compilation_show_as_errors() -> None:
    module = Chain()
    hw = build(module, X)
    before = hw.check(X).max_error
    with torch.no_grad():
        module.layers[3].bias += 1.0
    after = hw.check(X)
    assert before < 0.01 < 0.9 < after.max_error
    assert after.exact


@needs_icarus
def test_training_flags_survive_a_check() -> None:
    module = Chain()
    hw = build(module, X)
    module.layers[1].train()
    flags = [m.training for m in module.modules()]
    hw.check(X)
    assert [m.training for m in module.modules()] == flags and True in flags


@needs_icarus
def test_constants_inputs_and_views_have_nothing_to_differ() -> None:
    class Passing(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x, torch.tensor([1.5]), x.t()

    found = build(Passing(), X).check(X)
    assert found.ok
    assert [v.name for v in found.outputs] == ["output[0]", "output[1]", "output[2]"]
    assert found.outputs[1].max_error == 0 and found.outputs[1].format == ""


@needs_icarus
def test_saturation_is_counted() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    hw = build(Twice(), X, precision="fixed8.4")
    x = X.clone()
    x[0, :3] = torch.tensor(
        [6.0, -7.0, 1000.0]
    )  # fixed8.4 ends at 8: all three sums saturate, the last input too
    found = hw.check(x)
    assert found.ok
    assert dict(found.saturated_inputs) == {"x": 1}
    assert found.saturated == found.layers[0].saturated == found.outputs[0].saturated == 3
    assert "3 elements saturated in kernel calls" in str(found)
    assert "input x: 1 elements do not fit their format and were saturated" in str(found)


@dataclasses.dataclass(frozen=True)
class Lying:
    """A kernel whose software model is off by one in its first element."""

    real: KernelSpec

    @property
    def family(self) -> str:
        return self.real.family

    def emulate(self, *arrays: IntArray) -> Emulated:
        found = self.real.emulate(*arrays)
        first = found.outputs[0].copy()
        first[0, 0] ^= 1
        return Emulated((first, *found.outputs[1:]), found.saturated)

    def ports(self) -> tuple[Port, ...]:
        return self.real.ports()

    def engine(self) -> EngineSpec | None:
        return self.real.engine()

    def cycles(self) -> int:
        return self.real.cycles()

    def useful_operations(self) -> int:
        return self.real.useful_operations()

    def cost(self) -> Cost:
        return self.real.cost()

    def build(self, prog: Any, words: Mapping[str, int], engine: EngineSpec | None) -> Any:
        return self.real.build(prog, words, engine)


@needs_icarus
@pytest.mark.parametrize("wrong", [0, 2])
def test_first_differing_layer_is_named(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    select: Callable[..., Selection] = api.select

    def lying(*args: Any) -> Selection:
        found = select(*args)
        calls = list(found.calls)
        calls[wrong] = dataclasses.replace(calls[wrong], spec=Lying(calls[wrong].spec))
        return dataclasses.replace(found, calls=tuple(calls))

    monkeypatch.setattr(api, "select", lying)
    hw = build(Chain(), X)
    found = hw.check(X)
    layer = hw.stages.selection.calls[wrong].node
    assert not found.ok and not found.exact
    assert found.first_difference == layer
    assert f"HARDWARE AND SOFTWARE MODEL DIFFER, first in {layer}" in str(found)
    assert all(v.exact for v in found.layers[:wrong])
    assert found.layers[wrong].differing == 1
    assert "1 of 8 DIFFER" in str(found)
    assert json.loads(found.to_json())["first_difference"] == layer


def value(name: str, differing: int | None = 0) -> ValueComparison:
    return compare_value(
        name,
        np.array([1.0, 2.0]),
        np.array([1.0, 2.5]),
        op="add",
        dtype="float32",
        fmt=fixed(8, 1),
        differing=differing,
        source=SOURCE,
    )


def comparison(**fields: Any) -> Comparison:
    return dataclasses.replace(
        Comparison((value("output"),), (value("a"), value("b")), 10, 10, (12, 12), 0, {}), **fields
    )


@pytest.mark.parametrize(
    ("fields", "ok", "text"),
    [
        ({}, True, "cycles: 10 predicted, 10 simulated (equal)"),
        ({"simulated_cycles": 11}, False, "cycles: 10 predicted, 11 simulated (DIFFERENT)"),
        (
            {"layers_cycles": (12, 13)},
            False,
            "cycles with every layer kept: 12 predicted, 13 simulated (DIFFERENT)",
        ),
        ({"layers_cycles": None}, True, "hardware and software model agree to the bit"),
        ({"outputs": (value("output", 1),)}, False, "DIFFER, first in output"),
        ({"layers": (value("a", None), value("b", 2))}, False, "DIFFER, first in b"),
    ],
    ids=["agree", "cycles", "layers-cycles", "one-design", "output", "layer"],
)
def test_verdict(fields: dict[str, Any], ok: bool, text: str) -> None:
    found = comparison(**fields)
    assert found.ok is ok
    assert text in str(found)
    assert json.loads(found.to_json())["ok"] is ok


def test_errors_of_one_value() -> None:
    found = value("a")
    assert (found.max_error, found.mean_error, found.largest, found.elements) == (0.5, 0.25, 2.0, 2)
    assert (found.kind, found.format) == ("float32[2]", "fixed8.1")


def test_infinite_errors_are_null_in_json_and_equal_infinities_are_none() -> None:
    wanted, got = np.array([np.inf, np.nan, np.inf]), np.array([np.inf, np.nan, 1.0])
    found = dataclasses.replace(
        comparison(),
        outputs=(
            compare_value(
                "y", wanted[:2], got[:2], op="add", dtype="float32", fmt=None, differing=0, source=SOURCE
            ),
            compare_value("z", wanted, got, op="add", dtype="float32", fmt=None, differing=0, source=SOURCE),
        ),
    )
    outputs = json.loads(found.to_json())["outputs"]
    assert outputs[0]["max_error"] == 0 and outputs[1]["max_error"] is None


def test_table_has_a_line_for_each_value() -> None:
    lines = str(comparison()).splitlines()
    assert lines[0].split()[:2] == ["output", "operation"]
    row = next(line for line in lines if line.startswith("a "))
    assert row.split() == [
        *("a", "add", "float32[2]", "fixed8.1", "0.5", "0.25", "2", "0", "equal", "model.py:3")
    ]
