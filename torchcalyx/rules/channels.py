"""Binary points for each output channel of constant weights: finer weights, shifted sums in the drain.

The weights of channel n are stored with `more[n]` fraction bits beyond the format of the tensor, so its sums
have as many more; the drain shifts each sum to the finest of them by an amount read from memory like a bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, index_bits, integer
from torchcalyx.kernels.ports.access import row_major, whole

SHIFT = "(shift)"
"""Name of the shifts among the operands of an expression."""

REACHES = (7, 3)
"""Most fraction bits that a channel may have beyond the others, best first: a shift by 3 places is one level
of logic and always fits, one by 7 where the pipeline has room for it.
"""


@dataclass(frozen=True)
class Channels:
    """more: fraction bits of each channel beyond those of the tensor's format, 0 to `reach`, not all 0."""

    more: tuple[int, ...]

    @property
    def reach(self) -> int:
        """Fraction bits of the aligned sums beyond those of the tensor's format."""
        return max(self.more)

    @property
    def format(self) -> NumberFormat:
        """Format of a shift."""
        return integer(index_bits(self.reach + 1), signed=False)

    def total(self, total: Value) -> Value:
        """Range of the aligned sums from that of the sums themselves."""
        return Value(total.frac + self.reach, total.low << self.reach, total.high << self.reach)

    def align(self, b: ExprBuilder, sums: int, shifts: int) -> int:
        """The operation that aligns the sums."""
        return b.shift(b.shift_left(sums, shifts), -self.reach)

    def memory(self, builder: SelectionBuilder, weight: str, repeat: int = 1) -> Located:
        """The memory of shifts. repeat: times that the channels stand one behind the other."""
        shape = (len(self.more) * repeat,)
        layout = row_major(shape, builder.lanes)
        shifts = np.tile(self.reach - np.array(self.more), repeat)
        buffer = builder.table(f"{builder.title(weight)} (shifts)", self.format, layout, shifts)
        return Located(buffer, whole(shape, layout), self.format)


def channels_of(builder: SelectionBuilder, head: Node, reach: int) -> Channels | None:
    """The binary points of the weights of a layer, at most `reach` bits apart; None when they are all alike,
    or not constant.
    """
    view = builder.view
    if head.op not in ("linear", "conv") or head.args[1] not in view.weight_fracs:
        return None
    wanted, least = view.weight_fracs[head.args[1]], view.formats[head.args[1]].frac
    more = tuple(min(max(frac - least, 0), reach) for frac in wanted)
    return Channels(more) if any(more) else None
