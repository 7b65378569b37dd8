"""Whether numbers can be trusted: models of unlike scales, and twelve operations against the best possible.

    python -m benchmarks.numbers [--quick]

The first table compares the software model with torch in float64, beside the figures of the issue that asked
for it. In the second, the bound is the error of the float64 result on what the memories hold, rounded to the
output's format; `tests/accuracy.py` states the inequality that is asked of every element. Exit code 1 when an
element breaks it, or a model of the first table is wrong without a word. --quick: fixed16 alone.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.scales import CASES, Outcome, outcome
from tests.accuracy import Subject, subject
from tests.rowwise import OPS, Op, calibration, module
from torchcalyx.results.tables import table_text

TITLE = "Numbers: errors against torch in float64"
TWELVE = (
    "layer_norm affine", "rms_norm", "group_norm", "normalize", "cosine by hand", "var 1", "softmax masked",
    "log_softmax", "attention causal", "div", "sqrt", "exp",
)  # fmt: skip
SEED = 1


@dataclass(frozen=True)
class Exactness:
    """One operation at one precision. error, ideal, excess: the greatest over all elements, in units in the
    last place of the output; excess: of error - 2 x ideal. failed: class of the exception without a result.
    """

    what: str
    precision: str
    error: float = 0.0
    ideal: float = 0.0
    excess: float = 0.0
    broken: int = 0
    elements: int = 0
    failed: str = ""

    @property
    def met(self) -> bool:
        """Whether every element keeps the inequality."""
        return not self.broken and not self.failed

    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        if self.failed:
            return self.what, self.precision, "", "", "", self.failed, "NO"
        numbers = (f"{value:.3g}" for value in (self.ideal, self.error, self.excess))
        return (
            self.what,
            self.precision,
            *numbers,
            f"{self.broken} of {self.elements}",
            "yes" if self.met else "NO",
        )


def precisions(quick: bool) -> tuple[str, ...]:
    """The precisions that are measured."""
    return ("fixed16",) if quick else ("fixed8", "fixed16", "fixed32")


def exactness(op: Op, precision: str) -> Exactness:
    """One operation on its calibration inputs, whose rows have unlike scales, and on these a thousand times
    smaller.
    """
    samples = calibration(op, "unlike", SEED)
    try:
        judged = subject(op.name, module(op, "unlike", SEED), [samples], precision)
    except Exception as error:  # a foreign exception is a finding of its own
        return Exactness(op.name, precision, failed=type(error).__name__)
    return worst(op, precision, judged)


def worst(op: Op, precision: str, judged: Subject) -> Exactness:
    """The greatest errors of a judged module over its calls."""
    (samples,) = judged.samples
    calls = [judged.judge(*(x * scale for x in samples)) for scale in (1.0, 1e-3)]
    return Exactness(
        op.name,
        precision,
        max(float(c.error.max()) / c.unit for c in calls),
        max(float(c.ideal_error.max()) / c.unit for c in calls),
        max(float(c.excess.max()) for c in calls),
        sum(int(c.broken.sum()) for c in calls),
        sum(c.got.numel() for c in calls),
    )


def twelve(quick: bool) -> list[Exactness]:
    """The second table."""
    chosen = [op for op in OPS if op.name in TWELVE]
    assert len(chosen) == len(TWELVE)
    return [exactness(op, precision) for op in chosen for precision in precisions(quick)]


def models(quick: bool) -> list[tuple[Outcome, ...]]:
    """The first table: for each case its outcome at fixed16 and, unless quick, at fixed32."""
    chosen = [p for p in precisions(quick) if p != "fixed8"]
    return [tuple(outcome(c, p) for p in (chosen[:1] if c.precision else chosen)) for c in CASES]


def figures(quick: bool) -> list[Figure]:
    """Both tables as goals: nothing is silently wrong, no element breaks the inequality."""
    silent = sum(o.silent for row in models(quick) for o in row)
    found = [Figure("models that are wrong without a word", silent, goal=0, unit="count")]
    for row in twelve(quick):
        what = f"{row.what}, {row.precision}: elements that break the inequality"
        found.append(Figure(what, math.inf if row.failed else row.broken, goal=0, unit="count"))
    return found


def main(*arguments: str) -> int:
    """Print both tables; returns the exit code."""
    if set(arguments) - {"--quick"}:
        print(f"unknown argument {' '.join(arguments)}; the only one is --quick", file=sys.stderr)
        return 2
    quick = "--quick" in arguments
    outcomes = models(quick)
    titles = ["model", "fixed16 then", "fixed16 now", "fixed32 then", "fixed32 now"]
    rows = []
    for case, found in zip(CASES, outcomes, strict=True):
        now = [*map(str, found), ""][:2]
        rows.append((case.model, case.fixed16, now[0], case.fixed32, now[1]))
    print('Greatest error; "then" is what the issue states, on inputs of its own\n')
    print(table_text([(title, "left") for title in titles], rows), flush=True)
    columns = [("operation", "left"), ("precision", "left"), ("ideal", "right"), ("reached", "right")]
    columns += [("reached - 2 ideal", "right"), ("break it", "right"), ("met", "left")]
    exact = twelve(quick)
    print("\nGreatest errors in units in the last place of the output\n")
    print(table_text(columns, [row.cells() for row in exact]))
    silent = sum(o.silent for row in outcomes for o in row)
    missed = sum(not row.met for row in exact)
    print(f"\n{silent} models wrong without a word, {missed} of {len(exact)} operations break the inequality")
    return int(bool(silent or missed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
