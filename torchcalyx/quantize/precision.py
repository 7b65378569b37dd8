"""The user's precision: which module has which width, and so which format calibration gives its values."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import replace

from torchcalyx.errors import OptionsError
from torchcalyx.ir.graph import Graph, Node
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.options import AUTO, Options, Precision, resolve_precision
from torchcalyx.quantize.inner import MOVES
from torchcalyx.quantize.observe import Seen
from torchcalyx.quantize.scales import NARROW, Follow, choose_format

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

    def given(self, graph: Graph) -> dict[str, NumberFormat]:
        """The very formats that the user wants, by value."""
        return {n.name: c for n in graph.nodes if isinstance(c := self.choice(n), NumberFormat)}

    def automatic(self, node: Node) -> bool:
        """Whether the user leaves the width of a value to the compiler."""
        found = self._match(node)
        return found is not None and found[0] in self._automatic

    def _match(self, node: Node) -> tuple[str, int | NumberFormat] | None:
        path = node.source.module_path
        return next((row for row in self._table if fnmatch.fnmatchcase(path, row[0])), None)

    def clipping(self, graph: Graph, stored: Collection[str], *, any_width: bool = False) -> list[str]:
        """The stored values whose binary point is chosen by error. What the caller sees never clips: inputs,
        outputs and what outputs only move; nor does anything where the user says how much room there is.

        any_width: those that would be, had they few bits, as well.
        """
        if self._options.headroom is not None:
            return []
        shown = {*graph.inputs, *graph.outputs}
        for node in reversed(graph.nodes):
            if node.name in shown and node.op in MOVES:
                shown.update(node.args)
        own = [n for n in graph.nodes if n.name in stored and n.name not in shown]
        return [n.name for n in own if self._chosen(n) and (any_width or self._narrow(n))]

    def _chosen(self, node: Node) -> bool:
        return node.dtype.startswith("float") and isinstance(self.choice(node), int)

    def _narrow(self, node: Node) -> bool:
        choice = self.choice(node)
        return isinstance(choice, int) and choice <= NARROW

    def format(
        self,
        node: Node,
        seen: Seen,
        choice: int | NumberFormat,
        *,
        signed: bool = True,
        follow: Follow | None = None,
        more: int = 0,
    ) -> NumberFormat:
        """Format of a stored float value from what calibration showed. choice: its width or very format.
        signed: it may be negative. follow: what its only reader makes of it.
        more: bits beyond a width, which make it finer and nothing else different.
        """
        if isinstance(choice, NumberFormat):
            return choice
        spare, values = self.spare(node, choice), seen.values.get(node.name)
        largest, signed = seen.largest[node.name], signed or choice > NARROW
        found = choose_format(largest, values, choice, spare, signed=signed, follow=follow)
        return replace(found, width=found.width + more, frac=found.frac + more) if more else found

    def spare(self, node: Node, width: int) -> int:
        """Headroom of a value: none for constants, which calibration shows completely."""
        return 0 if node.op == "constant" else self._options.spare_bits(width)
