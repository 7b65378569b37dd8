"""Emitted programs: the simulated hardware equals the software model and the predicted cycles."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.plan.strategies import selections
from tests.selections import (
    SELECTIONS,
    Sketch,
    branches,
    chain,
    linear_and_relayout,
    multiplications,
    nothing,
    passthrough,
    ramp,
    random_inputs,
)
from torchcalyx.design import Design
from torchcalyx.emit import emit
from torchcalyx.emulate import emulate
from torchcalyx.errors import PlanError
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.elementwise import Elementwise
from torchcalyx.kernels.engine.spec import EngineSpec
from torchcalyx.kernels.rtl.hw import Component, Program
from torchcalyx.plan import (
    Par,
    Plan,
    Seq,
    input_images,
    output_arrays,
    plan_memory,
    schedule,
    verify_plan,
)
from torchcalyx.selection import Selection
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.tools.toolchain import compile_calyx

VECTORS = 3


def planned(selection: Selection, share: bool = True) -> Plan:
    plan = plan_memory(selection, schedule(selection, share=share), share=share)
    verify_plan(selection, plan)
    return plan


def check(selection: Selection, plan: Plan, simulator: Simulator = "icarus") -> Design:
    """Several vectors without a reset between them: bits and cycles as predicted."""
    design = emit(selection, plan)
    inputs = [random_inputs(selection, seed) for seed in range(VECTORS)]
    images = [input_images(selection, plan, arrays) for arrays in inputs]
    result = simulate(design, compile_calyx(design.futil), images, simulator=simulator)
    assert result.cycles == (plan.cycles,) * VECTORS
    assert design.cycles == plan.cycles
    for arrays, image, outputs in zip(inputs, images, result.outputs, strict=True):
        have = output_arrays(selection, plan, {**image, **outputs})
        for got, want in zip(have, emulate(selection, arrays).outputs, strict=True):
            assert (got is None) == (want is None)
            assert got is None or want is None or np.array_equal(got, want)
    return design


@pytest.mark.needs("calyx", "icarus")
@pytest.mark.parametrize("make", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("share", [True, False])
def test_hardware_equals_the_software_model(make: Callable[[], Selection], share: bool) -> None:
    selection = make()
    check(selection, planned(selection, share))


@pytest.mark.needs("calyx", "verilator", "g++", "make")
def test_verilator_runs_the_same_programs() -> None:
    selection = multiplications()
    check(selection, planned(selection), "verilator")


@pytest.mark.needs("calyx", "icarus")
@settings(max_examples=8)
@given(selections(most_calls=6))
def test_hardware_of_random_selections_equals_the_software_model(selection: Selection) -> None:
    check(selection, planned(selection))


@pytest.mark.needs("calyx", "icarus")
def test_nested_parallel_branches_in_hardware() -> None:
    s = Sketch()
    a, b, c = s.input("a", (16,)), s.input("b", (16,)), s.input("c", (96,))
    both = s.call("mul", "both", s.call("double", "da", a), s.call("relu", "db", b))
    selection = s.build(both, s.call("triple", "wide", c))
    plan = planned(selection)
    assert plan.schedule == Seq((Par((Seq((Par(("da", "db")), "both")), "wide")),))
    check(selection, plan)


@pytest.mark.needs("calyx", "icarus")
def test_one_engine_serves_operands_of_different_widths() -> None:
    s = Sketch()
    narrow, wide = s.input("narrow", (9,), fixed(8, 4)), s.input("wide", (9,), fixed(20, 10))
    small = s.call("square", "small", narrow)
    selection = s.build(s.call("mul", "mixed", small, wide), small)
    plan = planned(selection)
    assert plan.engine is not None and (plan.engine.left, plan.engine.right) == (16, 20)
    check(selection, plan)


@pytest.mark.needs("calyx", "icarus")
def test_names_of_buffers_do_not_disturb_the_program() -> None:
    s = Sketch()
    value = s.input("x", (8,))
    for name in (
        "x_addr0",
        "x.write_data",
        "X",
        "module",
        "ref",
        "reg",
        "a.b",
        "a_b",
        "engine",
        "main",
        "go",
    ):
        value = s.call("double", name, value)
    selection = s.build(value)
    check(selection, planned(selection, share=False))


@pytest.mark.needs("calyx", "icarus")
def test_a_matrix_product_runs_beside_a_relayout_and_shares_the_engine() -> None:
    selection = linear_and_relayout()
    plan = planned(selection)
    assert plan.schedule == Seq((Par((Seq(("linear", "a")), "turned")), "b"))
    assert plan.engine is not None and plan.engine.multipliers == 8
    check(selection, plan)


def cells(text: str) -> Mapping[str, list[str]]:
    """Kinds of the cells of each component, `ref` cells left out."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^(?=(?:static<\d+> )?component )", text, flags=re.MULTILINE):
        head = re.match(r"(?:static<\d+> )?component (\w+)", part)
        if head:
            own = re.findall(r"^\s*(ref )?(?:@external )?\w+ = (\w+)\(", part, flags=re.MULTILINE)
            found[head[1]] = [kind for is_ref, kind in own if not is_ref]
    return found


