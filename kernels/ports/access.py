"""Where a tensor's elements lie in word-packed memory, and how a kernel's loops reach them.

A buffer is one memory whose word holds L elements (lanes). `Layout` sees it as rows of columns: a row is
padded to whole words and its columns run over the lanes. Padding lanes hold any defined value: who reads
them masks them. `Access` maps the indices of a loop nest affinely to (row, column), so views (permute,
slice, flip, select, expand and most reshapes) cost nothing: they change the map, not the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..arith.numerics import IntArray, NumberFormat, ceil_div, product


@dataclass(frozen=True, slots=True)
class Layout:
    """A buffer of `rows` x `cols` elements, `lanes` elements a word, each row padded to whole words.

    A buffer whose rows fill their words is the same memory as one long row; `dense` layouts are written so
    (rows = 1).
    """

    rows: int
    cols: int
    lanes: int

    def __post_init__(self) -> None:
        if min(self.rows, self.cols, self.lanes) < 1:
            raise ValueError(
                f"layout {self.rows}x{self.cols} with {self.lanes} lanes: sizes must be at least 1"
            )

    @property
    def row_words(self) -> int:
        """Words of one row."""
        return ceil_div(self.cols, self.lanes)

    @property
    def words(self) -> int:
        """Words of the whole buffer."""
        return self.rows * self.row_words

    def pack(self, array: IntArray) -> npt.NDArray[np.int64]:
        """Image (words, lanes) of an array with rows * cols elements; padding lanes are zero."""
        image = np.zeros((self.rows, self.row_words * self.lanes), dtype=np.int64)
        image[:, : self.cols] = np.asarray(array).reshape(self.rows, self.cols)
        return image.reshape(-1, self.lanes)

    def unpack(self, image: IntArray) -> npt.NDArray[np.int64]:
        """Array (rows, cols) from an image of at least `words` words."""
        rows = np.asarray(image)[: self.words].reshape(self.rows, self.row_words * self.lanes)
        return np.ascontiguousarray(rows[:, : self.cols])


def row_major(shape: Sequence[int], lanes: int) -> Layout:
    """The natural layout of a tensor: its last axis longer than 1 over the lanes, one long row when rows
    fill words.
    """
    sizes = [s for s in shape if s != 1] or [1]
    if sizes[-1] % lanes == 0:
        return Layout(1, product(sizes), lanes)
    return Layout(product(sizes[:-1]), sizes[-1], lanes)


@dataclass(frozen=True, slots=True)
class Access:
    """Affine map from loop indices to an element of a buffer, possibly with constant padding around it.

    sizes: trip counts of the loop dimensions. offsets[a] + sum(index[d] * steps[a][d]) is the row (a = 0)
    and the column (a = 1). Further axes are guards: where coordinate 2 + i leaves 0 .. limits[i] - 1 no
    memory is read and the element is `fill`, a stored integer of the buffer's format (so padding is a view,
    too).
    """

    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...] = ()
    fill: int = 0

    def indices(self) -> tuple[npt.NDArray[np.int64], ...]:
        """One index array per axis (row, column, guards), each broadcastable to `sizes`."""
        grids = np.indices(self.sizes, dtype=np.int64, sparse=True)
        result = []
        for offset, steps in zip(self.offsets, self.steps, strict=True):
            index = np.full((1,) * len(self.sizes), offset, dtype=np.int64)
            for step, grid in zip(steps, grids, strict=True):
                if step:
                    index = index + step * grid
            result.append(index)
        return tuple(result)

    def read(self, array: IntArray) -> IntArray:
        """Elements of a (rows, cols) array in loop order, shape `sizes`."""
        row, column, *_ = self.indices()
        if not self.limits:
            return np.broadcast_to(np.asarray(array)[row, column], self.sizes)
        inside = self.inside()
        picked = np.asarray(array)[np.where(inside, row, 0), np.where(inside, column, 0)]
        return np.broadcast_to(np.where(inside, picked, self.fill), self.sizes)

    def inside(self) -> npt.NDArray[np.bool_]:
        """Where the element lies in memory, not in the padding; broadcastable to `sizes`."""
        result = np.ones((1,) * len(self.sizes), dtype=bool)
        for coordinate, limit in zip(self.indices()[2:], self.limits, strict=True):
            result = result & (coordinate >= 0) & (coordinate < limit)
        return result

    def memory_indices(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Row and column of every element that lies in memory, one-dimensional."""
        row, column, *_ = self.indices()
        inside, row, column, _ = np.broadcast_arrays(self.inside(), row, column, np.empty(self.sizes))
        return row[inside], column[inside]

    def write(self, array: IntArray, values: IntArray) -> None:
        """Store `values` of shape `sizes` into a (rows, cols) array; an access with guards cannot be
        written.
        """
        if self.limits:
            raise ValueError("an access with padding is not written")
        array[self.indices()] = values

    def column(self, dim: int) -> tuple[int, ...]:
        """Steps of one loop dimension: (row, column, guards...)."""
        return tuple(steps[dim] for steps in self.steps)

    def over(self, sizes: tuple[int, ...], steps: tuple[tuple[int, ...], ...]) -> Access:
        """The same buffer and guards from other loop dimensions: one row of steps per axis."""
        return replace(self, sizes=sizes, steps=steps)

    def permute(self, dims: tuple[int, ...]) -> Access:
        """Loop dimensions in another order."""
        return self.over(
            tuple(self.sizes[d] for d in dims), tuple(tuple(s[d] for d in dims) for s in self.steps)
        )

    def slice(self, starts: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[int, ...]) -> Access:
        """Index d runs over starts[d] + i * strides[d], i < sizes[d] (a negative stride flips)."""
        return replace(
            self,
            sizes=sizes,
            offsets=tuple(
                o + sum(st * s for st, s in zip(starts, steps, strict=True))
                for o, steps in zip(self.offsets, self.steps, strict=True)
            ),
            steps=tuple(tuple(s * k for s, k in zip(steps, strides, strict=True)) for steps in self.steps),
        )

    def unsqueeze(self) -> Access:
        """A last loop dimension of size 1 added."""
        return self.over((*self.sizes, 1), tuple((*steps, 0) for steps in self.steps))

    def pad(self, before: Sequence[int], after: Sequence[int], fill: int) -> Access | None:
        """`before` and `after` more elements of value `fill` on each dimension; None when it has padding of
        another value.

        Dimensions with padding get a guard: their index, shifted, must lie within the present size.
        """
        padded = [d for d in range(len(self.sizes)) if before[d] or after[d]]
        if self.limits and padded and fill != self.fill:
            return None
        rank = len(self.sizes)
        shifted = tuple(
            o - sum(b * s for b, s in zip(before, steps, strict=True))
            for o, steps in zip(self.offsets, self.steps, strict=True)
        )
        guards = tuple(tuple(int(d == g) for d in range(rank)) for g in padded)
        return Access(
            tuple(n + b + a for n, b, a in zip(self.sizes, before, after, strict=True)),
            (*shifted, *(-before[g] for g in padded)),
            (*self.steps, *guards),
            (*self.limits, *(self.sizes[g] for g in padded)),
            fill if padded else self.fill,
        )

    def window(self, dim: int, size: int, stride: int = 1, dilation: int = 1) -> Access:
        """Dimension `dim` becomes (positions of a sliding window) in place, and its taps a new last
        dimension.

        Index dim runs over `stride` times the position plus `dilation` times the tap.
        """
        positions = (self.sizes[dim] - dilation * (size - 1) - 1) // stride + 1
        return self.over(
            (*self.sizes[:dim], positions, *self.sizes[dim + 1 :], size),
            tuple((*s[:dim], s[dim] * stride, *s[dim + 1 :], s[dim] * dilation) for s in self.steps),
        )

    def expand(self, shape: tuple[int, ...]) -> Access:
        """Broadcast to `shape` by numpy's rules (leading dimensions added, size 1 repeated)."""
        extra = len(shape) - len(self.sizes)
        kept = [size == have for size, have in zip(shape[extra:], self.sizes, strict=True)]
        steps = tuple(
            (0,) * extra + tuple(s if k else 0 for s, k in zip(row, kept, strict=True)) for row in self.steps
        )
        return self.over(shape, steps)

    def reshape(self, shape: tuple[int, ...]) -> Access | None:
        """The same elements, row-major, under other loop dimensions; None when no affine map exists."""
        if product(shape) != product(self.sizes):
            raise ValueError(f"cannot view {self.sizes} as {shape}")
        merged = self.coalesce()
        columns: list[tuple[int, ...]] = []
        pending = [(n, merged.column(d)) for d, n in enumerate(merged.sizes)]
        pending.reverse()
        for size in reversed(shape):
            if size == 1:
                columns.append((0,) * len(self.offsets))
                continue
            available, column = pending.pop(0) if pending else (1, (0,) * len(self.offsets))
            if available % size:
                return None
            columns.append(column)
            if available > size:
                pending.insert(0, (available // size, tuple(c * size for c in column)))
        columns.reverse()
        steps = tuple(tuple(column[a] for column in columns) for a in range(len(self.offsets)))
        return self.over(shape, steps)

    def coalesce(self) -> Access:
        """Size-1 loop dimensions dropped and neighbours merged where one affine step serves both."""
        sizes: list[int] = []
        columns: list[tuple[int, ...]] = []
        for dim, size in enumerate(self.sizes):
            column = self.column(dim)
            if size == 1:
                continue
            if sizes and columns[-1] == tuple(c * size for c in column):
                sizes[-1] *= size
                columns[-1] = column
            else:
                sizes.append(size)
                columns.append(column)
        steps = tuple(tuple(column[a] for column in columns) for a in range(len(self.offsets)))
        return self.over(tuple(sizes), steps)


def whole(shape: Sequence[int], layout: Layout) -> Access:
    """Loop over a tensor of `shape` kept row-major in `layout`; ValueError when rows cut across the
    tensor's axes.
    """
    flat = Access((layout.rows, layout.cols), (0, 0), ((1, 0), (0, 1))).reshape(tuple(shape))
    if flat is None:
        raise ValueError(f"tensor {tuple(shape)} has no affine map onto {layout}")
    return flat


@dataclass(frozen=True, slots=True)
class Operand:
    """A memory port of a kernel: element format, packing of the buffer, and the loops' map onto it."""

    fmt: NumberFormat
    layout: Layout
    access: Access

    @property
    def width(self) -> int:
        """Bits of one word."""
        return self.fmt.width * self.layout.lanes
