"""What the calibration inputs themselves cut: formats are chosen so that a few large values may be clipped,
and rounding carries a value at the end of a range past it. That much is no news to the user; more is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchcalyx.emulate import emulate
from torchcalyx.host import store_inputs
from torchcalyx.ir.graph import Array
from torchcalyx.options import Options
from torchcalyx.quantize import Typed
from torchcalyx.quantize.precision import Precisions
from torchcalyx.selection import Selection


def expected_excess(
    typed: Typed,
    selection: Selection,
    samples: Iterable[Sequence[Array]],
    paths: Sequence[str],
    options: Options,
) -> dict[str, float]:
    """How far calibration inputs leave the range of each kernel call that the compiler chose formats for, as
    `Saturation.excess` measures it. samples: calibration inputs. paths: how the user names each input.

    Calls with a format of the user are not among them: their saturations are always told, and so are those
    of unknown size.
    """
    chosen = _chosen_by_calibration(typed, selection, options)
    found: dict[str, float] = {}
    for sample in samples:
        saturated = emulate(selection, store_inputs(selection, paths, sample).arrays).saturated
        for name in chosen:
            excess = saturated[name].excess
            if 0 < excess < float("inf"):
                found[name] = max(excess, found.get(name, 0.0))
    return found


def _chosen_by_calibration(typed: Typed, selection: Selection, options: Options) -> list[str]:
    given = Precisions(typed.graph, options).given(typed.graph)
    return [c.name for c in selection.calls if given.keys().isdisjoint((c.node, *c.covers))]
