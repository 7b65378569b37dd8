"""The user's precision: which module has which width, and so which format calibration gives its values."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from torchcalyx.errors import OptionsError
from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.options import Options, Precision, resolve_precision
from torchcalyx.quantize.observe import Seen
from torchcalyx.quantize.scales import NARROW, Follow, choose_format

DEFAULT_PRECISION: Precision = "fixed16"


class Precisions:
    """The user's precision for each module path."""

    def __init__(self, graph: Graph, options: Options) -> None:
        precision = options.precision
        table = precision if isinstance(precision, Mapping) else {"*": precision}
        self._table = [(pattern, resolve_precision(p)) for pattern, p in table.items()]
        paths = sorted(
            {p for n in graph.nodes for p in (n.source.module_path, graph.parameter_names.get(n.name, ""))}
        )
        unknown = [p for p, _ in self._table if not any(fnmatch.fnmatchcase(path, p) for path in paths)]
        if unknown:
            known = ", ".join(repr(p) for p in paths if p) or "none"
            raise OptionsError(
                f"precision patterns {', '.join(map(repr, unknown))} match no module; "
                f"module paths of the model: {known}"
            )

    def choice(self, node: Node) -> int | NumberFormat:
        """Width, or format, that the user's options give a value."""
        path = node.source.module_path
        for pattern, precision in self._table:
            if fnmatch.fnmatchcase(path, pattern):
                return precision
        return resolve_precision(DEFAULT_PRECISION)

    def narrow(self, node: Node) -> bool:
        """Whether the binary point of a float value is chosen by error."""
        choice = self.choice(node)
        return node.dtype.startswith("float") and isinstance(choice, int) and choice <= NARROW

    def format(
        self, node: Node, seen: Seen, *, signed: bool = True, follow: Follow | None = None
    ) -> NumberFormat:
        """Format of a float value from what calibration showed. signed: it may be negative. follow: what its
        only reader makes of it.
        """
        choice = self.choice(node)
        if isinstance(choice, NumberFormat):
            return choice
        spare = 0 if node.op == "constant" else headroom(choice)
        signed = signed or choice > NARROW
        return choose_format(
            seen.largest[node.name], seen.values.get(node.name), choice, spare, signed=signed, follow=follow
        )


def headroom(width: int) -> int:
    """Integer bits kept free above the calibrated range."""
    return 1 if width > NARROW else 0
