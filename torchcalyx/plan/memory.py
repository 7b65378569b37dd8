"""Placement: which memory each buffer lives in and which kernel instance each call uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchcalyx.design import DesignMemory, Role
from torchcalyx.errors import PlanError
from torchcalyx.kernels.engine.spec import EngineSpec, merge
from torchcalyx.plan.names import MemoryNames, instance_name
from torchcalyx.plan.types import KernelInstance, Par, Plan, PlannedMemory, Schedule, calls_of, total_cycles
from torchcalyx.selection import Buffer, Call, Selection


def plan_memory(selection: Selection, schedule: Schedule, *, share: bool) -> Plan:
    """The plan of a schedule.

    Inputs, weights and buffers that are results have memories of their own. share: other buffers with words
    of the same lanes and element width use one memory when all calls on one end before any call on the other
    starts, and calls of equal kernels use one instance when they never overlap; without it each buffer and
    each call has its own. Raises PlanError when the calls' demands on the multiplier engine contradict each
    other.
    """
    places = _places(schedule)
    memories = _memories(selection, places, share)
    words = {buffer: m.memory.words for m in memories for buffer in m.buffers}
    cycles = {call.name: call.spec.cycles() for call in selection.calls}
    return Plan(
        schedule,
        memories,
        _instances(selection.calls, schedule, words, places, share),
        _engine(selection.calls),
        max(1, total_cycles(schedule, cycles)),
    )


@dataclass(frozen=True, slots=True)
class _Span:
    """Ranks of calls in the schedule read with branches forwards and backwards.

    A ends before B starts whatever the branches' lengths exactly when A's ranks are below B's in both
    readings.
    """

    first: tuple[int, int]
    last: tuple[int, int]

    def before(self, other: _Span) -> bool:
        return self.last[0] < other.first[0] and self.last[1] < other.first[1]

    def apart(self, other: _Span) -> bool:
        return self.before(other) or other.before(self)


def _places(schedule: Schedule) -> dict[str, _Span]:
    """The span of each call alone."""
    forwards = {name: rank for rank, name in enumerate(calls_of(schedule))}
    backwards = {name: rank for rank, name in enumerate(_branches_backwards(schedule))}
    return {name: _Span((rank, backwards[name]), (rank, backwards[name])) for name, rank in forwards.items()}


def _branches_backwards(schedule: Schedule) -> list[str]:
    if isinstance(schedule, str):
        return [schedule]
    parts = schedule.branches[::-1] if isinstance(schedule, Par) else schedule.steps
    return [name for part in parts for name in _branches_backwards(part)]


def _hull(spans: Sequence[_Span]) -> _Span:
    """The span that covers several."""
    firsts = [s.first for s in spans]
    lasts = [s.last for s in spans]
    return _Span(
        (min(f[0] for f in firsts), min(f[1] for f in firsts)),
        (max(s[0] for s in lasts), max(s[1] for s in lasts)),
    )


def _memories(selection: Selection, places: Mapping[str, _Span], share: bool) -> tuple[PlannedMemory, ...]:
    results = {o.buffer for o in selection.outputs}
    touching: dict[str, list[_Span]] = {}
    for call in selection.calls:
        for buffer in {*call.reads, *call.writes}:
            touching.setdefault(buffer, []).append(places[call.name])
    lifetimes = {buffer: _hull(spans) for buffer, spans in touching.items()}
    roles: dict[str, Role] = {
        b.name: "output" if b.role == "temp" and b.name in results else b.role for b in selection.buffers
    }
    own = [b for b in selection.buffers if roles[b.name] != "temp"]
    temps = [b for b in selection.buffers if roles[b.name] == "temp" and b.name in lifetimes]
    groups = [(b,) for b in own] + _sharing(temps, lifetimes, share)
    names = MemoryNames()
    return tuple(_memory(group, roles[group[0].name], names) for group in groups)


def _sharing(temps: list[Buffer], lifetimes: Mapping[str, _Span], share: bool) -> list[tuple[Buffer, ...]]:
    """Groups of buffers that take one memory each; the largest are placed first, so no memory grows."""
    groups: list[list[Buffer]] = []
    for buffer in sorted(temps, key=lambda b: -b.layout.words):
        fitting = [g for g in groups if share and _fits(buffer, g, lifetimes)]
        if fitting:
            min(fitting, key=lambda g: g[0].layout.words).append(buffer)
        else:
            groups.append([buffer])
    rank = {b.name: i for i, b in enumerate(temps)}
    ordered = [tuple(sorted(group, key=lambda b: rank[b.name])) for group in groups]
    return sorted(ordered, key=lambda group: rank[group[0].name])


def _fits(buffer: Buffer, group: list[Buffer], lifetimes: Mapping[str, _Span]) -> bool:
    same_word = _word(buffer) == _word(group[0])
    return same_word and all(lifetimes[buffer.name].apart(lifetimes[other.name]) for other in group)


def _word(buffer: Buffer) -> tuple[int, int]:
    return buffer.layout.lanes, buffer.fmt.width


def _memory(group: tuple[Buffer, ...], role: Role, names: MemoryNames) -> PlannedMemory:
    lanes, width = _word(group[0])
    words = max(b.layout.words for b in group)
    memory = DesignMemory(names.new(role, group[0].name), words, lanes, width, role)
    return PlannedMemory(memory, tuple(b.name for b in group))


def _instances(
    calls: tuple[Call, ...],
    schedule: Schedule,
    words: Mapping[str, int],
    places: Mapping[str, _Span],
    share: bool,
) -> tuple[KernelInstance, ...]:
    """One instance for each distinct kernel (parameters and memory depths), more where its calls overlap."""
    by_name = {call.name: call for call in calls}
    groups: list[tuple[object, list[str]]] = []
    for name in calls_of(schedule):
        call = by_name[name]
        kernel = (call.spec, tuple(words[buffer] for buffer in (*call.reads, *call.writes)))
        for other, users in groups:
            if share and other == kernel and all(places[name].apart(places[user]) for user in users):
                users.append(name)
                break
        else:
            groups.append((kernel, [name]))
    return tuple(
        KernelInstance(instance_name(number, by_name[users[0]].spec.family), tuple(users))
        for number, (_, users) in enumerate(groups)
    )


def _engine(calls: tuple[Call, ...]) -> EngineSpec | None:
    needs = [(call, need) for call in calls if (need := call.spec.engine()) is not None]
    if not needs:
        return None
    try:
        return merge(tuple(need for _, need in needs))
    except ValueError as error:
        users = "".join(f"\n  call {call.name!r} at {call.source}: {need}" for call, need in needs)
        raise PlanError(f"no multiplier engine serves all calls: {error}{users}") from error
