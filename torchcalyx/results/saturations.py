"""What saturated in a call: each input and kernel with its count, its place and its need, and how the user
is told.

The hardware cannot report saturations. Its software model equals it to the bit, so the counts are the
model's for the same stored inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from torchcalyx.emulate import EmulationResult
from torchcalyx.errors import SaturationError, SaturationWarning
from torchcalyx.host import Stored
from torchcalyx.ir.graph import Source
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.kernels.arith.saturation import Saturation
from torchcalyx.options import MAX_HEADROOM, Options, resolve_precision
from torchcalyx.results.tables import source_json
from torchcalyx.selection import Selection
from torchcalyx.warn import warn

SHOWN = 4
"""Places that a message names; all are in `RunResult.saturations`."""


@dataclass(frozen=True, slots=True)
class Saturated:
    """An input, or a kernel call, some of whose values did not fit.

    name: path of the input as the user names it, or graph node. kernel: name of the call, "" for an input.
    count, elements: values cut, of how many that were narrowed. fmt: the format with the greatest need. bits:
    integer bits that were missing, so many more would have held every value; None when no number is known to
    be enough (infinite values, division by zero in a kernel of one's own). at_least: `bits` is a lower bound,
    since operands were cut before, or the function ends where its format does. source: the user's line and
    module. excess: how far the farthest value lies outside, in widths of the range, infinite when unknown.
    """

    name: str
    kernel: str
    count: int
    elements: int
    fmt: NumberFormat
    bits: int | None
    at_least: bool
    source: Source
    excess: float = math.inf

    @property
    def need(self) -> float:
        """For comparisons: `bits`, infinite when unknown."""
        return float("inf") if self.bits is None else self.bits

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON knows them."""
        excess = self.excess if math.isfinite(self.excess) else None
        return {**asdict(self), "fmt": str(self.fmt), "source": source_json(self.source), "excess": excess}

    def __str__(self) -> str:
        what = f"node {self.name!r}" if self.kernel else f"input {self.name!r}"
        place = f" at {self.source}" if self.kernel else ""
        bits = [] if self.bits is None else [_bits(self.bits, self.at_least)]
        ends = f"{self.fmt} ({_end(self.fmt, self.fmt.min)} to {_end(self.fmt, self.fmt.max)})"
        return "; ".join([f"{what}{place}: {self.count} of {self.elements} outside {ends}", *bits])


Saturations: TypeAlias = "tuple[Saturated, ...]"


def find_saturations(selection: Selection, stored: Stored, emulated: EmulationResult) -> Saturations:
    """What saturated in one call, inputs first, then kernels in the order of the program."""
    found: list[Saturated] = []
    cut: set[str] = set()
    for binding, path in zip(selection.inputs, stored.paths, strict=True):
        count = stored.saturated.get(path)
        if count:
            cut.add(binding.buffer)
            found.append(_row(path, "", count, binding.fmt, False, Source("input")))
    for call in selection.calls:
        count, after = emulated.saturated[call.name], not cut.isdisjoint(call.reads)
        if count or after:
            cut.update(call.writes)
        if count:
            fmt = selection.buffer(call.writes[0]).fmt
            found.append(_row(call.node or call.name, call.name, count, fmt, after, call.source))
    return tuple(found)


def alert(
    calls: Sequence[Saturations],
    options: Options,
    expected: Callable[[], Mapping[str, float]] = dict,
) -> None:
    """Tell the user what saturated in the calls of a batch, once for all of them: a SaturationWarning at
    their line, or a SaturationError, or nothing, as `Options.on_saturation` says.

    expected: asked when kernels saturated, gives the excess of the calibration inputs by kernel call. What
    goes no farther is no news.
    """
    if options.on_saturation == "ignore":
        return
    known = expected() if any(r.kernel for c in calls for r in c) else {}
    calls = [tuple(r for r in c if not r.kernel or r.excess > known.get(r.kernel, 0.0)) for c in calls]
    if not any(calls):
        return
    message = describe(calls, options)
    if options.on_saturation == "error":
        raise SaturationError(message)
    warn(SaturationWarning, message)


def describe(calls: Sequence[Saturations], options: Options) -> str:
    """The message for calls of which at least one saturated: worst places, what was missing, what to do."""
    rows = sorted(_merged(calls), key=lambda r: (r.at_least, -r.need, -r.count / r.elements))  # causes first
    affected = sum(bool(c) for c in calls)
    batch = f" in {affected} of {len(calls)} calls" if len(calls) > 1 else ""
    kernels = sum(bool(r.kernel) for r in rows)
    parts = [p for p in (_plural(len(rows) - kernels, "input"), _plural(kernels, "kernel call")) if p]
    head = f"values of {' and '.join(parts)} left the range of their formats and were cut{batch}:"
    lines = [head, *(f"  {row}" for row in rows[:SHOWN])]
    if len(rows) > SHOWN:
        lines.append(f"  and {len(rows) - SHOWN} more, all in RunResult.saturations")
    return "\n".join([*lines, _advice(rows, options)])


def _row(
    name: str, kernel: str, found: Saturation, fmt: NumberFormat, after: bool, source: Source
) -> Saturated:
    at_least = found.bits is not None and (found.at_least or after)
    fmt = found.fmt or fmt
    return Saturated(name, kernel, int(found), found.of, fmt, found.bits, at_least, source, found.excess)


def _merged(calls: Sequence[Saturations]) -> list[Saturated]:
    """One row a place for all calls of a batch, with the greatest need."""
    places: dict[tuple[str, str], Saturated] = {}
    for row in (r for call in calls for r in call):
        key = row.name, row.kernel
        if key in places:
            worst = max(places[key], row, key=lambda r: r.need)
            count, elements = places[key].count + row.count, places[key].elements + row.elements
            excess = max(places[key].excess, row.excess)
            row = replace(worst, count=count, elements=elements, excess=excess)
        places[key] = row
    return list(places.values())


def _advice(rows: Sequence[Saturated], options: Options) -> str:
    """What helps: it depends on who chose the formats, and on how far the values lie outside."""
    precisions = _precisions(options)
    given = [p for p in precisions if isinstance(p, NumberFormat)]
    worst = max((r for r in rows if r.bits is not None), key=lambda r: r.need, default=None)
    ways: list[str] = []
    if any(r.bits is None and not r.kernel for r in rows):
        ways.append("keep infinite values from the inputs: no format holds them")
    if worst is not None and worst.need > MAX_HEADROOM:
        ways.append(f"check the values of {worst.name!r}: no format serves them and the usual ones")
    if len(given) < len(precisions):
        ways.append("give inputs like these as calibration")
        spare = max(options.spare_bits(r.fmt.width) + (r.bits or 0) for r in rows)
        if worst is not None and spare <= MAX_HEADROOM:
            ways.append(f"compile with headroom={spare}{' or more' if worst.at_least else ''}")
        ways.append("choose a wider precision for these places")
    if given:
        fewer = f", here fixed{worst.fmt.width}.{worst.fmt.frac - worst.need:.0f}" if worst else ""
        ways.append(f"give formats with fewer fraction bits{fewer}")
    return f"what to do: {', or '.join(ways)}; on_saturation='ignore' silences this, 'error' refuses the call"


def _precisions(options: Options) -> list[int | NumberFormat]:
    precision = options.precision
    if isinstance(precision, Mapping):
        return [*(resolve_precision(p) for p in precision.values()), resolve_precision("fixed16")]
    return [resolve_precision(precision)]


def _bits(bits: int, at_least: bool) -> str:
    more = f"{bits} more integer bit{'s' if bits > 1 else ''}"
    return f"at least {more} needed" if at_least else f"{more} would have been enough"


def _end(fmt: NumberFormat, stored: int) -> str:
    return f"{stored * fmt.resolution:.4g}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count > 1 else ''}" if count else ""
