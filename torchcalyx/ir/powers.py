"""Constants that are powers of two: a product with them is a shift, and a choice between few shifts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Array


def exponents(values: Array) -> npt.NDArray[np.int64] | None:
    """The exponent of each element; None unless all are positive powers of two."""
    if values.dtype.kind != "f" or not values.size:
        return None
    with np.errstate(invalid="ignore"):
        mantissas, found = np.frexp(values.astype(np.float64))
    return found.astype(np.int64) - 1 if bool(np.all(mantissas == 0.5)) else None
