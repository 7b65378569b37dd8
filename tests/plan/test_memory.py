"""Memory plans: who shares, who must not, how memories and instances are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.selections import F16, Sketch, branches, chain, multiplications, passthrough, ramp, two_results
from torchcalyx.errors import PlanError
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.elementwise import Elementwise
from torchcalyx.kernels.engine.spec import EngineSpec
from torchcalyx.plan import Par, Plan, Seq, plan_memory, schedule
from torchcalyx.plan.names import MemoryNames
from torchcalyx.selection import Selection


def planned(selection: Selection, share: bool = True) -> Plan:
    return plan_memory(selection, schedule(selection, share=share), share=share)


def temps(plan: Plan) -> list[tuple[str, ...]]:
    return [m.buffers for m in plan.memories if m.memory.role == "temp"]


def test_a_chain_needs_two_memories_however_long_it_is() -> None:
    assert len(temps(planned(chain(9)))) == 2
    assert len(temps(planned(chain(9), share=False))) == 8


def test_inputs_weights_and_results_are_alone() -> None:
    for make in (chain, branches, multiplications, two_results):
        for m in planned(make()).memories:
            assert m.memory.role == "temp" or len(m.buffers) == 1


def test_roles_and_sizes() -> None:
    plan = planned(two_results())
    assert [(m.memory.name, m.memory.role, m.memory.words) for m in plan.memories] == [
        ("in_x", "input", 2),
        ("out_first", "output", 2),
        ("out_second", "output", 2),
    ]
    assert plan.placement == {"x": "in_x", "first": "out_first", "second": "out_second"}


def test_a_shared_memory_is_as_deep_as_its_largest_buffer() -> None:
    s = Sketch()
    x, y = s.input("x", (4,)), s.input("y", (40,))
    small = s.call("relu", "small1", s.call("double", "small0", x))
    spread = s.call("add", "large0", small, s.input("z", (10, 4)))
    large = s.call("add", "large1", spread, y.at(spread.operand.access))
    selection = s.build(s.call("relu", "end", large))
    plan = planned(selection)
    groups = {m.buffers: m.memory.words for m in plan.memories if m.memory.role == "temp"}
    assert groups == {("small0", "large0"): 10, ("small1", "large1"): 10}


def test_words_of_another_width_do_not_share() -> None:
    s = Sketch()
    value = s.input("x", (8,))
    for number, fmt in enumerate((F16, fixed(8, 4), F16, fixed(8, 4), F16)):
        value = s.call("double", f"c{number}", value, out=s.temp(f"c{number}", (8,), fmt))
    assert temps(planned(s.build(value))) == [("c0", "c2"), ("c1", "c3")]


def test_buffers_of_overlapping_branches_do_not_share() -> None:
    selection = branches()
    order = Seq((Par((Seq(("a0", "a1", "a2")), Seq(("b0", "b1", "b2")))), "sum"))
    groups = temps(plan_memory(selection, order, share=True))
    assert sorted(groups) == [("a0", "a2"), ("a1",), ("b0", "b2"), ("b1",)]


def test_a_buffer_that_no_call_touches_has_no_memory() -> None:
    s = Sketch()
    x = s.input("x", (8,))
    s.temp("forgotten", (8,))
    plan = planned(s.build(s.call("double", "y", x)))
    assert "forgotten" not in plan.placement


def test_equal_kernels_are_one_instance_only_when_shared() -> None:
    selection = chain(7)
    assert [i.calls for i in planned(selection).instances] == [
        ("step0", "step3", "step6"),
        ("step1", "step4"),
        ("step2", "step5"),
    ]
    assert [i.calls for i in planned(selection, share=False).instances] == [(f"step{i}",) for i in range(7)]


def test_overlapping_calls_of_one_kernel_have_an_instance_each() -> None:
    s = Sketch()
    a, b = s.input("a", (8,)), s.input("b", (8,))
    plan = planned(s.build(s.call("double", "da", a), s.call("double", "db", b)))
    assert plan.schedule == Seq((Par(("da", "db")),))
    assert [(i.name, i.calls) for i in plan.instances] == [
        ("u0_elementwise", ("da",)),
        ("u1_elementwise", ("db",)),
    ]


def test_equal_kernels_at_memories_of_different_depth_are_two_instances() -> None:
    s = Sketch()
    wide = s.call("relu", "wide1", s.call("double", "wide0", s.input("y", (40,))))
    narrow = s.input("x", (8,))
    for number in range(3):
        narrow = s.call("triple", f"n{number}", narrow)
    selection = s.build(wide, narrow)
    order = Seq(("wide0", "wide1", "n0", "n1", "n2"))
    plan = plan_memory(selection, order, share=True)
    words = {b: m.memory.words for m in plan.memories for b in m.buffers}
    assert [words[b] for b in ("x", "n0", "n1", "n2")] == [2, 10, 2, 2]
    assert len({plan.instance_of[c] for c in ("n0", "n1", "n2")}) == 3


def test_the_engine_serves_every_call() -> None:
    s = Sketch()
    narrow, wide = s.input("narrow", (8,), fixed(8, 4)), s.input("wide", (8,))
    plan = planned(s.build(s.call("square", "a", narrow), s.call("square", "b", wide)))
    assert plan.engine is not None
    assert (plan.engine.left, plan.engine.right, plan.engine.multipliers) == (16, 16, 4)
    assert planned(passthrough()).engine is None


def test_contradicting_engines_are_refused_with_the_calls() -> None:
    s = Sketch()
    x = s.input("x", (8,))
    s.call("square", "one", x)
    result = s.call("square", "two", x)
    two = s.calls[1]
    assert isinstance(two.spec, Elementwise)
    slow = replace(two.spec, mul_stages=2)
    s.calls[1] = replace(two, spec=slow)
    with pytest.raises(PlanError) as error:
        planned(s.build(result))
    assert str(error.value).splitlines() == [
        "no multiplier engine serves all calls: multipliers with 1 and 2 stages in one program",
        f"  call 'one' at model.py:1 in one: {EngineSpec(16, 16, 1, vector=4)}",
        f"  call 'two' at model.py:2 in two: {EngineSpec(16, 16, 2, vector=4)}",
    ]


@pytest.mark.parametrize(
    ("buffers", "names"),
    [
        (["a.b", "a_b", "a-b"], ["t_a_b", "t_a_b_2", "t_a_b_3"]),
        (["a_b_2", "a.b", "a_b"], ["t_a_b_2", "t_a_b", "t_a_b_3"]),
        (["wait", "bit", "ref_x"], ["t_wait", "t_bit", "t_ref_x"]),
        (["X", "x"], ["t_X", "t_x_2"]),
        (["", "é", "_"], ["t_x", "t_x_2", "t_x_3"]),
        (["m", "m_addr0", "m.write_data"], ["t_m", "t_m_addr0_2", "t_m_write_data_2"]),
        (["m_addr0", "m"], ["t_m_addr0", "t_m_2"]),
        (["n" * 100], ["t_" + "n" * 60]),
        (["a..b__c"], ["t_a_b_c"]),
    ],
)
def test_names_are_legal_and_do_not_collide(buffers: list[str], names: list[str]) -> None:
    maker = MemoryNames()
    assert [maker.new("temp", b) for b in buffers] == names


def test_a_plan_prints_all_it_decides() -> None:
    s = Sketch()
    result = s.call("mul", "y", s.input("x", (2, 7)), s.weight("w", ramp(7)))
    assert str(planned(s.build(result))).splitlines() == [
        "7 cycles",
        "seq",
        "  y",
        "input in_x: 4 words of 4x16 bits for x",
        "weight w_w: 2 words of 4x16 bits for w",
        "output out_y: 4 words of 4x16 bits for y",
        "instance u0_elementwise for y",
        f"engine {EngineSpec(16, 16, 1, vector=4)}",
    ]
