"""One choice of widths tried out: selected, emulated on the inputs of the exam, and marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from torchcalyx.accuracy.disturbed import Tensor
from torchcalyx.accuracy.judging import Exam
from torchcalyx.emulate import EmulationResult, emulate
from torchcalyx.host import Stored, output_reals, store_inputs
from torchcalyx.kernels.arith.numerics import IntArray
from torchcalyx.quantize import Typed
from torchcalyx.results.accuracy import OutputAccuracy
from torchcalyx.selection import OutputBinding, Selection


@dataclass(frozen=True)
class Trial:
    """widths: by value, where they are other than the options say. stored, emulated: one for each sample.
    outputs: with their errors.
    """

    widths: Mapping[str, int]
    typed: Typed
    selection: Selection
    stored: tuple[Stored, ...] = field(repr=False)
    emulated: tuple[EmulationResult, ...] = field(repr=False)
    outputs: tuple[OutputAccuracy, ...]

    @property
    def worst(self) -> float:
        """The greatest share of what is allowed that any output uses up."""
        return max((o.share for o in self.outputs), default=0.0)

    @property
    def register_bits(self) -> int:
        """Of all kernels, equal ones counted once."""
        return sum(spec.cost().register_bits for spec in {call.spec for call in self.selection.calls})


def try_out(
    typed: Typed, selection: Selection, exam: Exam, paths: Sequence[str], widths: Mapping[str, int]
) -> Trial:
    """Emulate the inputs of the exam. paths: how the user names each input."""
    stored = tuple(store_inputs(selection, paths, sample) for sample in exam.samples)
    emulated = tuple(emulate(selection, s.arrays) for s in stored)
    found = [[_value(o, q) for o, q in zip(selection.outputs, e.outputs, strict=True)] for e in emulated]
    return Trial(widths, typed, selection, stored, emulated, exam.marks(found))


def _value(binding: OutputBinding, stored: IntArray | None) -> Tensor | None:
    if stored is None:
        return None
    value = np.asarray(output_reals(binding, stored))
    return value != 0 if binding.dtype == "bool" else value
