"""The search of precision="auto": the fewest bits of memory that keep the tolerance.

It starts from the narrowest width that would do for every tensor, so that it never ends above it. From there
single tensors get fewer bits where that costs the least accuracy for the memory it saves, small ones more
where large ones gain by it. All this in float64 with stored values rounded; the caller asks the software
model, which has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from torchcalyx.accuracy.blame import Blame, expected_blame
from torchcalyx.accuracy.judging import WORK, Exam, work
from torchcalyx.accuracy.ladder import NARROWEST, WIDEST, Ladder
from torchcalyx.accuracy.rounding import rounded_shares
from torchcalyx.accuracy.rungs import EXACT, Rungs
from torchcalyx.accuracy.widen import Steps
from torchcalyx.quantize.scales import NARROW

HALVINGS = 6
"""Steps in which the sum of single errors that may come together is found."""
EFFORT = 32
"""Evaluations, in units of `judging.WORK`, for the last bits one by one."""
MOST = 150
"""Evaluations for them, however small the model."""
PASSES = 16
"""Times that all constants are read to find and round to the formats of one choice of widths."""
HOPELESS = 2.0
"""Times the allowed error from which on more bits elsewhere do not make good for a bit less here."""
WIDER = 4
"""Bits above the uniform width that a tensor may get."""

Names: TypeAlias = "tuple[str, ...]"
"""Of a move: the tensor that gets fewer bits, and the one that gets more."""


@dataclass
class Search:
    """The widths tried so far with the shares of the allowed error that rounding used up."""

    ladder: Ladder
    exam: Exam
    rungs: Rungs = field(init=False)
    _blame: dict[int, Blame] = field(init=False, default_factory=dict)
    _tried: dict[tuple[tuple[str, int], ...], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.rungs = Rungs(self.ladder, self.exam)

    def share(self, widths: Mapping[str, int]) -> float:
        """The worst output's."""
        key = tuple(sorted(widths.items()))
        if key not in self._tried:
            self._tried[key] = float(rounded_shares(self.ladder.typed(widths), self.exam).max())
        return self._tried[key]

    def uniform(self) -> int:
        """The narrowest width that will do for all tensors (WIDEST when none does). Widths up to `NARROW` and
        those above are two families: more bits are better within each.
        """
        families = ((NARROWEST, NARROW), (NARROW + 1, WIDEST))
        for low, high in families:
            if self.share(self.ladder.uniform(high)) <= 1:
                while low < high:
                    middle = (low + high) // 2
                    if self.share(self.ladder.uniform(middle)) <= 1:
                        high = middle
                    else:
                        low = middle + 1
                return high
        return WIDEST

    def narrowest(self, width: int, aim: float) -> dict[str, int]:
        """Widths whose rounding uses up `aim` of the allowed error at most, with less memory than the uniform
        width; that one where there are none.
        """
        best = self.ladder.uniform(width)
        for start in dict.fromkeys((width, min(width, NARROW))):  # blame where the narrow formats are, too
            found = self._fewest(start, aim)
            best = best if found is None else min(best, found, key=self.ladder.bits)
        return self._moved(best, aim)

    def _fewest(self, width: int, aim: float) -> dict[str, int] | None:
        """The least allocation found by halving the sum of single errors it allows."""
        start = self.ladder.uniform(width)
        if width not in self._blame:
            typed = self.ladder.typed(start)
            self._blame[width] = expected_blame(self.exam, typed, self.ladder.automatic)
        best, low, high = None, -3.0, 5.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            tried = self._allocation(start, width, self._blame[width], 2.0**middle)
            if self.share(tried) <= aim:
                low = middle
                best = tried if best is None else min(best, tried, key=self.ladder.bits)
            else:
                high = middle
        return best

    def _allocation(
        self, start: Mapping[str, int], width: int, blame: Blame, budget: float
    ) -> dict[str, int]:
        """Widths whose single errors sum up to `budget` at most, for the least memory."""
        rungs = self.rungs
        above = min(WIDEST, width + WIDER)
        wide = {**start, **{name: rungs.least(name, above) for name in blame.names}}
        factors = [rungs.error(n, wide[n]) / rungs.error(n, start[n]) for n in blame.names]
        shares = blame.shares * np.asarray(factors).reshape(-1, 1)
        steps = Steps(rungs, wide, Blame(blame.names, shares), shares.sum(axis=0), -1)
        exact = [rungs.error(name, wide[name]) <= EXACT for name in blame.names]
        blocked = np.array(exact, dtype=bool)  # what their first error would cost, blame cannot tell
        while True:
            total = steps.shares.sum(axis=0)
            more = steps.shares * (steps.factor - 1)[:, None]
            blocked |= (steps.factor <= 1) | ((total + more).max(axis=1, initial=0.0) > budget)
            if blocked.all():
                return steps.widths
            price = (more / np.maximum(budget - total, 1e-12)).max(axis=1, initial=0.0) / steps.cost
            steps.take(int(np.argmin(np.where(blocked, np.inf, price))))

    def _moved(self, widths: Mapping[str, int], aim: float) -> dict[str, int]:
        """Fewer bits here, or fewer here for more there, the greatest gain first, as long as the rounding
        keeps the aim.
        """
        left = min(MOST, EFFORT * WORK // self._cost())
        best, missed, hopeless = dict(widths), set[Names](), set[str]()
        moves = self._moves(best) if left > 0 else []
        while moves and left > 0:
            names, tried = moves.pop(0)
            if names in missed or names[0] in hopeless:
                continue
            left -= 1
            share = self.share(tried)
            if share <= aim:
                best, moves = tried, self._moves(tried)
                continue
            missed.add(names)
            if len(names) == 1 and share > HOPELESS * aim:
                hopeless.add(names[0])
        return best

    def _cost(self) -> int:
        """Of one choice of widths, in the units of `work`."""
        constants = sum(value.size for value in self.ladder.graph.constants.values())
        return work(self.ladder.graph) * len(self.exam.samples) + PASSES * constants

    def _moves(self, widths: Mapping[str, int]) -> list[tuple[Names, dict[str, int]]]:
        """Changes that save memory, those of one tensor first: the names, and the widths they lead to."""
        step, now = self.rungs.step, self.ladder.bits(widths)
        found: list[tuple[Names, dict[str, int]]] = []
        for name in self.ladder.automatic:
            less = step(name, widths[name], -1)
            if less is None:
                continue
            found.append(((name,), {**widths, name: less}))
            for other in self.ladder.automatic:
                more = None if other == name else step(other, widths[other], 1)
                if more is not None:
                    found.append(((name, other), {**widths, name: less, other: more}))
        saving = [m for m in found if self.ladder.bits(m[1]) < now]
        return sorted(saving, key=lambda m: (len(m[0]), self.ladder.bits(m[1])))
