"""Plans of random selections against the tests' own checker, and against the verifier."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.checker import check_conflicts, run_on_memories
from tests.plan.strategies import selections
from tests.selections import random_inputs
from torchcalyx.emulate import emulate
from torchcalyx.plan import plan_memory, schedule, verify_plan
from torchcalyx.selection import Selection


@settings(max_examples=150)
@given(selections(), st.booleans())
def test_plans_are_legal_and_compute_what_the_selection_says(selection: Selection, share: bool) -> None:
    plan = plan_memory(selection, schedule(selection, share=share), share=share)
    verify_plan(selection, plan)
    check_conflicts(selection, plan)
    assert plan.cycles <= max(1, sum(call.spec.cycles() for call in selection.calls))
    inputs = random_inputs(selection)
    expected = emulate(selection, inputs).outputs
    for want, have in zip(expected, run_on_memories(selection, plan, inputs), strict=True):
        assert want is not None
        assert np.array_equal(want, have)


@settings(max_examples=40)
@given(selections())
def test_sharing_never_needs_more_hardware_and_planning_is_deterministic(selection: Selection) -> None:
    order = schedule(selection, share=True)
    shared = plan_memory(selection, order, share=True)
    own = plan_memory(selection, order, share=False)
    assert sum(m.memory.bits for m in shared.memories) <= sum(m.memory.bits for m in own.memories)
    assert len(shared.instances) <= len(own.instances) == len(selection.calls)
    assert shared == plan_memory(selection, schedule(selection, share=True), share=True)
    assert str(shared) == str(plan_memory(selection, order, share=True))
