"""Every kernel family of the library, for listings. Importing it needs calyx-py."""

from __future__ import annotations

from .argreduce import ArgReduce
from .dot import Dot
from .elementwise import Elementwise
from .gather import Gather
from .reduce import Reduce
from .scan import Scan
from .splice import Splice
from .systolic import Systolic
from .transpose import Transpose
from .window import WindowDot

FAMILIES: tuple[type, ...] = (
    Systolic,
    Dot,
    WindowDot,
    Elementwise,
    Reduce,
    ArgReduce,
    Scan,
    Gather,
    Splice,
    Transpose,
)
"""The spec class of each family; its module's docstring states equation, interface, cycles and numbers."""
