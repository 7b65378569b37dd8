"""One figure of a benchmark: its bound, what was reached, the goal; and tables of them.

Each benchmark module has `figures(quick)`, which measures and returns its figures, and runs by itself as
`python -m benchmarks.NAME`; `python -m benchmarks` runs all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torchcalyx.results.tables import table_text

Unit: TypeAlias = Literal["cycles", "%", "s", "MB", "count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table.

    bound: what no hardware of this size can pass (or PyTorch's own result), None where there is none. goal:
    None for a figure that is only stated. at_least: the goal is a lower limit, else an upper one. calls:
    calls of simulated hardware behind it, all equal to the software model and of the predicted length.
    """

    what: str
    reached: float
    bound: float | None = None
    goal: float | None = None
    unit: Unit = "cycles"
    at_least: bool = False
    calls: int = 0

    @property
    def met(self) -> bool:
        """Whether the goal is reached; always true of a figure without one."""
        if self.goal is None:
            return True
        return self.reached >= self.goal if self.at_least else self.reached <= self.goal

    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        ratio = f"{self.reached / self.bound:.3f}" if self.bound else ""
        sign = ">=" if self.at_least else "<="
        goal = "" if self.goal is None else f"{sign} {self._text(self.goal)}"
        verdict = "" if self.goal is None else "yes" if self.met else "NO"
        bound = "" if self.bound is None else self._text(self.bound)
        return self.what, self.unit, bound, self._text(self.reached), ratio, goal, verdict

    def _text(self, value: float) -> str:
        if math.isfinite(value) and value == int(value):
            return str(int(value))
        return f"{value:.2f}"


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print one table."""
    columns = [("what", "left"), ("unit", "left"), ("bound", "right"), ("reached", "right")]
    columns += [("ratio", "right"), ("goal", "right"), ("met", "left")]
    print(f"\n{title}\n")
    print(table_text(columns, [figure.cells() for figure in figures]), flush=True)


def run(title: str, figures: Callable[[bool], Sequence[Figure]]) -> int:
    """The command line of one benchmark: measure, print, return the exit code (1: a goal is missed)."""
    arguments = sys.argv[1:]
    if set(arguments) - {"--quick"}:
        print(f"unknown argument {' '.join(arguments)}; the only one is --quick", file=sys.stderr)
        return 2
    found = figures("--quick" in arguments)
    show(title, found)
    return int(not all(figure.met for figure in found))
