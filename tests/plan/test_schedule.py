"""Schedules: what runs in parallel, what must not, and that it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.selections import Sketch, branches, chain, multiplications, nothing, passthrough
from torchcalyx.errors import PlanError
from torchcalyx.plan import Par, Schedule, Seq, calls_of, schedule, start_times, total_cycles
from torchcalyx.selection import Selection


def cycles(selection: Selection) -> dict[str, int]:
    return {call.name: call.spec.cycles() for call in selection.calls}


def planned(selection: Selection, share: bool = True) -> tuple[Schedule, int]:
    tree = schedule(selection, share=share)
    return tree, total_cycles(tree, cycles(selection))


def test_a_chain_is_a_sequence() -> None:
    tree, total = planned(chain(4))
    assert tree == Seq(("step0", "step1", "step2", "step3"))
    assert total == sum(cycles(chain(4)).values())


@pytest.mark.parametrize("make", [nothing, passthrough])
def test_without_calls_the_schedule_is_empty(make: Callable[[], Selection]) -> None:
    assert planned(make()) == (Seq(()), 0)


def test_independent_chains_run_side_by_side() -> None:
    selection = branches()
    tree, total = planned(selection)
    lengths = cycles(selection)
    a = sum(lengths[f"a{i}"] for i in range(3))
    b = sum(lengths[f"b{i}"] for i in range(3))
    assert a + b > total - lengths["sum"] >= max(a, b)
    assert isinstance(tree, Seq) and any(isinstance(step, Par) for step in tree.steps)


def test_calls_that_multiply_take_turns() -> None:
    selection = multiplications()
    tree, _ = planned(selection)
    lengths = cycles(selection)
    starts = start_times(tree, lengths)
    left, right = (range(starts[c], starts[c] + lengths[c]) for c in ("left", "right"))
    assert not set(left) & set(right)


def test_calls_that_read_one_buffer_take_turns() -> None:
    s = Sketch()
    x = s.input("x", (8,))
    assert planned(s.build(s.call("double", "a", x), s.call("relu", "b", x)))[0] == Seq(("a", "b"))


def test_a_long_call_hides_a_whole_chain() -> None:
    s = Sketch()
    long, short = s.input("long", (64,)), s.input("short", (4,))
    chained = s.call("triple", "s2", s.call("relu", "s1", s.call("double", "s0", short)))
    result = s.call("double", "l", long)
    tree, total = planned(s.build(chained, result))
    assert tree == Seq((Par((Seq(("s0", "s1", "s2")), "l")),))
    assert total == cycles(s.build())["l"]


def test_parallel_parts_nest() -> None:
    s = Sketch()
    a, b, c = s.input("a", (16,)), s.input("b", (16,)), s.input("c", (128,))
    both = s.call("add", "both", s.call("double", "da", a), s.call("double", "db", b))
    tree, total = planned(s.build(both, s.call("relu", "wide", c)))
    assert tree == Seq((Par((Seq((Par(("da", "db")), "both")), "wide")),))
    assert total == cycles(s.build())["wide"]


def test_nesting_is_bounded() -> None:
    s = Sketch()
    total = s.call("double", "t0", s.input("x0", (4,)))
    for number in range(1, 30):  # each new call is longer than all before it together with one more
        other = s.call("double", f"d{number}", s.input(f"x{number}", (4 * (20 * number), 4)))
        row = other.at(other.operand.access.slice((0, 0), (1, 1), (1, 4)))
        total = s.call("add", f"t{number}", total, row)
    selection = s.build(total)
    tree, length = planned(selection)
    assert length < sum(cycles(selection).values())
    assert depth(tree) == 8


def depth(tree: Schedule) -> int:
    """Levels of Par in one another."""
    if isinstance(tree, str):
        return 0
    parts = tree.steps if isinstance(tree, Seq) else tree.branches
    return isinstance(tree, Par) + max(map(depth, parts), default=0)


def test_a_call_joins_the_branch_it_depends_on() -> None:
    s = Sketch()
    long, short = s.input("long", (64,)), s.input("short", (4,))
    result = s.call("double", "l", long)
    chained = s.call("relu", "s1", s.call("double", "s0", short))
    assert planned(s.build(chained, result))[0] == Seq((Par(("l", Seq(("s0", "s1")))),))


def test_a_write_waits_for_earlier_reads_and_writes_of_its_buffer() -> None:
    s = Sketch()
    x, y, z = s.input("x", (8,)), s.input("y", (8,)), s.input("z", (8,))
    t = s.call("double", "first", x)
    used = s.call("relu", "read", t)
    s.call("triple", "again", y, out=t)
    order = list(calls_of(planned(s.build(used, t, s.call("relu", "other", z)))[0]))
    assert order.index("first") < order.index("read") < order.index("again")


def test_share_prefers_a_place_without_a_copy_of_the_kernel() -> None:
    s = Sketch()
    x, y, z = s.input("x", (8,)), s.input("y", (8,)), s.input("z", (8,))
    first = s.call("relu", "relu_x", x)
    second = s.call("double", "double_x", first)
    third = s.call("double", "double_z", z)
    selection = s.build(second, third, y)
    assert planned(selection, share=True) == (Seq((Par(("relu_x", "double_z")), "double_x")), 8)
    assert planned(selection, share=False) == (Seq(("relu_x", Par(("double_x", "double_z")))), 8)


def test_a_selection_that_does_not_fit_itself_is_refused() -> None:
    selection = chain(2)
    call = replace(selection.calls[1], reads=("nowhere",))
    broken = replace(selection, calls=(selection.calls[0], call))
    with pytest.raises(PlanError) as error:
        schedule(broken, share=True)
    assert str(error.value) == (
        "the selection breaks 1 rule:\n  - call 'step1' names buffer 'nowhere', which does not exist"
    )


def test_a_schedule_prints_as_a_tree() -> None:
    assert str(Seq(("a", Par((Seq(("b", "c")), "d"))))) == "seq\n  a\n  par\n    seq\n      b\n      c\n    d"


def test_times_follow_the_tree() -> None:
    tree = Seq(("a", Par((Seq(("b", "c")), "d")), "e"))
    assert start_times(tree, {"a": 1, "b": 2, "c": 3, "d": 9, "e": 1}) == {
        "a": 0,
        "b": 1,
        "c": 3,
        "d": 1,
        "e": 10,
    }
