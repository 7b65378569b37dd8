"""From a plan to a program: the only place that builds the top component.

`main` holds every memory (those of inputs, weights and results @external), the multiplier engine and the
kernel instances; its control is the schedule with a static invoke for each call. Nothing of it depends on the
weights' values.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from torchcalyx.design import Design
from torchcalyx.errors import PlanError
from torchcalyx.kernels.contract import reads, writes
from torchcalyx.kernels.engine.engine import engine_component
from torchcalyx.kernels.rtl import hw
from torchcalyx.plan import Par, Plan, Schedule, Seq
from torchcalyx.plan.images import weight_images
from torchcalyx.selection import Call, Selection

Statement: TypeAlias = Any
"""A control statement of the builder, which has no types."""

ENGINE = "engine"
"""Name of the multiplier engine in `main`, and of the `ref` cell by which kernels take it."""


def emit(selection: Selection, plan: Plan) -> Design:
    """The program of a verified plan, its memories, their initial images and its exact cycles.

    Equal arguments give the same text. Raises PlanError when a kernel's component does not keep its contract:
    the declared latency is not `cycles()`, or its `ref` cells are not the memories of its ports (and the
    engine, if it asked for one).
    """
    prog = hw.Program()
    calls = {call.name: call for call in selection.calls}
    kernels = {i.name: _kernel(prog, calls[i.calls[0]], plan) for i in plan.instances}
    main = prog.component("main")
    for planned in plan.memories:
        memory = planned.memory
        declare = main.memory_private if memory.role == "temp" else main.memory_external
        declare(memory.name, memory.width, memory.words)
    if plan.engine is not None:
        main.instance(engine_component(prog, plan.engine), ENGINE)
    for name, kernel in kernels.items():
        main.instance(kernel, name)
    if kernels:
        statement = _control(main, plan.schedule, calls, plan)
    else:
        idle = prog.component("idle", latency=1)
        idle.run(1, 0)
        main.instance(idle, "idle")
        statement = main.invoke("idle", {})
    main.control(hw.sequence([statement]))
    memories = tuple(m.memory for m in plan.memories)
    return Design(prog.text(), memories, plan.cycles, weight_images(selection, plan))


def _kernel(prog: hw.Program, call: Call, plan: Plan) -> hw.Component:
    """The component of a call's kernel at the depths of the memories it is bound to."""
    spec, memories, placement = call.spec, plan.memory, plan.placement
    ports = (*reads(spec), *writes(spec))
    buffers = (*call.reads, *call.writes)
    words = {p.name: memories[placement[b]].words for p, b in zip(ports, buffers, strict=True)}
    needs_engine = spec.engine() is not None
    component = spec.build(prog, words, plan.engine if needs_engine else None)
    where = f"kernel {component.name} of call {call.name!r}"
    if component.latency != spec.cycles():
        raise PlanError(
            f"{where} is built to take {component.latency} cycles, its specification states {spec.cycles()}"
        )
    expected = {*words, ENGINE} if needs_engine else set(words)
    if set(component.refs) != expected:
        raise PlanError(
            f"{where} takes {sorted(component.refs)} by reference, its specification {sorted(expected)}"
        )
    return component


def _control(main: hw.Component, schedule: Schedule, calls: dict[str, Call], plan: Plan) -> Statement:
    if isinstance(schedule, Seq):
        return hw.sequence([_control(main, step, calls, plan) for step in schedule.steps])
    if isinstance(schedule, Par):
        return hw.parallel([_control(main, branch, calls, plan) for branch in schedule.branches])
    call = calls[schedule]
    ports = (*reads(call.spec), *writes(call.spec))
    placement = plan.placement
    bound = {p.name: placement[b] for p, b in zip(ports, (*call.reads, *call.writes), strict=True)}
    if call.spec.engine() is not None:
        bound[ENGINE] = ENGINE
    return main.invoke(plan.instance_of[call.name], bound)
