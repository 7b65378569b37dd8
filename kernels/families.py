"""Every kernel family of the library, for listings. Importing it needs calyx-py."""

from __future__ import annotations

from .argreduce import ArgReduce
from .dot import Dot
from .elementwise import Elementwise
from .gather import Gather
from .reduce import Reduce
from .reorder import Reorder
from .scan import Scan
from .systolic import Systolic

FAMILIES: tuple[type, ...] = (Systolic, Dot, Elementwise, Reduce, ArgReduce, Scan, Gather, Reorder)
"""The spec class of each family; its docstring states equation, interface, cycles and number behaviour."""
