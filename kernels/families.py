"""Every kernel family of the library, for listings. Importing it needs calyx-py."""

from __future__ import annotations

from .elementwise import Elementwise
from .folds.argreduce import ArgReduce
from .folds.reduce import Reduce
from .folds.scan import Scan
from .folds.sort import Sort
from .lookups.put import Put
from .lookups.take import Take
from .moves.gather import Gather
from .moves.splice import Splice
from .moves.transpose import Transpose
from .products.dot import Dot
from .products.systolic import Systolic
from .products.window import WindowDot

FAMILIES: tuple[type, ...] = (
    Systolic,
    Dot,
    WindowDot,
    Elementwise,
    Reduce,
    ArgReduce,
    Scan,
    Sort,
    Gather,
    Splice,
    Transpose,
    Take,
    Put,
)
"""The spec class of each family; its module's docstring states equation, interface, cycles and numbers."""
