"""Order of the calls: a series-parallel tree with as few cycles as a greedy insertion finds.

Calls are taken in the order of the selection. Each is put where it lengthens the program least: behind
everything, beside a run of consecutive steps, or into a branch of a `Par` that stands already. A place is
considered only when every earlier call that shares a buffer with it, one of both writing, ends before it, and
when nothing beside it touches a buffer of its own or the multiplier engine when it needs that too. So every
tree on the way is legal, and never longer than the plain sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.plan.binding import verify_selection
from torchcalyx.plan.types import Par, Schedule, Seq
from torchcalyx.selection import Call, Selection

_DEEPEST = 8
"""Levels of `Par` in one another: far more than pays, few enough for every tool that reads the program."""


def schedule(selection: Selection, *, share: bool) -> Schedule:
    """The schedule of least latency found; a `Seq` at the top.

    Memories have one port and there is one multiplier engine: calls with a common buffer, or that both
    multiply, never overlap. share: of equally fast places the one that needs the fewest copies of a kernel is
    taken.
    Raises PlanError when the parts of the selection do not fit each other.
    """
    verify_selection(selection)
    steps: _Steps = ()
    for number, call in enumerate(selection.calls):
        task = _Task(_leaf(call), _must_precede(selection.calls[:number], call), share)
        steps = _best(steps, task, _DEEPEST).make()
    return Seq(tuple(map(_tree, steps)))


@dataclass(frozen=True)
class _Block:
    """A call or a `Par` of branches, with what decides where it may stand."""

    cycles: int
    calls: frozenset[str]
    buffers: frozenset[str]
    engine: bool
    specs: tuple[KernelSpec, ...]
    branches: tuple[_Steps, ...] = ()
    depth: int = 0

    def overlaps(self, other: _Block) -> bool:
        """Whether both may run at the same time."""
        return not (self.engine and other.engine) and self.buffers.isdisjoint(other.buffers)


_Steps: TypeAlias = tuple[_Block, ...]


@dataclass(frozen=True)
class _Task:
    """A call to insert. before: calls that must end before it starts. share: as in `schedule`."""

    new: _Block
    before: frozenset[str]
    share: bool


@dataclass(frozen=True)
class _Place:
    """A way to insert a call: cycles it adds, copies of its kernel beside it, and the steps it results in."""

    added: int
    copies: int
    make: Callable[[], _Steps]


def _leaf(call: Call) -> _Block:
    buffers = frozenset((*call.reads, *call.writes))
    multiplies = call.spec.engine() is not None
    return _Block(call.spec.cycles(), frozenset([call.name]), buffers, multiplies, (call.spec,))


def _length(steps: _Steps) -> int:
    return sum(step.cycles for step in steps)


def _parallel(branches: tuple[_Steps, ...]) -> _Block:
    blocks = list(chain.from_iterable(branches))
    return _Block(
        max(map(_length, branches)),
        frozenset().union(*(b.calls for b in blocks)),
        frozenset().union(*(b.buffers for b in blocks)),
        any(b.engine for b in blocks),
        tuple(chain.from_iterable(b.specs for b in blocks)),
        branches,
        1 + max(b.depth for b in blocks),
    )


def _must_precede(earlier: Iterable[Call], call: Call) -> frozenset[str]:
    """Earlier calls that share a buffer with `call`, one of both writing it."""
    writes, touched = set(call.writes), {*call.reads, *call.writes}
    return frozenset(e.name for e in earlier if touched & set(e.writes) or writes & set(e.reads))


def _best(steps: _Steps, task: _Task, levels: int) -> _Place:
    """The cheapest place; of equal ones the latest, so that lifetimes stay short."""
    places = list(_places(steps, task, levels))
    return min(reversed(places), key=lambda place: (place.added, place.copies if task.share else 0))


def _places(steps: _Steps, task: _Task, levels: int) -> Iterator[_Place]:
    """Every place in a sequence of steps where the call may stand, at most `levels` of `Par` deep."""
    first = 1 + max((i for i, step in enumerate(steps) if step.calls & task.before), default=-1)
    for index in range(max(first - 1, 0), len(steps)):
        yield from _within(steps, index, task, levels - 1)
    for index in range(first, len(steps)):
        yield from _beside(steps, index, task.new, levels)
    yield _Place(task.new.cycles, 0, lambda: (*steps, task.new))


def _beside(steps: _Steps, start: int, new: _Block, levels: int) -> Iterator[_Place]:
    """`new` beside the shortest run from `start` that hides it, or else the longest that it may overlap."""
    end = start
    while end < len(steps) and new.overlaps(steps[end]) and _length(steps[start:end]) < new.cycles:
        end += 1
    run = steps[start:end]
    if not run:
        return
    widened = run[0].branches if len(run) == 1 else ()  # a `Par` alone gets another branch
    branches = (*(widened or (run,)), (new,))
    if not widened and any(step.depth >= levels for step in run):
        return
    length = _length(run)
    copies = sum(step.specs.count(new.specs[0]) for step in run)
    yield _Place(
        max(length, new.cycles) - length,
        copies,
        lambda: (*steps[:start], _parallel(branches), *steps[end:]),
    )


def _within(steps: _Steps, index: int, task: _Task, levels: int) -> Iterator[_Place]:
    """The call in a branch of the `Par` at `index`."""
    block = steps[index]
    for number, branch in enumerate(block.branches):
        others = list(chain.from_iterable(b for i, b in enumerate(block.branches) if i != number))
        if any(other.calls & task.before or not task.new.overlaps(other) for other in others):
            continue
        yield _in_branch(steps, index, number, _best(branch, task, levels), task.new)


def _in_branch(steps: _Steps, index: int, number: int, inner: _Place, new: _Block) -> _Place:
    """The place `inner` of a branch, seen from the steps around it."""
    block = steps[index]
    added = max(block.cycles, _length(block.branches[number]) + inner.added) - block.cycles
    beside = chain.from_iterable(b for i, b in enumerate(block.branches) if i != number)
    copies = inner.copies + sum(other.specs.count(new.specs[0]) for other in beside)

    def make() -> _Steps:
        branches = (*block.branches[:number], inner.make(), *block.branches[number + 1 :])
        return (*steps[:index], _parallel(branches), *steps[index + 1 :])

    return _Place(added, copies, make)


def _tree(block: _Block) -> Schedule:
    if not block.branches:
        return next(iter(block.calls))
    return Par(tuple(_branch(branch) for branch in block.branches))


def _branch(steps: _Steps) -> Schedule:
    return _tree(steps[0]) if len(steps) == 1 else Seq(tuple(map(_tree, steps)))
