"""The user's precision: which module has which width, and the binary point for a calibrated range."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping

import numpy as np

from torchcalyx.errors import OptionsError
from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.options import AUTO, Options, Precision, resolve_precision

DEFAULT_PRECISION: Precision = "fixed16"


class Precisions:
    """The user's precision for each module path. widths: other ones for single values, by name."""

    def __init__(self, graph: Graph, options: Options, widths: Mapping[str, int] | None = None) -> None:
        self._widths = widths or {}
        precision = options.precision
        table = precision if isinstance(precision, Mapping) else {"*": precision}
        self._options = options
        self._automatic = frozenset(pattern for pattern, p in table.items() if p == AUTO)
        self._table = [(pattern, resolve_precision(p)) for pattern, p in table.items()]
        found = {n.source.module_path for n in graph.nodes} | set(graph.parameter_names.values())
        paths = sorted({"", *found})  # "" is the model itself, also when it computes nothing
        unknown = [p for p, _ in self._table if not any(fnmatch.fnmatchcase(path, p) for path in paths)]
        if unknown:
            known = ", ".join(repr(p) for p in paths if p) or "none"
            raise OptionsError(
                f"precision patterns {', '.join(map(repr, unknown))} match no module; "
                f"module paths of the model: {known}"
            )

    def choice(self, node: Node) -> int | NumberFormat:
        """The width, or the very format, that the user wants for a value."""
        if node.name in self._widths:
            return self._widths[node.name]
        found = self._match(node)
        return resolve_precision(DEFAULT_PRECISION) if found is None else found[1]

    def automatic(self, node: Node) -> bool:
        """Whether the user leaves the width of a value to the compiler."""
        found = self._match(node)
        return found is not None and found[0] in self._automatic

    def _match(self, node: Node) -> tuple[str, int | NumberFormat] | None:
        path = node.source.module_path
        return next((row for row in self._table if fnmatch.fnmatchcase(path, row[0])), None)

    def format(self, node: Node, largest: float) -> NumberFormat:
        """Format of a stored float value whose largest magnitude is known."""
        choice = self.choice(node)
        if isinstance(choice, NumberFormat):
            return choice
        return best_format(largest, choice, self.spare(node, choice))

    def spare(self, node: Node, width: int) -> int:
        """Headroom of a value: none for constants, which calibration shows completely."""
        return 0 if node.op == "constant" else self._options.spare_bits(width)


def best_format(largest: float, width: int, spare: int = 0) -> NumberFormat:
    """Signed format of `width` bits with the most fraction bits that holds +-`largest`, less `spare` bits."""
    if largest == 0:
        return fixed(width, width - 1)
    frac = width - 1 - math.frexp(largest)[1]
    if np.rint(math.ldexp(largest, frac)) > (1 << (width - 1)) - 1:
        frac -= 1
    return fixed(width, frac - spare)
