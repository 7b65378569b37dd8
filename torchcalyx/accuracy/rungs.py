"""The widths of single values on the way down, and what each costs in accuracy.

Eight bits and fewer have formats that wider ones do without (no headroom, no sign where none is needed,
clipping, binary points for each channel, filled ranges), so that ten bits may be coarser than eight. The
error of a width is therefore measured: how the value's own elements are rounded there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from torchcalyx.accuracy.disturbed import Tensor
from torchcalyx.accuracy.judging import Exam
from torchcalyx.accuracy.ladder import NARROWEST, WIDEST, Ladder
from torchcalyx.accuracy.rounding import stored_as

EXACT = 2.0**-40
"""Stands for the error of a value that a format holds exactly."""


class Rungs:
    """Errors by value and width, measured when they are asked for."""

    def __init__(self, ladder: Ladder, exam: Exam) -> None:
        self._ladder, self._exam = ladder, exam
        self._errors: dict[int, Mapping[str, float]] = {}

    def elements(self, name: str) -> int:
        """Of memory that a value takes."""
        return self._ladder.elements(name)

    def error(self, name: str, width: int) -> float:
        """Root mean square of a value's rounding errors, relative to its own."""
        if width not in self._errors:
            self._errors[width] = dict(self._measured(width))
        return self._errors[width].get(name, EXACT)

    def least(self, name: str, width: int) -> int:
        """The narrowest width, up to that one, with no greater error."""
        error = self.error(name, width)
        return next(w for w in range(NARROWEST, width + 1) if self.error(name, w) <= error)

    def step(self, name: str, width: int, by: int) -> int | None:
        """The next width in direction `by` that is not worse than one beside it with fewer bits."""
        if by < 0:
            return self.least(name, width - 1) if width > NARROWEST else None
        error = self.error(name, width)
        return next((w for w in range(width + 1, WIDEST + 1) if self.error(name, w) < error), None)

    def _measured(self, width: int) -> Iterator[tuple[str, float]]:
        typed = self._ladder.typed(self._ladder.uniform(width))
        exam = self._exam.on(typed.graph)
        for name in self._ladder.automatic:
            edit, constant = stored_as(typed, name), typed.graph.constants.get(name)
            tensors = [v[name] for v in exam.values] if constant is None else [constant.astype(np.float64)]
            peak = max(float(np.max(np.abs(value), initial=0.0)) for value in tensors) or 1.0
            power = sum(_power(value / peak) for value in tensors)
            lost = sum(_power((edit(value) - value) / peak) for value in tensors)
            yield name, max(EXACT, float(np.sqrt(lost / power))) if power else EXACT


def _power(value: Tensor) -> float:
    return float(np.square(value).sum())
