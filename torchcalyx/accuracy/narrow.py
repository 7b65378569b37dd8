"""The search of precision="auto": the fewest bits for each tensor that keep the tolerance.

In float64, with stored values rounded: the least uniform width by bisection, then widths of single tensors,
where one bit less costs the least accuracy for the memory it saves. The software model has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from torchcalyx.accuracy.blame import Blame, expected_blame, limited, rounding
from torchcalyx.accuracy.disturbed import disturbed
from torchcalyx.accuracy.judging import WORK, Exam, work
from torchcalyx.accuracy.ladder import NARROWEST, WIDEST, Ladder
from torchcalyx.accuracy.widen import Steps, Vector

AIM = 0.6
"""Share of the allowed error that rounding may use up; the kernels need the rest."""
START = 0.4
"""Share at which the uniform width is left and single tensors are looked at."""
HALVINGS = 5
"""Steps in which the sum of single errors that makes `AIM` together is found."""
EFFORT = 4
"""Evaluations, in units of `judging.WORK`, for the last bits one by one."""


def narrowest(ladder: Ladder, exam: Exam) -> dict[str, int]:
    """Widths of the values that the user left open; `ladder.asked` for the other free ones."""
    fixed = {n: w for n, w in ladder.asked.items() if n not in set(ladder.automatic)}

    def all_at(width: int) -> dict[str, int]:
        return {**fixed, **dict.fromkeys(ladder.automatic, width)}

    uniform = _least(NARROWEST, WIDEST, lambda width: rounded(ladder, exam, all_at(width)).max() <= START)
    widths = all_at(uniform)
    blame = expected_blame(exam, ladder.formats({n: uniform for n in ladder.automatic}))
    found = _fewest(ladder, exam, widths, blame)
    return _bit_by_bit(ladder, exam, found)


def rounded(ladder: Ladder, exam: Exam, widths: Mapping[str, int]) -> Vector:
    """Share of the allowed error that each output uses up when stored values are rounded to those widths."""
    edits = {name: rounding(fmt) for name, fmt in ladder.formats(widths).items()}
    marks = exam.marks([disturbed(exam.graph, values, edits) for values in exam.values])
    return limited([o.share for o in marks] or [0.0])


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number in low..high that holds, `high` when none does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _fewest(ladder: Ladder, exam: Exam, widths: Mapping[str, int], blame: Blame) -> dict[str, int]:
    """The narrowest allocation whose rounding keeps `AIM`, by halving the sum of single errors it allows."""
    best, low, high = dict(widths), -3.0, 5.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        tried = _allocation(ladder, widths, blame, 2.0**middle)
        if rounded(ladder, exam, tried).max() <= AIM:
            best, low = tried, middle
        else:
            high = middle
    return best


def _allocation(ladder: Ladder, widths: Mapping[str, int], blame: Blame, budget: float) -> dict[str, int]:
    """Widths whose single errors sum up to `budget` at most, for the least memory."""
    wide = {n: min(WIDEST, w + 4) if n in set(blame.names) else w for n, w in widths.items()}
    factors = [ladder.error(n, wide[n]) / ladder.error(n, widths[n]) for n in blame.names]
    shares = blame.shares * np.asarray(factors).reshape(-1, 1)
    steps = Steps(ladder, wide, Blame(blame.names, shares), shares.sum(axis=0), -1)
    blocked = np.zeros(len(blame.names), dtype=bool)
    while True:
        total = steps.shares.sum(axis=0)
        more = steps.shares * (steps.factor - 1)[:, None]
        blocked |= (steps.factor <= 1) | ((total + more).max(axis=1, initial=0.0) > budget)
        if blocked.all():
            return steps.widths
        price = (more / np.maximum(budget - total, 1e-12)).max(axis=1, initial=0.0) / steps.cost
        steps.take(int(np.argmin(np.where(blocked, np.inf, price))))


def _bit_by_bit(ladder: Ladder, exam: Exam, widths: Mapping[str, int]) -> dict[str, int]:
    """One bit less here and there, largest tensors first, as long as the rounding keeps `AIM`."""
    best = dict(widths)
    queue = sorted(ladder.automatic, key=ladder.elements, reverse=True)
    left = EFFORT * WORK // (work(ladder.graph) * len(exam.samples))
    while queue and left > 0:
        again = []
        for name in queue[:left]:
            width = ladder.step(name, best[name], -1)
            tried = None if width is None else {**best, name: width}
            if tried is not None and rounded(ladder, exam, tried).max() <= AIM:
                best = tried
                again.append(name)
        left -= len(queue)
        queue = again
    return best
