"""Products with constants whose elements are few powers of two: a choice between shifts, no multiplier."""

from __future__ import annotations

import numpy as np

from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.ir.powers import exponents
from torchcalyx.kernels.arith.expr import ExprBuilder

MOST_SHIFTS = 4
"""Different powers of two up to which that is cheaper than a multiplier."""


def shifting(view: GraphView, node: Node) -> tuple[int, tuple[int, ...]] | None:
    """Place of the factor of a product that is such a constant, exactly stored, and its different exponents
    in order; None where neither factor is.
    """
    for place, name in enumerate(node.args):
        value, fmt = view.constant(name), view.formats[name]
        found = None if value is None or value.size == 1 else exponents(value)
        if value is None or found is None or fmt.kind != "fixed":
            continue
        few = tuple(int(e) for e in np.unique(found))
        if len(few) <= MOST_SHIFTS and bool(np.all(fmt.dequantize(fmt.quantize(value)) == value)):
            return place, few
    return None


def shifted(b: ExprBuilder, x: int, power: int, few: tuple[int, ...]) -> int:
    """x times `power`, which is 2 to one of the exponents `few`."""
    result = b.shift(x, few[0])
    for exponent in few[1:]:
        result = b.select(b.equal(power, b.const(1, -exponent)), b.shift(x, exponent), result)
    return result
