"""Collects the buffers, weights and kernel calls of a selection while rules build them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Array, Node
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import IntArray, NumberFormat
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.moves.gather import GatherSource
from torchcalyx.kernels.moves.relayout import relayout
from torchcalyx.kernels.ports.access import Access, Layout, Operand, row_major, whole
from torchcalyx.selection import Buffer, Call


@dataclass(frozen=True, slots=True)
class Located:
    """A tensor value in a buffer: `access.sizes` is its shape."""

    buffer: str
    access: Access
    fmt: NumberFormat

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.access.sizes


class SelectionBuilder:
    """State of one selection; rules call it from `build`."""

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.lanes = view.lanes
        self.buffers: dict[str, Buffer] = {}
        self.calls: list[Call] = []
        self.weights: dict[str, IntArray] = {}
        self.saturated: dict[str, int] = {}
        self.located: dict[str, Located] = {}
        self._weight_of: dict[tuple[object, ...], str] = {}
        self._copies: dict[tuple[Located, Layout, tuple[int, ...]], Located] = {}
        self._rule: tuple[str, tuple[str, ...]] = ("", ())
        self._node: Node | None = None

    # ---- places
    # ------------------------------------------------------------------------------------------------------
    def begin(self, rule: str, node: Node, covers: tuple[str, ...]) -> None:
        """The rule whose `build` runs next."""
        self._rule, self._node = (rule, covers), node

    def value(self, name: str) -> Located:
        """Where a graph value lies; a constant gets a weight buffer of its natural layout."""
        if name not in self.located:
            node = self.view.nodes[name]
            if node.op != "constant":
                raise KeyError(f"{name} has no place yet")
            fmt = self.view.formats[name]
            layout = row_major(node.shape, self.lanes)
            buffer = self.weight(name, fmt, layout, lambda stored: stored)
            self.located[name] = Located(buffer, whole(node.shape, layout), fmt)
        return self.located[name]

    def buffer(self, stem: str, fmt: NumberFormat, layout: Layout, role: str = "temp") -> str:
        """A new buffer named after `stem`."""
        name, count = stem, 1
        while name in self.buffers:
            count += 1
            name = f"{stem}~{count}"
        assert role in ("input", "weight", "temp")
        self.buffers[name] = Buffer(name, fmt, layout, role)  # type: ignore[arg-type]
        return name

    def weight(
        self,
        name: str,
        fmt: NumberFormat,
        layout: Layout,
        pack: Callable[[IntArray], IntArray],
        tag: str = "",
        more: tuple[int, ...] = (),
    ) -> str:
        """The buffer that holds constant `name` in `fmt`, its stored integers arranged by `pack`; equal
        requests share it. more: fraction bits beyond those of `fmt`, for each index of the first axis.
        """
        key = (name, fmt, layout, tag, more)
        if key not in self._weight_of:
            title = self.title(name)
            stored, saturated = fmt.quantize_counting(finer(self.view.graph.constants[name], more))
            if saturated:
                self.saturated[title] = saturated
            buffer = self.buffer(title, fmt, layout, "weight")
            self.weights[buffer] = np.asarray(pack(stored)).reshape(layout.rows, layout.cols)
            self._weight_of[key] = buffer
        return self._weight_of[key]

    def table(self, title: str, fmt: NumberFormat, layout: Layout, values: IntArray) -> str:
        """The buffer that holds integers the compiler made; equal requests share it."""
        key = (title, fmt, layout, tuple(int(v) for v in values))
        if key not in self._weight_of:
            buffer = self.buffer(title, fmt, layout, "weight")
            array = np.zeros(layout.rows * layout.cols, dtype=np.int64)
            array[: len(values)] = values
            self.weights[buffer] = array.reshape(layout.rows, layout.cols)
            self._weight_of[key] = buffer
        return self._weight_of[key]

    def title(self, name: str) -> str:
        """How messages call a constant."""
        return self.view.graph.parameter_names.get(name, name)

    def operand(self, located: Located) -> Operand:
        """The kernel operand that reads a value over its own shape."""
        return Operand(located.fmt, self.buffers[located.buffer].layout, located.access)

    # ---- calls -------------------------------------------------------------------------------------------
    # ------------
    def call(
        self,
        spec: KernelSpec,
        reads: Sequence[str],
        writes: Sequence[str],
        reason: str = "",
        operations: int = 0,
    ) -> None:
        """Append a kernel call of the current rule; with a reason it is a call the user did not write.

        operations: multiply-accumulates of the model, where the kernel works on zeros as well.
        """
        assert self._node is not None
        rule, covers = self._rule
        name = f"k{len(self.calls)}_{spec.family}"
        node = "" if reason else self._node.name
        row = Call(
            name,
            spec,
            tuple(reads),
            tuple(writes),
            rule,
            () if reason else covers,
            node,
            self._node.source,
            reason,
            operations,
        )
        self.calls.append(row)

    def relayout(
        self,
        value: Located,
        layout: Layout,
        shape: tuple[int, ...],
        reason: str,
        taken: Sequence[str] = (),
    ) -> Located:
        """A copy of `value`, seen row-major as `shape`, in a buffer of `layout`.

        Equal copies are made once, unless the one there is lies in a memory that is `taken` (one port each).
        """
        key = (value, layout, shape)
        if key not in self._copies or self._copies[key].buffer in taken:
            target = whole(shape, layout)
            buffer = self.buffer(f"{value.buffer}'", value.fmt, layout)
            spec = copy_kernel(self.operand(value), Operand(value.fmt, layout, target))
            self.call(spec, [value.buffer], [buffer], reason)
            self._copies[key] = Located(buffer, target, value.fmt)
        return self._copies[key]


def finer(values: Array, more: tuple[int, ...]) -> Array:
    """Real values times 2**more[index of the first axis]; as they are without `more`."""
    if not more:
        return values
    places = np.array(more).reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(np.ldexp(values.astype(np.float64), places))


def copy_kernel(source: Operand, target: Operand) -> KernelSpec:
    """The fastest kernel that copies one value into another place (same element order, shapes may differ)."""
    expr = narrowing(source.fmt, target.fmt)
    if source.access.sizes == target.access.sizes:
        try:
            return elementwise(expr, (source,), target)
        except KernelParameterError:
            pass  # not word by word
    return relayout((GatherSource(source, None, expr),), target)
