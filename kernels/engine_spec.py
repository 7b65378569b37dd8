"""Parameters of the multiplier engine that the kernels of one program share.

One engine holds all multipliers, so a program's budget is the engine's size. It serves three ways of use, never two at
once: pairs of the vector kernels, the dot array (K split over `depth` multipliers a column, for operands with few rows) and the
output-stationary systolic array. Each kernel states the least engine it needs; `merge` gives the engine of a program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce


@dataclass(frozen=True, slots=True)
class DotShape:
    """depth: products summed into one column each cycle. columns: sums formed at once. acc: accumulator bits."""

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

    left, right: which feeds exist ("free": a word holds the free axis at one k; "contracted": a word holds `cols` values along k, kept in staggered
    shift registers; "both"; "" none). acc: accumulator bits.
    """

    rows: int
    cols: int
    acc: int
    left: frozenset[str]
    right: frozenset[str]

    @property
    def multipliers(self) -> int:
        """Multipliers of the array."""
        return self.rows * self.cols


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """left, right: bits of the (signed) multiplier operands. stages: pipeline registers of a multiplier (1 to 3).

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


def merge(specs: tuple[EngineSpec, ...]) -> EngineSpec:
    """The least engine that serves every spec; ValueError when shapes differ (one program has one shape of each array)."""
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
    return replace(a, acc=max(a.acc, b.acc), left=a.left | b.left, right=a.right | b.right)
