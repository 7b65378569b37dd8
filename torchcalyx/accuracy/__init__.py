"""Compile tells the truth: the calibration inputs are emulated and compared with float64, and where that
misses the tolerance, the stored tensors that cause it get more bits.

In: the typed graph and its selection. Out: the same, or wider ones (with precision "auto": the narrowest
found), and the record of what was measured. What misses the tolerance all the same is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from torchcalyx.accuracy.automatic import automatic_trials
from torchcalyx.accuracy.blame import measured_blame
from torchcalyx.accuracy.judging import Exam, make_exam
from torchcalyx.accuracy.ladder import WIDEST, Ladder
from torchcalyx.accuracy.memory import memory_bits, places
from torchcalyx.accuracy.record import Names, record, search_record, suspects
from torchcalyx.accuracy.rounding import limited, roots
from torchcalyx.accuracy.telling import tell
from torchcalyx.accuracy.trial import Trial, try_out
from torchcalyx.accuracy.widen import NEAR, widened
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.options import Options
from torchcalyx.quantize import Typed
from torchcalyx.quantize.precision import Precisions
from torchcalyx.results.accuracy import Accuracy
from torchcalyx.select import select
from torchcalyx.selection import Selection

__all__ = ["Fitted", "Names", "fit"]

AIMS = (0.7, 0.6, 0.5)
"""Shares of the allowed error that widening aims at, round by round: what is expected of sums is rough."""
MORE = 4
"""Times as many inputs are looked at where widths are searched for."""


@dataclass(frozen=True)
class Fitted:
    """The typed graph and the selection to go on with. accuracy: what was measured, None: nothing."""

    typed: Typed
    selection: Selection
    accuracy: Accuracy | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.accuracy is None:
            return "not checked"
        changed = f"\n\n{self.typed}\n\n{self.selection}" if self.accuracy.chosen else ""
        return f"{self.accuracy}{changed}"


def fit(
    graph: Graph,
    typed: Typed,
    selection: Selection,
    samples: Sequence[tuple[Array, ...]],
    names: Names,
    options: Options,
) -> Fitted:
    """Formats that keep the tolerance on the calibration inputs. graph: the one that was quantised.

    Warns (AccuracyWarning) or raises AccuracyError, as `Options.on_inaccurate` says, where none are found.
    """
    if options.tolerance is not None and math.isinf(options.tolerance):
        return Fitted(typed, selection)
    precisions = Precisions(typed.graph, options)
    automatic = any(precisions.automatic(typed.graph.node(name)) for name in roots(typed))
    exam = make_exam(typed.graph, samples, names.outputs, options, MORE if automatic else 1)
    first = try_out(typed, selection, exam, names.inputs, {})
    if first.worst <= 1 and not automatic:
        return Fitted(typed, selection, record(exam, first, options))
    ladder = Ladder(graph, typed, samples, options, places(typed.graph, selection, roots(typed)))
    first = replace(first, widths=ladder.asked)
    trials = [first, *_search(ladder, first, exam, names, options)]
    least = max(1.0, NEAR * min(t.worst for t in trials))
    good = [t for t in trials if t.worst <= least]
    best = min(good, key=lambda t: (memory_bits(t.selection, options), ladder.bits(t.widths)))
    blame = measured_blame(exam, best, roots(typed)).worst()
    accuracy = search_record(exam, first, best, len(trials), ladder, blame, names, options)
    tell(accuracy, suspects(best, ladder, blame, names), options)
    return Fitted(best.typed, best.selection, accuracy)


def _search(ladder: Ladder, first: Trial, exam: Exam, names: Names, options: Options) -> Iterator[Trial]:
    """Trials until one keeps the tolerance; the last one has the most bits there are."""

    def tried(widths: Mapping[str, int]) -> Trial | None:
        return _trial(ladder, widths, exam, names, options)

    trial: Trial | None = first
    if ladder.automatic:
        for trial in automatic_trials(ladder, exam, tried):
            yield trial
    for aim in AIMS:
        if trial is None or trial.worst <= 1:
            return
        found, widths = limited([o.share for o in trial.outputs]), trial.widths
        wider = widened(ladder, widths, measured_blame(exam, trial, roots(trial.typed)), found, aim)
        if wider == widths:
            break
        trial = tried(wider)
        if trial is not None:
            yield trial
    if trial is not None and trial.worst > 1 and ladder.free:
        widest = tried(dict.fromkeys(ladder.free, WIDEST))
        if widest is not None:
            yield widest


def _trial(
    ladder: Ladder, widths: Mapping[str, int], exam: Exam, names: Names, options: Options
) -> Trial | None:
    """None where no kernel has those widths."""
    typed = ladder.typed(widths)
    try:
        selection = select(typed, options)
    except UnsupportedOpError:
        return None
    return try_out(typed, selection, exam, names.inputs, widths)
