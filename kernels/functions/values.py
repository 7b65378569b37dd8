"""Types of real values and functions, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Real: TypeAlias = npt.NDArray[np.float64]
RealFunction: TypeAlias = Callable[[Real], Real]
