"""Layouts and accesses: every view equals numpy's view of the same elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.support import Array
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.ports.access import Access, Layout, Operand, row_major, whole
from torchcalyx.kernels.ports.stage import coalesce

Shape = tuple[int, ...]
Draw = Callable[..., Any]


def start(shape: Sequence[int], lanes: int) -> tuple[Access, Array, Array]:
    """Access to a whole tensor, its buffer (rows, cols), and the tensor."""
    layout = row_major(shape, lanes)
    tensor = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return whole(shape, layout), tensor.reshape(layout.rows, layout.cols), tensor


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    return tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))


def factors(draw: Draw, count: int) -> Shape:
    """A random shape of `count` elements."""
    sizes = []
    while count > 1:
        size = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        sizes.append(size)
        count //= size
        if len(sizes) == 4:
            break
    return (*sizes, count)


def cut(draw: Draw, access: Access, seen: Array) -> tuple[Access, Array]:
    """A random slice of every dimension, forwards or backwards."""
    starts, strides, sizes = [], [], []
    for size in access.sizes:
        stride = draw(st.sampled_from([-2, -1, 1, 2]))
        first = draw(st.integers(0, size - 1))
        room = (size - 1 - first) // stride if stride > 0 else first // -stride
        starts.append(first)
        strides.append(stride)
        sizes.append(draw(st.integers(1, room + 1)))
    picks = [np.arange(n) * k + a for a, k, n in zip(starts, strides, sizes, strict=True)]
    changed = access.slice(tuple(starts), tuple(strides), tuple(sizes))
    return changed, seen[np.ix_(*picks)] if picks else seen


def padded(draw: Draw, access: Access, seen: Array) -> tuple[Access, Array]:
    """Up to two elements of padding on each side."""
    before = [draw(st.integers(0, 2)) for _ in access.sizes]
    after = [draw(st.integers(0, 2)) for _ in access.sizes]
    fill = draw(st.sampled_from([-1, -2]))
    changed = access.pad(before, after, fill)
    if changed is None:
        assert access.limits and access.fill != fill
        return access, seen
    return changed, np.pad(
        seen, list(zip(before, after, strict=True)), constant_values=fill
    ) if before else seen


def windowed(draw: Draw, access: Access, seen: Array) -> tuple[Access, Array]:
    """Sliding windows along one dimension."""
    dim = draw(st.integers(0, len(access.sizes) - 1))
    dilation, stride = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    taps = draw(st.integers(1, (access.sizes[dim] - 1) // dilation + 1))
    rows = range(0, access.sizes[dim] - dilation * (taps - 1), stride)
    want = [np.take(seen, [i + dilation * t for t in range(taps)], axis=dim) for i in rows]
    return access.window(dim, taps, stride, dilation), np.stack(
        [np.moveaxis(w, dim, -1) for w in want], axis=dim
    )


def view(draw: Draw, access: Access, seen: Array) -> tuple[Access, Array]:
    """One random view operation on both."""
    kinds = ["permute", "slice", "pad", "expand", "reshape", "coalesce", "unsqueeze"]
    kind = draw(st.sampled_from([*kinds, "window"] if access.sizes else kinds))
    shape = access.sizes
    if kind == "slice":
        return cut(draw, access, seen)
    if kind == "pad":
        return padded(draw, access, seen)
    if kind == "window":
        return windowed(draw, access, seen)
    if kind == "permute":
        order = tuple(draw(st.permutations(range(len(shape)))))
        return access.permute(order), seen.transpose(order)
    if kind == "expand":
        leading = draw(st.lists(st.integers(1, 3), max_size=1))
        wider = (*leading, *(draw(st.integers(1, 3)) if n == 1 else n for n in shape))
        return access.expand(wider), np.broadcast_to(seen, wider)
    if kind == "reshape":
        wanted = factors(draw, seen.size)
        changed = access.reshape(wanted)
        return (access, seen) if changed is None else (changed, seen.reshape(wanted))
    if kind == "unsqueeze":
        return access.unsqueeze(), seen[..., None]
    merged = access.coalesce()
    return merged, seen.reshape(merged.sizes)


@given(st.data(), shapes(), st.sampled_from([1, 2, 3, 4, 8]))
@settings(max_examples=400)
def test_chains_of_views_equal_numpy(data: st.DataObject, shape: Shape, lanes: int) -> None:
    access, buffer, seen = start(shape, lanes)
    for _ in range(data.draw(st.integers(1, 5))):
        access, seen = view(data.draw, access, seen)
        if seen.size > 4000:
            break
    assert access.sizes == seen.shape
    assert np.array_equal(access.read(buffer), seen)
    assert np.array_equal(np.broadcast_to(access.inside(), access.sizes), seen >= 0)
    rows, columns = access.memory_indices()
    assert np.array_equal(buffer[rows, columns], seen[seen >= 0])


@given(shapes(), st.sampled_from([1, 2, 3, 4, 8]), st.data())
def test_writing_through_a_view_equals_numpy(shape: Shape, lanes: int, data: st.DataObject) -> None:
    access, buffer, tensor = start(shape, lanes)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    values = -1 - np.arange(tensor.size).reshape([shape[d] for d in order])
    have, want = buffer.copy(), tensor.copy()
    access.permute(order).write(have, values)
    want.transpose(order)[...] = values
    assert np.array_equal(have.reshape(shape), want)


@given(shapes(), st.data())
def test_reshape_of_a_dense_tensor_always_works(shape: Shape, data: st.DataObject) -> None:
    access, buffer, tensor = start(shape, 1)
    wanted = factors(data.draw, tensor.size)
    changed = access.reshape(wanted)
    assert changed is not None
    assert np.array_equal(changed.read(buffer), tensor.reshape(wanted))


@given(shapes(), st.sampled_from([2, 3, 4]), st.data())
def test_reshape_refuses_only_what_no_affine_map_gives(shape: Shape, lanes: int, data: st.DataObject) -> None:
    """Checked by brute force: an affine map is fixed by its values at the origin and at each unit index."""
    access, _, tensor = start(shape, lanes)
    wanted = factors(data.draw, tensor.size)
    rows, cols = (np.broadcast_to(i, access.sizes).reshape(wanted) for i in access.indices())
    affine = True
    for target in (rows, cols):
        origin = target[(0,) * len(wanted)]
        guess = np.full(wanted, origin)
        for d, size in enumerate(wanted):
            if size > 1:
                unit = target[tuple(int(e == d) for e in range(len(wanted)))]
                guess = guess + (unit - origin) * np.indices(wanted)[d]
        affine = affine and np.array_equal(guess, target)
    assert (access.reshape(wanted) is not None) == affine


def test_reshape_of_another_number_of_elements_is_refused() -> None:
    access, _, _ = start((4, 6), 4)
    with pytest.raises(ValueError, match=r"^cannot view \(4, 6\) as \(5, 5\)$"):
        access.reshape((5, 5))


def test_padding_is_not_written() -> None:
    access, buffer, _ = start((4, 6), 4)
    wider = access.pad((0, 1), (0, 0), 0)
    assert wider is not None
    with pytest.raises(ValueError, match="^an access with padding is not written$"):
        wider.write(buffer, np.zeros(wider.sizes, dtype=int))


def test_padding_of_two_values_is_no_view() -> None:
    access, _, _ = start((4, 6), 4)
    wider = access.pad((0, 1), (0, 0), 7)
    assert wider is not None
    assert wider.pad((1, 0), (0, 0), 8) is None
    same = wider.pad((0, 0), (0, 0), 8)
    assert same == wider
    assert access.pad((0, 0), (0, 0), 8) == access


def test_ragged_rows_do_not_merge() -> None:
    access, _, _ = start((3, 5), 4)
    assert access.reshape((15,)) is None
    assert access.coalesce().sizes == (3, 5)
    dense, _, _ = start((3, 8), 4)
    assert dense.coalesce().sizes == (24,)
    assert dense.coalesce().steps == ((0,), (1,))


@given(st.data(), shapes(), st.sampled_from([1, 3, 4]))
def test_joint_merging_keeps_the_order_of_elements(data: st.DataObject, shape: Shape, lanes: int) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    first, buffer, tensor = start(shape, lanes)
    other, _, _ = start([shape[d] for d in order], lanes)
    turned = first.permute(order)
    merged = coalesce([turned, other])
    assert np.array_equal(merged[0].read(buffer).ravel(), tensor.transpose(order).ravel())
    assert merged[0].sizes == merged[1].sizes
    assert 1 not in merged[0].sizes


@given(st.integers(1, 7), st.integers(1, 17), st.integers(1, 8))
def test_images_come_back(rows: int, cols: int, lanes: int) -> None:
    layout = Layout(rows, cols, lanes)
    array = np.arange(1, rows * cols + 1).reshape(rows, cols)
    image = layout.pack(array)
    assert image.shape == (layout.words, lanes)
    assert layout.words == rows * layout.row_words
    assert np.array_equal(layout.unpack(image), array)
    assert np.array_equal(layout.unpack(np.concatenate([image, image])), array)
    padding = layout.row_words * lanes - cols
    assert np.count_nonzero(image == 0) == rows * padding


def test_row_major_layouts() -> None:
    assert row_major((3, 8), 4) == Layout(1, 24, 4)
    assert row_major((3, 5), 4) == Layout(3, 5, 4)
    assert row_major((2, 3, 5), 4) == Layout(6, 5, 4)
    assert row_major((5, 1), 4) == Layout(1, 5, 4)
    assert row_major((), 4) == row_major((1,), 4) == Layout(1, 1, 4)
    assert Operand(fixed(12, 3), Layout(3, 5, 4), whole((3, 5), Layout(3, 5, 4))).width == 48


def test_impossible_layouts_are_refused() -> None:
    for sizes in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="sizes must be at least 1"):
            Layout(*sizes)
    with pytest.raises(ValueError) as caught:
        whole((5, 6), Layout(6, 5, 4))
    assert str(caught.value) == "tensor (5, 6) has no affine map onto Layout(rows=6, cols=5, lanes=4)"


def test_one_column_is_one_loop_dimension() -> None:
    access = whole((3, 5), Layout(3, 5, 4))
    assert access.column(0) == (1, 0)
    assert access.column(1) == (0, 1)
