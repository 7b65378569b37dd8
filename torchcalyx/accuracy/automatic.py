"""The trials of precision="auto": what the search proposes, put before the software model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from torchcalyx.accuracy.judging import Exam
from torchcalyx.accuracy.ladder import NARROWEST, WIDEST, Ladder
from torchcalyx.accuracy.narrow import Search
from torchcalyx.accuracy.trial import Trial

TryOut: TypeAlias = Callable[[Mapping[str, int]], "Trial | None"]
"""The software model's answer; None where no kernel has those widths."""
ROUNDS = 4
"""Proposals put before the software model."""
LESS = 0.97
"""By what the next proposal must be better than the one that missed the tolerance seems to need."""
CLOSE = 1.3
"""Share of the allowed error up to which rounding that misses the tolerance is put before the software model
all the same: it may be luckier.
"""


def automatic_trials(ladder: Ladder, exam: Exam, try_out: TryOut) -> Iterator[Trial]:
    """First uniform widths, up to the first that keeps the tolerance, then narrower tensors.

    Whoever takes the one with the fewest bits among those that keep the tolerance has no more than any
    uniform width that keeps it.
    """
    search = Search(ladder, exam)
    width = search.uniform()
    while width > NARROWEST and search.share(ladder.uniform(width - 1)) <= CLOSE:
        width -= 1
    while True:
        trial = try_out(ladder.uniform(width))
        if trial is not None:
            yield trial
        if width >= WIDEST or (trial is not None and trial.worst <= 1):
            break
        width += 1
    if trial is None or trial.worst > 1:
        return
    aim = 1.0
    for _ in range(ROUNDS):
        trial = try_out(search.narrowest(width, aim))
        if trial is None:
            return
        yield trial
        if trial.worst <= 1:
            return
        aim *= LESS / trial.worst
