"""The model as kernel calls on buffers: where torch ends. Everything behind it is torch-free.

A value of the graph lives in a buffer and is reached through an access, so views are values without a call
of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torchcalyx.ir.graph import Array, Source
from torchcalyx.kernels.arith.numerics import IntArray, NumberFormat
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.ports.access import Access, Layout


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory. role: "input" (written by the host before each call), "weight" (written once),
    "temp" (made by calls).

    A temp buffer that is a result of the program is named by an `OutputBinding`; it then keeps a memory of
    its own.
    """

    name: str
    fmt: NumberFormat
    layout: Layout
    role: Literal["input", "weight", "temp"]


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel call. reads and writes: buffer names in the order of the spec's read and write ports.

    rule: name of the rule that chose it. covers: graph nodes it computes. node: the graph node whose value
    it writes ("" for a relayout). reason: why it exists, for calls the user did not write (relayouts).
    operations: multiply-accumulates of the model where the kernel works on zeros too (0: as the spec counts).
    """

    name: str
    spec: KernelSpec
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    rule: str
    covers: tuple[str, ...]
    node: str
    source: Source
    reason: str = ""
    operations: int = 0


@dataclass(frozen=True, slots=True)
class InputBinding:
    """One tensor leaf of the user's arguments: shape and dtype (numpy name) of the torch tensor, format,
    and its buffer.

    The tensor's elements, its axes taken in `order` (empty: as they are), row-major, fill the buffer's
    (rows, cols). floor: of a mask, whose lower values (minus infinity too) mean the same.
    """

    node: str
    buffer: str
    shape: tuple[int, ...]
    dtype: str
    fmt: NumberFormat
    order: tuple[int, ...] = ()
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class OutputBinding:
    """One tensor leaf of the result: read from `buffer` through `access` (sizes = shape), or, when buffer
    is None, the constant of that node name (a key of `Selection.constants`), exactly as torch has it.

    exponents: along `axis`, the value at place i is the format's times 2 ** exponents[i] (empty: all 0).
    """

    node: str
    buffer: str | None
    access: Access | None
    shape: tuple[int, ...]
    dtype: str
    fmt: NumberFormat
    axis: int = 0
    exponents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueBinding:
    """Where the value of a graph node stands after its call, for comparisons layer by layer (absent when
    fused away).
    """

    node: str
    buffer: str
    access: Access
    fmt: NumberFormat


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """An index in `buffer` that must lie on an axis of `size` elements, from the end where negative and
    `wrap`.
    """

    node: str
    buffer: str
    access: Access
    size: int
    wrap: bool
    source: Source


@dataclass(frozen=True, slots=True)
class Row:
    """One line of `explain`: a graph node, what became of it, the rule, and why other rules refused (""
    each when none).
    """

    node: str
    op: str
    became: str
    rule: str
    refused: tuple[str, ...]
    source: Source


@dataclass(frozen=True)
class Selection:
    """calls in a valid order. weights: integers (rows, cols) of every "weight" buffer. constants: values of
    outputs that are constants.

    saturated_weights: parameter name -> elements that saturated when stored.
    """

    buffers: tuple[Buffer, ...]
    calls: tuple[Call, ...]
    inputs: tuple[InputBinding, ...]
    outputs: tuple[OutputBinding, ...]
    values: tuple[ValueBinding, ...]
    rows: tuple[Row, ...]
    weights: Mapping[str, IntArray] = field(hash=False, compare=False, default_factory=dict)
    constants: Mapping[str, Array] = field(hash=False, compare=False, default_factory=dict)
    saturated_weights: Mapping[str, int] = field(hash=False, compare=False, default_factory=dict)
    checks: tuple[IndexCheck, ...] = ()

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name."""
        return next(b for b in self.buffers if b.name == name)

    def __str__(self) -> str:
        lines = [f"{b.role} {b.name}: {b.fmt} {b.layout.rows}x{b.layout.cols}" for b in self.buffers]
        for c in self.calls:
            lines.append(
                f"{', '.join(c.writes)} = {c.spec.family}[{c.rule}]({', '.join(c.reads)})  # {c.source}"
            )
        lines += [f"return {o.buffer or o.node}" for o in self.outputs]
        return "\n".join(lines)
