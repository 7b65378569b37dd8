"""`Report`: where the cycles, multipliers and memory bits of a compiled module go, one row a kernel call.

Comes from `Selection`, `Plan` and `Design`; goes out as a table, as JSON and as one HTML page.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jinja2

from torchcalyx.design import Design
from torchcalyx.ir.graph import Source
from torchcalyx.kernels.contract import KernelSpec, writes
from torchcalyx.plan import Plan, start_times
from torchcalyx.results.accuracy import Accuracy
from torchcalyx.results.tables import bits, json_number, place, source_json, table_text
from torchcalyx.selection import Buffer, Call, Selection


@dataclass(frozen=True, slots=True)
class CallReport:
    """One kernel call.

    name: of the call. node: graph node it computes ("" for a relayout). rule, kernel: the rule and the
    kernel family. operands, results: format and rows x columns of the buffers read and written. macs:
    whether `operations` are multiply-accumulates (else elements). operations: useful ones. start: cycle
    of the program in which it starts. cycles: exact. width: operations the hardware of this call could do
    in one cycle. multipliers: of the shared engine kept busy. memory_bits: of the buffers written.
    reason: why the compiler added it ("" for a call of the user's model).
    """

    name: str
    node: str
    rule: str
    kernel: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    macs: bool
    operations: int
    start: int
    cycles: int
    width: int
    multipliers: int
    memory_bits: int
    register_bits: int
    source: Source
    reason: str

    @property
    def utilisation(self) -> float:
        """Useful operations / (cycles * width), 0 to 1."""
        return self.operations / (self.cycles * self.width) if self.cycles else 0.0


@dataclass(frozen=True)
class Report:
    """Cycles and hardware of a compiled module.

    cycles: predicted for one call. simulated_cycles: of the last simulated call, None before one.
    multipliers: of the shared engine. memory_bits: by role ("input", "weight", "output", "temp").
    register_bits: of all kernels, equal ones once.
    futil_bytes: size of the program. saturated_weights: parameter -> elements that did not fit their
    format. accuracy: on the calibration inputs, with the tensors that got other widths for it (None: not
    checked).
    """

    calls: tuple[CallReport, ...]
    cycles: int
    simulated_cycles: int | None
    multipliers: int
    memory_bits: dict[str, int]
    register_bits: int
    futil_bytes: int
    saturated_weights: dict[str, int]
    accuracy: Accuracy | None = None

    @property
    def call_cycles(self) -> int:
        """Sum over the calls; more than `cycles` when calls run at the same time."""
        return sum(c.cycles for c in self.calls)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one call of the module."""
        return sum(c.operations for c in self.calls if c.macs)

    @property
    def utilisation(self) -> float:
        """Multiply-accumulates / (cycles * multipliers), 0 to 1."""
        return self.macs / (self.cycles * self.multipliers) if self.cycles and self.multipliers else 0.0

    def __str__(self) -> str:
        tensors = [] if self.accuracy is None or not self.accuracy.tensors else ["", self.accuracy.table()]
        return "\n".join([_table(self), "", *_totals(self), *tensors])

    def to_json(self) -> str:
        """JSON text: the fields of this class and `macs`, `utilisation`; `calls` holds the fields of
        `CallReport` and `utilisation`.
        """
        return json.dumps(self._values(), indent=2)

    def to_html(self) -> str:
        """One self-contained HTML page with a bar for each call."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            undefined=jinja2.StrictUndefined,
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["bits"] = bits
        environment.filters["place"] = place
        return environment.get_template("report.html.j2").render(report=self)

    def _values(self) -> dict[str, Any]:
        calls = [
            {**asdict(c), "source": source_json(c.source), "utilisation": json_number(c.utilisation)}
            for c in self.calls
        ]
        return {
            "cycles": self.cycles,
            "simulated_cycles": self.simulated_cycles,
            "macs": self.macs,
            "multipliers": self.multipliers,
            "utilisation": json_number(self.utilisation),
            "memory_bits": self.memory_bits,
            "register_bits": self.register_bits,
            "futil_bytes": self.futil_bytes,
            "saturated_weights": self.saturated_weights,
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "calls": calls,
        }


def make_report(
    selection: Selection,
    plan: Plan,
    design: Design,
    simulated_cycles: int | None = None,
    accuracy: Accuracy | None = None,
) -> Report:
    """The report of a design that was emitted from `plan`, the plan of `selection`."""
    roles = ("input", "weight", "output", "temp")
    buffers = {b.name: b for b in selection.buffers}
    starts = start_times(plan.schedule, {call.name: call.spec.cycles() for call in selection.calls})
    return Report(
        calls=tuple(_call(call, buffers, starts[call.name]) for call in selection.calls),
        cycles=design.cycles,
        simulated_cycles=simulated_cycles,
        multipliers=plan.engine.multipliers if plan.engine else 0,
        memory_bits={role: sum(m.bits for m in design.memories if m.role == role) for role in roles},
        register_bits=sum(s.cost().register_bits for s in {call.spec for call in selection.calls}),
        futil_bytes=len(design.futil.encode()),
        saturated_weights=dict(selection.saturated_weights),
        accuracy=accuracy,
    )


def _call(call: Call, buffers: dict[str, Buffer], start: int) -> CallReport:
    macs, width = _parallel(call.spec)
    return CallReport(
        name=call.name,
        node=call.node,
        rule=call.rule,
        kernel=call.spec.family,
        operands=tuple(_shape(buffers[b]) for b in call.reads),
        results=tuple(_shape(buffers[b]) for b in call.writes),
        macs=macs,
        operations=call.operations or call.spec.useful_operations(),
        start=start,
        cycles=call.spec.cycles(),
        width=width,
        multipliers=call.spec.cost().multipliers,
        memory_bits=sum(buffers[b].layout.words * _word_bits(buffers[b]) for b in call.writes),
        register_bits=call.spec.cost().register_bits,
        source=call.source,
        reason=call.reason,
    )


def _parallel(spec: KernelSpec) -> tuple[bool, int]:
    """Whether the operations are multiply-accumulates of an array, and how many the call could do in a
    cycle.
    """
    engine = spec.engine()
    if engine is not None and (engine.dot or engine.array):
        return True, max(1, spec.cost().multipliers)
    return False, writes(spec)[0].operand.layout.lanes


def _word_bits(buffer: Buffer) -> int:
    return buffer.fmt.width * buffer.layout.lanes


def _shape(buffer: Buffer) -> str:
    return f"{buffer.fmt} {buffer.layout.rows}x{buffer.layout.cols}"


def _table(report: Report) -> str:
    columns = [
        ("call", "left"),
        ("kernel", "left"),
        ("rule", "left"),
        ("reads", "left"),
        ("writes", "left"),
        ("operations", "right"),
        ("start", "right"),
        ("cycles", "right"),
        ("use", "right"),
        ("mult", "right"),
        ("memory", "right"),
        ("registers", "right"),
        ("source", "left"),
    ]
    rows = [
        (
            c.name,
            c.kernel,
            c.rule,
            "\n".join(c.operands),
            "\n".join(c.results),
            f"{c.operations} {'MAC' if c.macs else 'el'}",
            str(c.start),
            str(c.cycles),
            f"{100 * c.utilisation:.0f} %",
            str(c.multipliers),
            bits(c.memory_bits),
            bits(c.register_bits),
            place(c.source),
        )
        for c in report.calls
    ]
    return table_text(columns, rows)


def _totals(report: Report) -> list[str]:
    simulated = "not simulated yet"
    if report.simulated_cycles is not None:
        equal = "equal" if report.simulated_cycles == report.cycles else "DIFFERENT"
        simulated = f"{report.simulated_cycles} simulated ({equal})"
    memory = ", ".join(f"{role} {bits(size)}" for role, size in report.memory_bits.items())
    lines = [
        f"cycles:      {report.cycles} predicted, {simulated}",
        f"multipliers: {report.multipliers}; {report.macs} MAC, {100 * report.utilisation:.1f} % of "
        "cycles x multipliers",
        f"memory:      {memory}",
        f"registers:   {bits(report.register_bits)} in the kernels' pipelines",
        f"program:     {report.futil_bytes} bytes, {len(report.calls)} kernel calls",
    ]
    lines += [f"added:       {c.name}, because {c.reason}" for c in report.calls if c.reason]
    lines += [
        f"saturated:   {count} elements of {name} do not fit their format"
        for name, count in sorted(report.saturated_weights.items())
        if count
    ]
    if report.accuracy is not None:
        lines += [f"accuracy:    {line}" for line in report.accuracy.lines()]
    return lines
