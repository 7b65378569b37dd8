"""The formats that each stored value would have at each width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchcalyx.accuracy.rounding import roots
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.options import Options
from torchcalyx.quantize import Remembered, Typed, quantize
from torchcalyx.quantize.precision import Precisions

NARROWEST, WIDEST = 4, 32


class Ladder:
    """Formats by width, made when they are asked for. source: the graph before quantisation. elements: of
    memory that each value takes.

    free: stored values whose format the user did not give. automatic: those whose width the user left open.
    asked: the user's width of each free value.
    """

    def __init__(
        self,
        source: Graph,
        typed: Typed,
        samples: Sequence[Sequence[Array]],
        options: Options,
        elements: Mapping[str, int],
    ) -> None:
        self._source, self._samples, self._options, self._graph = source, samples, options, typed.graph
        self._precisions = Precisions(typed.graph, options)
        self._floats = {n.name: n for n in typed.graph.nodes if n.dtype.startswith("float")}
        choices = {name: self._precisions.choice(self._floats[name]) for name in roots(typed)}
        self.asked = {name: c for name, c in choices.items() if isinstance(c, int)}
        self.free = tuple(self.asked)
        self.automatic = tuple(n for n in self.free if self._precisions.automatic(self._floats[n]))
        self._elements = elements
        self._made: dict[int, Mapping[str, NumberFormat]] = {}
        self._remembered = Remembered()

    @property
    def graph(self) -> Graph:
        """The graph whose values these are."""
        return self._graph

    def elements(self, name: str) -> int:
        """Of memory that a value takes."""
        return self._elements[name]

    def bits(self, widths: Mapping[str, int]) -> int:
        """Of memory, of the free values with those widths."""
        return sum(width * self.elements(name) for name, width in widths.items())

    def uniform(self, width: int) -> dict[str, int]:
        """One width for every value that the user left open, the user's for other free ones."""
        return {**self.asked, **dict.fromkeys(self.automatic, width)}

    def format(self, name: str, width: int) -> NumberFormat:
        """The format of a free value at a width."""
        if width not in self._made:
            self._made[width] = self.typed(dict.fromkeys(self.free, width)).formats
        return self._made[width][name]

    def error(self, name: str, width: int) -> float:
        """The step of a value at a width: its rounding error, but for a factor."""
        return self.format(name, width).resolution

    def typed(self, widths: Mapping[str, int]) -> Typed:
        """The graph with those widths; intermediates have at least the user's and the greatest of them."""
        return quantize(self._source, self._samples, self._options, self.around(widths), self._remembered)

    def around(self, widths: Mapping[str, int]) -> dict[str, int]:
        """The same widths, and one for the intermediates between them."""
        most = max(widths.values(), default=0)
        found = dict(widths)
        for name, node in self._floats.items():
            choice = self._precisions.choice(node)
            if name not in widths and name not in self.asked and isinstance(choice, int):
                found[name] = most if self._precisions.automatic(node) else max(choice, most)
        return found

    def step(self, name: str, width: int, by: int) -> int | None:
        """The next width in direction `by` at which the value is stored in finer (coarser) steps."""
        error = self.error(name, width)
        wanted = width + by
        while NARROWEST <= wanted <= WIDEST:
            if self.error(name, wanted) != error:
                return wanted
            wanted += by
        return None
