"""Parameters of the multiplier engine that the kernels of one program share.

One engine holds all multipliers, so a program's budget is the engine's size. It serves three ways of use,
never two at once: pairs of the vector kernels, the dot array (K split over `depth` multipliers a column,
for operands with few rows) and the output-stationary systolic array. Each kernel states the least engine it
needs; `merge` gives the engine of a program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeAlias

from ..arith.numerics import ceil_div

Feed: TypeAlias = Literal["free", "contracted"]
"""How words enter the array: "free": a word holds the free axis (rows of the left, columns of the right
operand) at one k; "contracted": a word holds `cols` values along k, kept in staggered shift registers."""


@dataclass(frozen=True, slots=True)
class DotShape:
    """depth: products added to one column each cycle. columns: sums formed at once. acc: accumulator bits."""

    depth: int
    columns: int
    acc: int

    @property
    def multipliers(self) -> int:
        """Multipliers of the array."""
        return self.depth * self.columns


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """rows x cols output-stationary processing elements, fed from words of `cols` lanes.

    left, right: the feeds that exist on each side, sorted, at least one. acc: accumulator bits.
    """

    rows: int
    cols: int
    acc: int
    left: tuple[Feed, ...]
    right: tuple[Feed, ...]

    @property
    def multipliers(self) -> int:
        """Multipliers of the array."""
        return self.rows * self.cols


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """left, right: bits of the (signed) multiplier operands. stages: pipeline registers of a multiplier (1
    to 3).

    vector: independent multipliers offered to vector kernels.
    """

    left: int
    right: int
    stages: int = 1
    vector: int = 0
    dot: DotShape | None = None
    array: ArrayShape | None = None

    @property
    def multipliers(self) -> int:
        """Multipliers in hardware: the three ways of use share them."""
        dot = self.dot.multipliers if self.dot else 0
        array = self.array.multipliers if self.array else 0
        return max(self.vector, dot, array)

    @property
    def dot_switch(self) -> bool:
        """Whether the dot array says when it is in use: some of its multipliers also serve vector kernels."""
        return self.dot is not None and self.vector > 0

    @property
    def array_switch(self) -> bool:
        """Whether the systolic array says when it is in use: some of its multipliers have another use."""
        return self.array is not None and (self.dot is not None or self.vector > 0)

    @property
    def bank(self) -> int:
        """Multipliers side by side in one component: a row of the array, else a column of the dot array."""
        if self.array:
            return self.array.cols
        return self.dot.depth if self.dot else 1

    @property
    def banks(self) -> int:
        """Banks that hold all multipliers; the last one may be shorter."""
        return ceil_div(self.multipliers, self.bank)


def merge(specs: tuple[EngineSpec, ...]) -> EngineSpec:
    """The least engine that serves every spec; ValueError when shapes differ (a program has one of each)."""
    return reduce(_merge, specs)


def _merge(a: EngineSpec, b: EngineSpec) -> EngineSpec:
    if a.stages != b.stages:
        raise ValueError(f"multipliers with {a.stages} and {b.stages} stages in one program")
    return EngineSpec(
        max(a.left, b.left),
        max(a.right, b.right),
        a.stages,
        max(a.vector, b.vector),
        _merge_dot(a.dot, b.dot),
        _merge_array(a.array, b.array),
    )


def _merge_dot(a: DotShape | None, b: DotShape | None) -> DotShape | None:
    if a is None or b is None:
        return a or b
    if (a.depth, a.columns) != (b.depth, b.columns):
        raise ValueError(f"dot arrays {a} and {b} in one program")
    return replace(a, acc=max(a.acc, b.acc))


def _merge_array(a: ArrayShape | None, b: ArrayShape | None) -> ArrayShape | None:
    if a is None or b is None:
        return a or b
    if (a.rows, a.cols) != (b.rows, b.cols):
        raise ValueError(f"systolic arrays {a} and {b} in one program")
    return replace(a, acc=max(a.acc, b.acc), left=_feeds(a.left, b.left), right=_feeds(a.right, b.right))


def _feeds(a: tuple[Feed, ...], b: tuple[Feed, ...]) -> tuple[Feed, ...]:
    return tuple(sorted({*a, *b}))
