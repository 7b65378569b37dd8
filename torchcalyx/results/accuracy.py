"""`Accuracy`: how far the compiled calibration inputs lie from float64, which tensors got other widths for
it, and what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from torchcalyx.ir.graph import Source
from torchcalyx.results.tables import bits, json_number, number, place, source_json, table_text

SHOWN = 40
"""Tensors of a printed table; the JSON and the HTML page have all."""


@dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """One output of the module on the calibration inputs.

    name: as in `output['logits']`. counted: whether it is an integer or bool output, whose `error` and
    `allowed` are fractions of elements that differ; of a float output they are the greatest |difference| and
    the greatest one allowed. largest: greatest magnitude of the float64 reference. firm: whether a miss is an
    inaccuracy to be told of (an integer output is only reported where the user gave no tolerance).
    """

    name: str
    counted: bool
    largest: float
    error: float
    allowed: float
    firm: bool

    @property
    def share(self) -> float:
        """Error as a part of what is allowed; above 1 the tolerance is missed."""
        return self.error / self.allowed if self.allowed else (math.inf if self.error else 0.0)

    @property
    def held(self) -> bool:
        """Whether the tolerance is kept."""
        return self.share <= 1

    def __str__(self) -> str:
        if self.counted:
            return f"{self.name}: {100 * self.error:.3g} % of the elements differ"
        relative = f" ({100 * self.error / self.largest:.3g} %)" if self.largest else ""
        return f"{self.name}: error {number(self.error)} with values up to {number(self.largest)}{relative}"


@dataclass(frozen=True, slots=True)
class TensorAccuracy:
    """One tensor in memory whose width the compiler chose.

    name: of the graph node. title: as the user knows it. asked: bits of the user's precision, None for
    "auto". format: chosen. elements: of memory, with padding and copies. share: of the allowed error that
    this tensor's rounding alone uses up in the worst output. source: the user's line and module.
    """

    name: str
    title: str
    asked: int | None
    bits: int
    format: str
    elements: int
    share: float
    source: Source

    @property
    def memory_bits(self) -> int:
        """Bits of all elements."""
        return self.elements * self.bits

    @property
    def more_bits(self) -> int:
        """Bits of memory beyond the user's precision; 0 for "auto"."""
        return 0 if self.asked is None else self.elements * (self.bits - self.asked)


@dataclass(frozen=True)
class Accuracy:
    """What compilation found out about its own numbers.

    tolerance: in force. inputs: calibration inputs that were emulated, of `calibrated`. outputs: in the order
    of the result's leaves. tensors: those whose width the compiler chose: all that have no format of the user
    with precision "auto", else those that were widened. tensor_bits, register_bits, memory_bits:
    (before, after) of the tensors whose width the user or the compiler chooses, of the kernels' registers and
    of all memories, with biases and where tensors share one; before: with the user's widths, or 16 bits for
    "auto".
    trials: selections that were emulated.
    """

    tolerance: float
    inputs: int
    calibrated: int
    outputs: tuple[OutputAccuracy, ...]
    tensors: tuple[TensorAccuracy, ...]
    tensor_bits: tuple[int, int]
    register_bits: tuple[int, int]
    memory_bits: tuple[int, int]
    trials: int

    @property
    def held(self) -> bool:
        """Whether every output keeps the tolerance."""
        return all(o.held for o in self.outputs)

    @property
    def chosen(self) -> bool:
        """Whether the compiler chose any width itself."""
        return bool(self.tensors)

    def __str__(self) -> str:
        parts = ["\n".join(self.lines())]
        if self.tensors:
            parts.append(self.table())
        return "\n\n".join(parts)

    def lines(self) -> Iterator[str]:
        """Errors of the outputs, and what the widths cost."""
        many = f"{self.inputs} of {self.calibrated} calibration inputs"
        yield f"tolerance {self.tolerance:.3g} of each output's largest magnitude, checked on {many}"
        for o in self.outputs:
            verdict = "" if o.held else "   MISSED" if o.firm else "   (integers: told, not judged)"
            yield f"{o}{verdict}"
        if self.tensors:
            yield f"{len(self.tensors)} tensors have widths chosen for this: {self.costs()}"

    def costs(self) -> str:
        """Tensors, all memory and registers before and after, in one line."""
        pairs = (
            ("tensors", self.tensor_bits),
            ("memory", self.memory_bits),
            ("registers", self.register_bits),
        )
        return ", ".join(f"{what} {bits(before)} -> {bits(after)}" for what, (before, after) in pairs)

    def table(self) -> str:
        """Bits, memory and error of each tensor that the compiler chose the width of."""
        columns = [("tensor", "left"), *((title, "right") for title in ("asked", "bits", "format", "memory")),
                   ("more", "right"), ("error", "right"), ("source", "left")]  # fmt: skip
        rows = [
            (
                t.title,
                "auto" if t.asked is None else str(t.asked),
                str(t.bits),
                t.format,
                bits(t.memory_bits),
                bits(t.more_bits) if t.more_bits else "",
                f"{100 * t.share:.2g} %",
                place(t.source),
            )
            for t in self.tensors[:SHOWN]
        ]
        more = len(self.tensors) - SHOWN
        return table_text(columns, rows) + (f"\nand {more} more" if more > 0 else "")

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        outputs = [
            {**asdict(o), "error": json_number(o.error), "share": json_number(o.share), "held": o.held}
            for o in self.outputs
        ]
        tensors = [
            {
                **asdict(t),
                "share": json_number(t.share),
                "source": source_json(t.source),
                "memory_bits": t.memory_bits,
                "more_bits": t.more_bits,
            }
            for t in self.tensors
        ]
        return {
            **{f: getattr(self, f) for f in ("tolerance", "inputs", "calibrated", "trials", "held")},
            "tensor_bits": list(self.tensor_bits),
            "register_bits": list(self.register_bits),
            "memory_bits": list(self.memory_bits),
            "outputs": outputs,
            "tensors": tensors,
        }
