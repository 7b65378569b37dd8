"""Legality of a plan, found out anew: nothing of the planner's own code is used here.

The schedule is unrolled into calls and pairs of calls that overlap; then the program is run on marks instead
of numbers: each memory remembers whose elements it holds, so that a value that was never written or was
overwritten shows at its reader.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

from torchcalyx.kernels.engine.spec import merge
from torchcalyx.plan.binding import raise_violations, verify_selection
from torchcalyx.plan.contents import content_violations
from torchcalyx.plan.fit import memory_violations
from torchcalyx.plan.types import Plan, Schedule, Seq
from torchcalyx.selection import Call, Selection


def verify_plan(selection: Selection, plan: Plan) -> None:
    """Raise PlanError with every violation of the rules of the hardware; return when there is none.

    Checked: calls and buffers fit each other and the bindings; each call is scheduled once, after what it
    depends on; overlapping calls share neither memory nor kernel instance nor engine; memories fit their
    buffers, and hold what is read from them; the engine serves every call; the cycles are the schedule's.
    """
    verify_selection(selection)  # everything else looks buffers up by the names checked there
    problems = _call_violations(selection, plan)
    if not problems:
        problems = [
            *_order_violations(selection, plan),
            *memory_violations(selection, plan),
            *_engine_violations(selection, plan),
        ]
    if not problems:
        problems = [
            *_port_violations(selection, plan),
            *_instance_violations(selection, plan),
            *_contents(selection, plan),
        ]
    raise_violations("plan", problems)


def _unrolled(schedule: Schedule) -> tuple[list[str], list[tuple[str, str]], list[tuple[str, str]]]:
    """Calls from left to right, ordered pairs (one ends before the other starts), overlapping pairs."""
    if isinstance(schedule, str):
        return [schedule], [], []
    parts = [_unrolled(p) for p in (schedule.steps if isinstance(schedule, Seq) else schedule.branches)]
    calls = [call for part in parts for call in part[0]]
    ordered = [pair for part in parts for pair in part[1]]
    beside = [pair for part in parts for pair in part[2]]
    crossing = ordered if isinstance(schedule, Seq) else beside
    for left, right in combinations(parts, 2):
        crossing.extend(product(left[0], right[0]))
    return calls, ordered, beside


def _length(schedule: Schedule, by_name: dict[str, Call]) -> int:
    if isinstance(schedule, str):
        return by_name[schedule].spec.cycles()
    if isinstance(schedule, Seq):
        return sum(_length(step, by_name) for step in schedule.steps)
    return max([0, *(_length(branch, by_name) for branch in schedule.branches)])


def _call_violations(selection: Selection, plan: Plan) -> list[str]:
    """Calls in the schedule, in the instances and in the selection are the same."""
    expected = {call.name for call in selection.calls}
    scheduled = Counter(_unrolled(plan.schedule)[0])
    served = Counter(call for instance in plan.instances for call in instance.calls)
    found = []
    for what, counts in (("is scheduled", scheduled), ("has a kernel instance", served)):
        wrong = [name for name in sorted(expected) if counts[name] != 1]
        unknown = sorted(counts.keys() - expected)
        found += [f"call {name!r} {what} {counts[name]} times" for name in wrong]
        found += [f"{name!r} {what} but is no call of the selection" for name in unknown]
    return found


def _order_violations(selection: Selection, plan: Plan) -> list[str]:
    """Data dependences hold and the length is right."""
    by_name = {call.name: call for call in selection.calls}
    ordered = set(_unrolled(plan.schedule)[1])
    found = []
    for first, second in combinations(selection.calls, 2):
        written_first = set(first.writes) & {*second.reads, *second.writes}
        shared = written_first | (set(first.reads) & set(second.writes))
        if shared and (first.name, second.name) not in ordered:
            why = f"both use {_list(shared)} and one of them writes it"
            found.append(f"call {second.name!r} must start after call {first.name!r} ends: {why}")
    cycles = max(1, _length(plan.schedule, by_name))
    if cycles != plan.cycles:
        found.append(f"the plan states {plan.cycles} cycles, its schedule takes {cycles}")
    return found


def _engine_violations(selection: Selection, plan: Plan) -> list[str]:
    """The engine offers at least what each call asks for."""
    found = []
    for call in selection.calls:
        need = call.spec.engine()
        if need is None:
            continue
        try:
            enough = plan.engine is not None and merge((plan.engine, need)) == plan.engine
        except ValueError:
            enough = False
        if not enough:
            found.append(f"call {call.name!r} needs {need}, the program has {plan.engine or 'no engine'}")
    return found


def _port_violations(selection: Selection, plan: Plan) -> list[str]:
    """A memory has one port and there is one engine."""
    by_name = {call.name: call for call in selection.calls}
    placement = plan.placement
    ports = {c.name: [placement[buffer] for buffer in (*c.reads, *c.writes)] for c in selection.calls}
    found = []
    for name, memories in ports.items():
        twice = {m for m, count in Counter(memories).items() if count > 1}
        if twice:
            found.append(f"call {name!r} uses the only port of memory {_list(twice)} more than once")
    for left, right in _unrolled(plan.schedule)[2]:
        shared = set(ports[left]) & set(ports[right])
        if shared:
            found.append(f"calls {left!r} and {right!r} overlap and both use memory {_list(shared)}")
        if by_name[left].spec.engine() is not None and by_name[right].spec.engine() is not None:
            found.append(f"calls {left!r} and {right!r} overlap and both use the multiplier engine")
    return found


def _instance_violations(selection: Selection, plan: Plan) -> list[str]:
    """A kernel instance is one kernel and serves one call at a time."""
    by_name = {call.name: call for call in selection.calls}
    words = {buffer: m.memory.words for m in plan.memories for buffer in m.buffers}
    instance = plan.instance_of
    found = []
    for name, count in Counter(i.name for i in plan.instances).items():
        if count > 1:
            found.append(f"instance name {name!r} is used more than once")
    for left, right in _unrolled(plan.schedule)[2]:
        if instance[left] == instance[right]:
            found.append(f"calls {left!r} and {right!r} overlap and both use instance {instance[left]!r}")
    for users in plan.instances:
        calls = [by_name[name] for name in users.calls]
        kernels = {(c.spec, tuple(words[b] for b in (*c.reads, *c.writes))) for c in calls}
        if len(kernels) != 1:
            found.append(f"{users}: that is {len(kernels)} different kernels")
    return found


def _contents(selection: Selection, plan: Plan) -> list[str]:
    by_name = {call.name: call for call in selection.calls}
    calls = [by_name[name] for name in _unrolled(plan.schedule)[0]]
    return content_violations(selection, calls, plan.placement)


def _list(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
