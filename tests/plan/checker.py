"""Runs a plan on one array of words for each memory, cycle by cycle, by the tests' own reading of a schedule.

It shares no code with the planner or its verifier: intervals of time instead of orders, integers instead of
marks.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.kernels.contract import reads, writes
from torchcalyx.plan import Plan, Schedule, Seq
from torchcalyx.selection import Call, Selection

GARBAGE = -12345


def intervals(
    schedule: Schedule, calls: dict[str, Call], now: int = 0
) -> tuple[dict[str, tuple[int, int]], int]:
    """First cycle and cycle behind the last of each call, and the end of the schedule."""
    if isinstance(schedule, str):
        end = now + calls[schedule].spec.cycles()
        return {schedule: (now, end)}, end
    if isinstance(schedule, Seq):
        found: dict[str, tuple[int, int]] = {}
        for step in schedule.steps:
            part, now = intervals(step, calls, now)
            found |= part
        return found, now
    branches = [intervals(branch, calls, now) for branch in schedule.branches]
    return {k: v for part, _ in branches for k, v in part.items()}, max(end for _, end in branches)


def check_conflicts(selection: Selection, plan: Plan) -> None:
    """No memory, engine or instance is used by two calls in one cycle; the length is as stated."""
    calls = {c.name: c for c in selection.calls}
    times, end = intervals(plan.schedule, calls)
    assert sorted(times) == sorted(calls)
    assert plan.cycles == max(1, end)
    home = {b: m.memory.name for m in plan.memories for b in m.buffers}
    resources: dict[str, set[str]] = {}
    for call in selection.calls:
        used = [home[b] for b in (*call.reads, *call.writes)]
        assert len(set(used)) == len(used), f"{call.name} uses one port twice"
        resources[call.name] = set(used) | ({"the engine"} if call.spec.engine() else set())
        resources[call.name] |= {i.name for i in plan.instances if call.name in i.calls}
    for a, b in combinations(calls, 2):
        apart = times[a][1] <= times[b][0] or times[b][1] <= times[a][0]
        assert apart or not resources[a] & resources[b], f"{a} and {b} collide"


def run_on_memories(selection: Selection, plan: Plan, inputs: list[IntArray]) -> list[IntArray]:
    """Outputs after running the calls by start time on memories that begin with garbage."""
    calls = {c.name: c for c in selection.calls}
    buffers = {b.name: b for b in selection.buffers}
    home = {b: m.memory for m in plan.memories for b in m.buffers}
    words = {m.memory.name: np.full((m.memory.words, m.memory.lanes), GARBAGE) for m in plan.memories}

    def store(name: str, array: IntArray) -> None:
        layout = buffers[name].layout
        words[home[name].name][: layout.words] = layout.pack(array)

    def load(name: str) -> IntArray:
        return buffers[name].layout.unpack(words[home[name].name])

    for binding, array in zip(selection.inputs, inputs, strict=True):
        store(binding.buffer, array)
    for name, array in selection.weights.items():
        store(name, array)
    times, _ = intervals(plan.schedule, calls)
    for name in sorted(times, key=lambda n: times[n][0]):
        call = calls[name]
        assert [p.name for p in reads(call.spec)] == [f"x{i}" for i in range(len(call.reads))]
        results = call.spec.emulate(*[load(b) for b in call.reads]).outputs
        for port, buffer, result in zip(writes(call.spec), call.writes, results, strict=True):
            contents = load(buffer)
            contents[port.operand.access.indices()] = result[port.operand.access.indices()]
            store(buffer, contents)
    return [load(o.buffer)[o.access.indices()] for o in selection.outputs if o.buffer and o.access]
