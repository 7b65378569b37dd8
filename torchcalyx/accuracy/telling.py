"""What the user is told where the tolerance is missed: outputs, the first layers to blame, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torchcalyx.accuracy.ladder import WIDEST
from torchcalyx.errors import AccuracyError, AccuracyWarning
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.options import Options
from torchcalyx.results.accuracy import Accuracy, OutputAccuracy
from torchcalyx.results.tables import number
from torchcalyx.warn import warn

SHOWN = 4
"""Outputs and tensors that a message names."""
MINOR = 1 / 8
"""Part of the greatest share below which a tensor is not named."""


@dataclass(frozen=True)
class Suspect:
    """A stored value: its format, whether the user gave it, and the share of the allowed error that it uses
    up alone. title: what the user calls it.
    """

    node: Node
    title: str
    fmt: NumberFormat
    given: bool
    share: float

    def __str__(self) -> str:
        return (
            f"{self.title}, {self.fmt}{' as given' if self.given else ''}: "
            f"alone {number(self.share)} times the error allowed"
        )


def tell(accuracy: Accuracy, suspects: Sequence[Suspect], options: Options) -> None:
    """Raise AccuracyError or warn where outputs miss the tolerance, as `Options.on_inaccurate` says.

    Integer outputs are no error without a tolerance of the user. suspects: in the order of the model.
    """
    missed = [o for o in accuracy.outputs if not o.held]
    if not missed or options.on_inaccurate == "ignore":
        return
    message = describe(accuracy, missed, suspects)
    if options.on_inaccurate == "error" and any(o.firm for o in missed):
        raise AccuracyError(message)
    warn(AccuracyWarning, message)


def describe(accuracy: Accuracy, missed: Sequence[OutputAccuracy], suspects: Sequence[Suspect]) -> str:
    """The message about outputs that miss the tolerance."""
    inputs = f"{accuracy.inputs} calibration input{'s' if accuracy.inputs > 1 else ''}"
    lines = [
        f"the tolerance of {accuracy.tolerance:.3g} is missed by {len(missed)} of {len(accuracy.outputs)} "
        f"outputs on {inputs}:"
    ]
    lines += [f"  {o}" for o in missed[:SHOWN]]
    if len(missed) > SHOWN:
        lines.append(f"  and {len(missed) - SHOWN} more")
    worst = max((s.share for s in suspects), default=0.0)
    causes = [s for s in suspects if s.share > 0 and s.share >= MINOR * worst]
    if causes:
        lines.append("first to blame, in the order of the model:")
        lines += [f"  {s}" for s in causes[:SHOWN]]
    if len(causes) > SHOWN:
        lines.append(f"  and {len(causes) - SHOWN} more")
    return "\n".join([*lines, _advice(missed, causes)])


def _advice(missed: Sequence[OutputAccuracy], causes: Sequence[Suspect]) -> str:
    ways: list[str] = []
    if any(s.given for s in causes):
        ways.append("choose a wider precision (fixed16, fixed32 or auto) in place of the formats given")
    elif causes:
        ways.append(
            f"rescale or reorder what these layers compute, since {WIDEST} bits, the most, miss as well"
        )
    ways.append("leave rare extreme inputs out of calibration")
    error = max(o.error if o.counted else (o.error / o.largest if o.largest else math.inf) for o in missed)
    if error < 1:
        ways.append(f"allow tolerance={math.ceil(error * 1000 + 1) / 1000:.3g}")
    return (
        f"what to do: {', or '.join(ways)}; on_inaccurate='ignore' silences this, 'error' refuses to compile"
    )
