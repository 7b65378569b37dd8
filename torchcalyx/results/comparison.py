"""`Comparison`: torch, the software model and the simulated hardware side by side, per output and per
layer.

Errors compare the software model with torch (layers: with the float64 reference of the same node).
Hardware and software model must agree to the bit, so only the number of elements that differ is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Source
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.results.saturations import Saturations
from torchcalyx.results.tables import json_number, number, place, source_json, table_text


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """One output or one layer.

    name: of the output (as in `output['logits']`) or of the graph node. op: its operation. kind: dtype
    and shape. format: of the stored integers. max_error, mean_error: of |software model - torch|.
    largest: greatest |torch|. saturated: elements that saturated when this value was computed. differing:
    elements in which the hardware differs from the software model, None when the hardware only passes it
    on (constants, views of inputs). source: the user's line.
    """

    name: str
    op: str
    kind: str
    format: str
    elements: int
    max_error: float
    mean_error: float
    largest: float
    saturated: int
    differing: int | None
    source: Source

    @property
    def exact(self) -> bool:
        """Whether the hardware equals the software model here (or cannot be compared)."""
        return not self.differing


@dataclass(frozen=True)
class Comparison:
    """What `CompiledModule.check` found.

    outputs, layers: in order of the result's leaves and of the graph. predicted_cycles, simulated_cycles:
    of one call. layers_cycles: (predicted, simulated) of the second design, which keeps every layer in
    memory, None without it. saturated: elements that saturated in any kernel call. saturated_inputs:
    input elements that did not fit their format, by input. saturations: both, place by place.
    """

    outputs: tuple[ValueComparison, ...]
    layers: tuple[ValueComparison, ...]
    predicted_cycles: int
    simulated_cycles: int
    layers_cycles: tuple[int, int] | None
    saturated: int
    saturated_inputs: Mapping[str, int]
    saturations: Saturations = ()

    @property
    def exact(self) -> bool:
        """Whether the hardware equals the software model to the bit in every output and layer."""
        return all(v.exact for v in (*self.outputs, *self.layers))

    @property
    def ok(self) -> bool:
        """`exact`, and the simulated cycles are the predicted ones."""
        pairs = [
            (self.predicted_cycles, self.simulated_cycles),
            *([self.layers_cycles] if self.layers_cycles else []),
        ]
        return self.exact and all(predicted == simulated for predicted, simulated in pairs)

    @property
    def first_difference(self) -> str | None:
        """Name of the first layer, else of the first output, in which the hardware differs; None when
        there is none.
        """
        return next((v.name for v in (*self.layers, *self.outputs) if not v.exact), None)

    @property
    def max_error(self) -> float:
        """Greatest error of any output against torch."""
        return max((v.max_error for v in self.outputs), default=0.0)

    def __str__(self) -> str:
        parts = [_table("output", self.outputs)]
        if self.layers:
            parts.append(_table("layer", self.layers))
        return "\n\n".join([*parts, "\n".join(self._summary())])

    def _summary(self) -> list[str]:
        first = self.first_difference
        lines = [
            "hardware and software model agree to the bit"
            if first is None
            else f"HARDWARE AND SOFTWARE MODEL DIFFER, first in {first}"
        ]
        cycles = [("cycles", (self.predicted_cycles, self.simulated_cycles))]
        if self.layers_cycles:
            cycles.append(("cycles with every layer kept", self.layers_cycles))
        for what, (predicted, simulated) in cycles:
            verdict = "equal" if predicted == simulated else "DIFFERENT"
            lines.append(f"{what}: {predicted} predicted, {simulated} simulated ({verdict})")
        if self.saturated:
            lines.append(f"{self.saturated} elements saturated in kernel calls")
        for name, count in self.saturated_inputs.items():
            if count:
                lines.append(f"input {name}: {count} elements do not fit their format and were saturated")
        return lines

    def to_json(self) -> str:
        """JSON text: ok, exact, first_difference, max_error, predicted_cycles, simulated_cycles,
        layers_cycles, saturated, saturated_inputs, saturations, outputs, layers; the last three hold the
        fields of `Saturated` and `ValueComparison`. An error that is not finite is null.
        """
        values = {
            "ok": self.ok,
            "exact": self.exact,
            "first_difference": self.first_difference,
            "max_error": json_number(self.max_error),
            "predicted_cycles": self.predicted_cycles,
            "simulated_cycles": self.simulated_cycles,
            "layers_cycles": self.layers_cycles,
            "saturated": self.saturated,
            "saturated_inputs": dict(self.saturated_inputs),
            "saturations": [s.to_dict() for s in self.saturations],
            "outputs": [_value_json(v) for v in self.outputs],
            "layers": [_value_json(v) for v in self.layers],
        }
        return json.dumps(values, indent=2)


def compare_value(
    name: str,
    wanted: npt.NDArray[Any],
    emulated: npt.NDArray[Any],
    *,
    op: str,
    dtype: str,
    fmt: NumberFormat | None,
    differing: int | None,
    saturated: int = 0,
    source: Source,
) -> ValueComparison:
    """Compare real values of one shape: `wanted` by torch and `emulated`. dtype: of the torch tensor."""
    assert wanted.shape == emulated.shape, f"{name}: {wanted.shape} and {emulated.shape}"
    a, b = np.asarray(wanted, np.float64), np.asarray(emulated, np.float64)
    with np.errstate(invalid="ignore"):
        errors = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return ValueComparison(
        name=name,
        op=op,
        kind=f"{dtype}{list(wanted.shape)}",
        format=str(fmt) if fmt else "",
        elements=int(wanted.size),
        max_error=float(errors.max(initial=0.0)),
        mean_error=float(errors.mean()) if errors.size else 0.0,
        largest=float(np.abs(a).max(initial=0.0)),
        saturated=saturated,
        differing=differing,
        source=source,
    )


def _value_json(value: ValueComparison) -> dict[str, Any]:
    found = {**asdict(value), "source": source_json(value.source)}
    for key in ("max_error", "mean_error", "largest"):
        found[key] = json_number(found[key])
    return found


def _table(title: str, values: tuple[ValueComparison, ...]) -> str:
    columns = [
        (title, "left"),
        ("operation", "left"),
        ("tensor", "left"),
        ("format", "left"),
        ("max error", "right"),
        ("mean error", "right"),
        ("largest", "right"),
        ("saturated", "right"),
        ("hardware", "left"),
        ("source", "left"),
    ]
    rows = [
        (
            v.name,
            v.op,
            v.kind,
            v.format,
            number(v.max_error),
            number(v.mean_error),
            number(v.largest),
            str(v.saturated),
            _verdict(v),
            place(v.source),
        )
        for v in values
    ]
    return table_text(columns, rows)


def _verdict(value: ValueComparison) -> str:
    if value.differing is None:
        return "not computed"
    return "equal" if not value.differing else f"{value.differing} of {value.elements} DIFFER"
