"""More bits for the tensors that cause the errors, and only for those.

Bits go where they lower the worst output's error most for the memory they take, until what is expected keeps
the tolerance with some margin.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from torchcalyx.accuracy.blame import Blame
from torchcalyx.accuracy.ladder import WIDEST, Ladder
from torchcalyx.accuracy.rungs import Rungs

NEAR = 1.25
"""Where 32 bits miss, how near to their error widening goes."""
Vector = npt.NDArray[np.float64]


def widened(
    ladder: Ladder, widths: Mapping[str, int], blame: Blame, found: Vector, aim: float
) -> dict[str, int]:
    """Widths of the free values that are expected to bring all outputs to `aim`, or as near as they can.

    widths: of each free value now. found: the share of what is allowed that each output uses up now. aim: the
    share to come to.
    """
    steps = Steps(ladder, widths, blame, found, 1)
    aims = np.maximum(aim, NEAR * steps.at(WIDEST))
    while True:
        expected = steps.shares.sum(axis=0)
        worst = int(np.argmax(expected / aims))
        if expected[worst] <= aims[worst]:
            return steps.widths
        gains = steps.shares[:, worst] * (1 - steps.factor) / steps.cost
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            return steps.widths
        steps.take(best)


class Steps:
    """Widths on their way, one step at a time in direction `by`.

    shares[i, o]: expected share of output o's allowed error that value i uses up. factor: what the next step
    of each value makes of its shares, 1 where there is none. cost: bits of memory of that step.
    """

    def __init__(
        self, ladder: Ladder | Rungs, widths: Mapping[str, int], blame: Blame, found: Vector, by: int
    ) -> None:
        total = blame.shares.sum(axis=0)
        self.shares = blame.shares * np.where(total > 0, found / np.where(total > 0, total, 1.0), 0.0)
        self.widths = dict(widths)
        self.factor, self.cost = np.ones(len(blame.names)), np.ones(len(blame.names))
        self._ladder, self._by, self._names = ladder, by, blame.names
        self._next: list[int | None] = [None] * len(blame.names)
        for row in range(len(blame.names)):
            self._look(row)

    def at(self, width: int) -> Vector:
        """Expected share of each output with that width for every value that is free."""
        factors = [
            self._ladder.error(n, width) / self._ladder.error(n, self.widths[n]) if n in self.widths else 1.0
            for n in self._names
        ]
        return np.asarray((self.shares * np.asarray(factors)[:, None]).sum(axis=0))

    def take(self, row: int) -> None:
        """The next step of one value."""
        width = self._next[row]
        assert width is not None
        self.shares[row] *= self.factor[row]
        self.widths[self._names[row]] = width
        self._look(row)

    def _look(self, row: int) -> None:
        name = self._names[row]
        width = self._ladder.step(name, self.widths[name], self._by) if name in self.widths else None
        self._next[row] = width
        self.factor[row], self.cost[row] = 1.0, 1.0
        if width is not None:
            self.factor[row] = self._ladder.error(name, width) / self._ladder.error(name, self.widths[name])
            self.cost[row] = self._ladder.elements(name) * abs(width - self.widths[name])
