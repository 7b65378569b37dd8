"""The verifier finds each kind of illegal plan and selection, and says it in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.selections import (
    F16,
    SELECTIONS,
    Sketch,
    branches,
    chain,
    concatenation,
    multiplications,
    passthrough,
    ramp,
    two_results,
)
from torchcalyx.errors import PlanError
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.engine.spec import EngineSpec
from torchcalyx.kernels.ports.access import Access
from torchcalyx.plan import (
    KernelInstance,
    Par,
    Plan,
    Schedule,
    Seq,
    plan_memory,
    schedule,
    verify_plan,
    verify_selection,
)
from torchcalyx.selection import Buffer, Selection


def planned(selection: Selection, order: Schedule | None = None, share: bool = False) -> Plan:
    return plan_memory(selection, order or schedule(selection, share=share), share=share)


def complaints(selection: Selection, plan: Plan) -> list[str]:
    with pytest.raises(PlanError) as error:
        verify_plan(selection, plan)
    first, *rest = str(error.value).splitlines()
    assert first == f"the plan breaks {'1 rule' if len(rest) == 1 else f'{len(rest)} rules'}:"
    return [line.removeprefix("  - ") for line in rest]


def moved(plan: Plan, buffer: str, to: str) -> Plan:
    """The plan with a buffer in another memory."""
    memories = []
    for m in plan.memories:
        residents = tuple(b for b in m.buffers if b != buffer)
        if m.memory.name == to:
            residents = (*residents, buffer)
        if residents:
            memories.append(replace(m, buffers=residents))
    return replace(plan, memories=tuple(memories))


@pytest.mark.parametrize("make", SELECTIONS.values(), ids=SELECTIONS)
@pytest.mark.parametrize("share", [True, False])
def test_planned_selections_pass(make: Callable[[], Selection], share: bool) -> None:
    selection = make()
    assert verify_plan(selection, planned(selection, share=share)) is None  # type: ignore[func-returns-value]


def test_a_call_must_follow_what_it_reads() -> None:
    selection = chain(2)
    plan = replace(planned(selection), schedule=Seq(("step1", "step0")))
    assert complaints(selection, plan) == [
        "call 'step1' must start after call 'step0' ends: both use 'step0' and one of them writes it"
    ]
    beside = replace(planned(selection), schedule=Par(("step0", "step1")), cycles=8)
    assert complaints(selection, beside) == [
        "call 'step1' must start after call 'step0' ends: both use 'step0' and one of them writes it"
    ]


def test_calls_are_scheduled_and_served_once() -> None:
    selection = chain(3)
    plan = planned(selection)
    instances = (*plan.instances[:2], KernelInstance("k9_other", ("ghost",)))
    wrong = replace(plan, schedule=Seq(("step0", "step1", "step1", "phantom")), instances=instances)
    assert complaints(selection, wrong) == [
        "call 'step1' is scheduled 2 times",
        "call 'step2' is scheduled 0 times",
        "'phantom' is scheduled but is no call of the selection",
        "call 'step2' has a kernel instance 0 times",
        "'ghost' has a kernel instance but is no call of the selection",
    ]


def test_the_stated_cycles_must_be_those_of_the_schedule() -> None:
    selection = two_results()
    assert complaints(selection, replace(planned(selection), cycles=10)) == [
        "the plan states 10 cycles, its schedule takes 9"
    ]


def test_overlapping_calls_may_not_share_a_memory_an_instance_or_the_engine() -> None:
    selection = multiplications()
    plan = planned(selection)
    order = Seq((Par(("left", "right")), Par(("first", "second"))))
    assert complaints(selection, replace(plan, schedule=order, cycles=13)) == [
        "calls 'left' and 'right' overlap and both use the multiplier engine"
    ]
    s = Sketch()
    x, y = s.input("x", (8,)), s.input("y", (8,))
    independent = s.build(s.call("double", "a", x), s.call("double", "b", y), s.call("relu", "c", x))
    instances = (KernelInstance("k0", ("a", "b")), KernelInstance("k1", ("c",)))
    wrong = replace(planned(independent), schedule=Par(("a", "b", "c")), instances=instances, cycles=4)
    assert complaints(independent, wrong) == [
        "calls 'a' and 'c' overlap and both use memory 'in_x'",
        "calls 'a' and 'b' overlap and both use instance 'k0'",
    ]


def test_a_call_may_not_use_one_port_twice() -> None:
    selection = chain(3)
    assert complaints(selection, moved(planned(selection), "step1", "t_step0")) == [
        "call 'step1' uses the only port of memory 't_step0' more than once",
    ]
    s = Sketch()
    x = s.input("x", (2, 8))
    rows = [x.at(x.operand.access.slice((i, 0), (1, 1), (1, 8))) for i in range(2)]
    halves = s.build(s.call("add", "sum", *rows))
    assert complaints(halves, planned(halves)) == [
        "call 'sum' uses the only port of memory 'in_x' more than once"
    ]


def test_a_value_must_still_be_there_when_it_is_read() -> None:
    s = Sketch()
    first = s.call("double", "first", s.input("x", (8,)))
    second = s.call("relu", "second", s.input("y", (8,)))
    selection = s.build(s.call("triple", "end", first), s.call("relu", "tail", second))
    plan = planned(selection, Seq(("first", "second", "end", "tail")))
    assert complaints(selection, moved(plan, "second", "t_first")) == [
        "call 'end' reads buffer 'first', whose memory holds buffer 'second' by then"
    ]


def test_an_unwritten_value_is_found_at_its_reader() -> None:
    s = Sketch()
    ghost = s.temp("ghost", (8,))
    selection = s.build(s.call("double", "y", ghost))
    assert complaints(selection, planned(selection)) == [
        "call 'y' reads buffer 'ghost', which nothing has written"
    ]


def test_a_half_written_buffer_is_found_at_its_reader_and_as_a_result() -> None:
    whole = concatenation()
    selection = replace(whole, calls=(whole.calls[0], whole.calls[2]))
    assert complaints(selection, planned(selection)) == [
        "call 'all' reads element (0, 16) of buffer 'joined', which nothing has written",
        "the program returns buffer 'joined', which at its end is not wholly written",
    ]


def test_inputs_and_weights_are_never_written() -> None:
    s = Sketch()
    x, w = s.input("x", (8,)), s.weight("w", ramp(8))
    s.call("double", "into_input", w, out=x)
    s.call("double", "into_weight", x, out=w)
    selection = s.build(x)
    assert complaints(selection, planned(selection)) == [
        "call 'into_input' writes buffer 'x', which is 'input'",
        "call 'into_weight' writes buffer 'w', which is 'weight'",
    ]


def test_memories_must_fit_their_buffers() -> None:
    selection = two_results()
    plan = planned(selection)
    x, first, second = plan.memories
    memories = (
        replace(x, memory=replace(x.memory, name="module", words=3)),
        replace(first, memory=replace(first.memory, role="temp", words=1), buffers=("first", "nobody")),
        replace(second, memory=replace(second.memory, name="MODULE", element_width=8), buffers=("x",)),
    )
    shown = "temp out_first: 1 words of 4x16 bits for first, nobody"
    assert complaints(selection, replace(plan, memories=memories)) == [
        "memory name 'module' is used more than once",
        "memory name 'module' is not an identifier with the prefix of a role",
        "buffer 'x' needs a memory of its own and of its size, not input module: 3 words of 4x16 bits for x",
        "memory 'out_first' is 'temp' but its buffer 'first' is 'output'",
        f"buffer 'first' of 2 words of 4x16 bits does not fit {shown}",
        f"buffer 'first' needs a memory of its own and of its size, not {shown}",
        "memory 'out_first' holds 'nobody', which is no buffer of the selection",
        "memory name 'MODULE' is used more than once",
        "memory name 'MODULE' is not an identifier with the prefix of a role",
        "memory 'MODULE' is 'output' but its buffer 'x' is 'input'",
        "buffer 'x' of 2 words of 4x16 bits does not fit output MODULE: 2 words of 4x8 bits for x",
        "buffer 'x' has 2 memories",
        "buffer 'second' has 0 memories",
    ]


def test_the_engine_must_be_large_enough() -> None:
    selection = two_results()
    plan = planned(selection)
    need = EngineSpec(16, 16, 1, vector=4)
    assert plan.engine is not None
    small = replace(plan.engine, vector=3)
    assert complaints(selection, replace(plan, engine=small)) == [
        f"call 'second' needs {need}, the program has {small}"
    ]
    assert complaints(selection, replace(plan, engine=None)) == [
        f"call 'second' needs {need}, the program has no engine"
    ]
    slow = replace(plan.engine, stages=2)
    assert complaints(selection, replace(plan, engine=slow)) == [
        f"call 'second' needs {need}, the program has {slow}"
    ]


def test_an_instance_is_one_kernel() -> None:
    selection = two_results()
    one = KernelInstance("k0", ("first", "second"))
    assert complaints(selection, replace(planned(selection), instances=(one,))) == [
        "instance k0 for first, second: that is 2 different kernels"
    ]
    same = tuple(replace(i, name="k0") for i in planned(selection).instances)
    assert complaints(selection, replace(planned(selection), instances=same)) == [
        "instance name 'k0' is used more than once"
    ]


def broken_call() -> Selection:
    selection = branches()
    calls = list(selection.calls)
    calls[0] = replace(calls[0], reads=("a", "b"), writes=("nowhere",))
    buffers = [*selection.buffers]
    at = next(i for i, b in enumerate(buffers) if b.name == "b0")
    buffers[at] = replace(buffers[at], fmt=fixed(8, 4))
    at = next(i for i, b in enumerate(buffers) if b.name == "a1")
    buffers[at] = replace(buffers[at], layout=replace(buffers[at].layout, rows=5))
    return replace(selection, calls=(*calls, calls[1]), buffers=tuple(buffers))


def broken_bindings() -> Selection:
    selection = passthrough()
    x, unused = selection.inputs
    view, turned, weight = (o for o in selection.outputs if o.buffer is not None)
    buffers = (*selection.buffers, Buffer("q", F16, selection.buffers[0].layout, "weight"))
    return replace(
        selection,
        buffers=buffers,
        inputs=(replace(x, shape=(4, 5), fmt=fixed(8, 2)), replace(unused, buffer="w")),
        outputs=(
            replace(view, access=Access((3, 5), (1, 0), ((1, 0), (0, 1)))),
            replace(turned, shape=(3, 5)),
            replace(weight, buffer="lost"),
            replace(view, fmt=fixed(16, 8, signed=False)),
            replace(selection.outputs[0], node="no_constant", buffer=None),
        ),
        weights={"w": np.full((1, 4), 40000), "q": np.zeros((2, 2))},
    )


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            broken_call,
            [
                "call name 'b0' is used 2 times",
                "call 'a0' reads 2 buffers, its kernel 1",
                "call 'a0' names buffer 'nowhere', which does not exist",
                "port 'y' of call 'b0' expects fixed16.8, buffer 'b0' has fixed8.4",
                "port 'y' of call 'a1' expects Layout(rows=4, cols=6, lanes=4), buffer 'a1' has "
                "Layout(rows=5, cols=6, lanes=4)",
                "port 'x0' of call 'b1' expects fixed16.8, buffer 'b0' has fixed8.4",
                "port 'x0' of call 'a2' expects Layout(rows=4, cols=6, lanes=4), buffer 'a1' has "
                "Layout(rows=5, cols=6, lanes=4)",
                "port 'y' of call 'b0' expects fixed16.8, buffer 'b0' has fixed8.4",
            ],
        ),
        (
            broken_bindings,
            [
                "input 'x' of shape (4, 5) does not fill Layout(rows=3, cols=5, lanes=4)",
                "input 'x' has format fixed8.2, its buffer fixed16.8",
                "input 'unused' is bound to 'w', which is no input buffer",
                "input buffer 'unused' is bound to 0 inputs",
                "weight buffer 'w' has values 40000..40000 outside of fixed16.8",
                "weight buffer 'q' of shape (3, 5) has values of shape (2, 2)",
                "output 'x' is read outside of Layout(rows=3, cols=5, lanes=4)",
                "output 'x' of shape (3, 5) is read over (5, 3)",
                "output 'w' is bound to 'lost', which is no buffer",
                "output 'x' has format ufixed16.8, its buffer fixed16.8",
                "output 'no_constant' is a constant without a value",
            ],
        ),
    ],
)
def test_a_selection_that_does_not_fit_itself(make: Callable[[], Selection], expected: list[str]) -> None:
    with pytest.raises(PlanError) as error:
        verify_selection(make())
    assert str(error.value).splitlines() == [
        f"the selection breaks {len(expected)} rules:",
        *(f"  - {line}" for line in expected),
    ]