def count(kinds: Mapping[str, list[str]], component: str, primitive: str) -> int:
    """Instances of a primitive in a component and all below it."""
    return sum(1 if k == primitive else count(kinds, k, primitive) for k in kinds.get(component, []))


@pytest.mark.parametrize("make", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("share", [True, False])
def test_all_multipliers_are_in_the_engine(make: Callable[[], Selection], share: bool) -> None:
    selection = make()
    plan = planned(selection, share)
    kinds = cells(emit(selection, plan).futil)
    allowed = plan.engine.multipliers if plan.engine else 0
    assert count(kinds, "main", "tc_mul") == allowed
    assert not any(kind.startswith("std_mult") or "div" in kind for own in kinds.values() for kind in own)
    assert count(kinds, "main", "seq_mem_d1") == len(plan.memories)


def test_the_text_is_deterministic_and_free_of_the_weights_values() -> None:
    def scaled(factor: int) -> tuple[Selection, Design]:
        s = Sketch()
        result = s.call("mul", "y", s.input("x", (2, 7)), s.weight("w", ramp(7) * factor))
        selection = s.build(result)
        return selection, emit(selection, planned(selection))

    (selection, one), (_, other) = scaled(1), scaled(3)
    assert one.futil == other.futil == emit(selection, planned(selection)).futil
    assert one.weights["w_w"].tolist() == [[*ramp(7)[:4]], [*ramp(7)[4:], 0]]
    assert other.weights["w_w"].ravel()[:7].tolist() == (ramp(7) * 3).tolist()


def test_only_private_values_are_private() -> None:
    selection = branches()
    design = emit(selection, planned(selection))
    external = re.findall(r"@external (\w+) = seq_mem_d1", design.futil)
    assert external == [m.name for m in design.memories if m.role != "temp"]
    assert [m.name for m in design.of_role("temp")] == ["t_a0", "t_b0", "t_a1", "t_b1"]


def test_longer_models_share_their_kernels() -> None:
    short, long = (emit(s, planned(s)).futil for s in (chain(6), chain(24)))
    components = [len(re.findall(r"^static<\d+> component", text, re.MULTILINE)) for text in (short, long)]
    assert components[0] == components[1] == 3


@pytest.mark.parametrize("make", [nothing, passthrough])
def test_a_program_without_calls_idles_for_one_cycle(make: Callable[[], Selection]) -> None:
    selection = make()
    assert emit(selection, planned(selection)).cycles == 1


@dataclass(frozen=True)
class Unfaithful(Elementwise):
    """A kernel whose component is not what the specification says."""

    fault: str = ""

    def cycles(self) -> int:
        return super().cycles() + (self.fault == "latency")

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        honest = Elementwise(self.expr, self.operands, self.out, self.mul_stages)
        component = honest.build(prog, words, engine)
        if self.fault == "memory":
            component.memory_ref("secret", 8, 4)
        return component


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("latency", r"of call 'y' is built to take 4 cycles, its specification states 5$"),
        (
            "memory",
            r"of call 'y' takes \['secret', 'x0', 'y'\] by reference, its specification \['x0', 'y'\]$",
        ),
    ],
)
def test_a_component_that_breaks_its_contract_is_named(fault: str, message: str) -> None:
    s = Sketch()
    selection = s.build(s.call("double", "y", s.input("x", (8,))))
    spec = selection.calls[0].spec
    assert isinstance(spec, Elementwise)
    wrong = Unfaithful(spec.expr, spec.operands, spec.out, fault=fault)
    broken = replace(selection, calls=(replace(selection.calls[0], spec=wrong),))
    with pytest.raises(PlanError, match=message):
        emit(broken, planned(broken))
