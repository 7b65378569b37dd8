"""Joins of contiguous rows, a word a cycle: RTL equals the software model, which equals numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, random_array, tensor
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import BOOL, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.moves.gather import gather
from torchcalyx.kernels.moves.splice import GatherSource, Splice, splice
from torchcalyx.kernels.ports.access import Access

F16 = fixed(16, 8)
LANES = [1, 3, 4, 8]
KEEP = narrowing(F16, F16)


def joined(
    shapes: Sequence[tuple[int, ...]],
    starts: Sequence[tuple[int, ...]],
    out: tuple[int, ...],
    lanes: int,
    fill: int = 0,
) -> Splice:
    """Tensors placed at `starts` of the output."""
    parts = [GatherSource(tensor(s, F16, lanes), at, KEEP) for s, at in zip(shapes, starts, strict=True)]
    return splice(parts, tensor(out, F16, lanes), fill)


def sliced(shape: tuple[int, ...], starts: tuple[int, ...], sizes: tuple[int, ...], lanes: int) -> Splice:
    source = tensor(shape, F16, lanes)
    part = replace(source, access=source.access.slice(starts, (1,) * len(shape), sizes))
    return splice([GatherSource(part, None, KEEP)], tensor(sizes, F16, lanes))


def model(spec: KernelSpec, *tensors: Array) -> Array:
    reads = [p.operand.layout for p in spec.ports() if p.access == "read"]
    arrays = [t.reshape(layout.rows, layout.cols) for t, layout in zip(tensors, reads, strict=True)]
    return np.asarray(spec.emulate(*arrays).outputs[0]).ravel()


def test_slices_that_begin_and_end_anywhere() -> None:
    data = np.arange(3 * 20).reshape(3, 20)
    specs = []
    for lanes in LANES:
        for start, size in [(0, 20), (3, 8), (3, 5), (7, 13), (5, 4), (8, 8), (18, 2), (2, 17)]:
            spec = sliced((3, 20), (0, start), (3, size), lanes)
            assert np.array_equal(model(spec, data), data[:, start : start + size].ravel())
            specs.append(spec)
    check_all(specs)


def test_cycles_are_words_where_gather_takes_elements() -> None:
    assert sliced((4, 32), (0, 3), (4, 16), 8).cycles() == 4 * 3 + 2
    assert (
        sliced((4, 32), (0, 3), (4, 13), 8).cycles() == 4 * 2 + 2
    )  # 13 elements from lane 3 lie in two words
    assert sliced((4, 32), (1, 8), (2, 16), 8).cycles() == 2 * 2 + 1
    assert joined([(4, 8), (2, 8)], [(0, 0), (4, 0)], (6, 8), 8).cycles() == 6 + 1
    assert joined([(4, 5), (4, 6)], [(0, 0), (0, 5)], (4, 11), 4).cycles() == 4 * 3 + 2
    assert joined([(4, 3), (4, 8)], [(0, 0), (0, 3)], (4, 11), 4).cycles() == 4 * 3 + 2
    assert joined([(4, 9)], [(0, 1)], (4, 11), 4, fill=1).cycles() == 4 * 3 + 2


def test_cat_on_every_axis() -> None:
    rng = np.random.default_rng(0)
    specs = []
    for lanes in LANES:
        for axis in range(3):
            for lengths in ((1, 4, 3), (8, 8), (5, 11, 2)):
                shapes, starts, at = [], [], 0
                for n in lengths:
                    shape, start = [2, 3, 5], [0, 0, 0]
                    shape[axis], start[axis] = n, at
                    at += n
                    shapes.append(tuple(shape))
                    starts.append(tuple(start))
                out = tuple(at if d == axis else n for d, n in enumerate((2, 3, 5)))
                spec = joined(shapes, starts, out, lanes)
                parts = [rng.integers(-99, 99, s) for s in shapes]
                assert np.array_equal(model(spec, *parts), np.concatenate(parts, axis).ravel())
                specs.append(spec)
    check_all(specs[::2])


def test_constant_pad() -> None:
    data = np.arange(15).reshape(3, 5)
    specs = []
    for lanes in LANES:
        for before, after in [((2, 1), (1, 3)), ((0, 0), (1, 9)), ((1, 8), (0, 0)), ((0, 4), (0, 3))]:
            sizes = (3 + before[0] + after[0], 5 + before[1] + after[1])
            spec = joined([(3, 5)], [before], sizes, lanes, fill=-77)
            want = np.pad(data, list(zip(before, after, strict=True)), constant_values=-77)
            assert np.array_equal(model(spec, data), want.ravel())
            specs.append(spec)
    check_all(specs)


def test_rows_may_run_backwards_and_be_repeated() -> None:
    source = tensor((4, 7), F16, 4)
    back = source.access.slice((3, 1), (-2, 1), (2, 6)).permute((0, 1))
    repeated = Access((3, 2, 6), back.offsets, tuple((0, *s) for s in back.steps))
    spec = splice([GatherSource(replace(source, access=repeated), None, KEEP)], tensor((3, 2, 6), F16, 4))
    data = np.arange(28).reshape(4, 7)
    assert np.array_equal(model(spec, data), np.broadcast_to(data[3:0:-2, 1:], (3, 2, 6)).ravel())
    check(spec)


def test_formats_are_narrowed_to_one() -> None:
    out = fixed(12, 4)
    formats = [fixed(40, 20), fixed(8, 7, signed=False), integer(5), BOOL]
    specs = []
    for lanes in (3, 4):
        parts = [
            GatherSource(tensor((2, 3), f, lanes), (0, 1 + 3 * i), narrowing(f, out))
            for i, f in enumerate(formats)
        ]
        specs.append(splice(parts, tensor((3, 14), out, lanes), fill=-3))
        same = gather(parts, tensor((3, 14), out, lanes), fill=-3)
        arrays = [random_array(np.random.default_rng(1), p.operand) for p in parts]
        have, want = specs[-1].emulate(*arrays), same.emulate(*arrays)
        assert np.array_equal(have.outputs[0], want.outputs[0])
        assert have.saturated == want.saturated > 0
    check_all(specs)


def test_both_simulators_agree_over_repeated_calls() -> None:
    spec = joined([(3, 5), (3, 2)], [(1, 1), (0, 6)], (5, 9), 4, fill=-77)
    check(spec, simulator="icarus")
    check(spec, calls=2)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[Splice, list[Array], Array]:
    """Slices of two tensors side by side, with padding around: kernel, data, numpy's result."""
    rank, lanes = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 4, 8]))
    axis = draw(st.integers(0, rank - 1))
    common = [draw(st.integers(1, 6)) for _ in range(rank)]
    parts, arrays, cuts, at = [], [], [], [draw(st.integers(0, 3)) for _ in range(rank)]
    before = list(at)
    for _ in range(2):
        sizes = list(common)
        sizes[axis] = draw(st.integers(1, 9))
        starts = tuple(draw(st.integers(0, 5)) for _ in range(rank))
        shape = tuple(s + n + draw(st.integers(0, 3)) for s, n in zip(starts, sizes, strict=True))
        source = tensor(shape, F16, lanes)
        data = np.arange(1, np.prod(shape) + 1).reshape(shape)
        access = source.access.slice(starts, (1,) * rank, tuple(sizes))
        parts.append(GatherSource(replace(source, access=access), tuple(at), KEEP))
        arrays.append(data)
        cuts.append(data[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))])
        at[axis] += sizes[axis]
    want = np.concatenate(cuts, axis)
    after = [draw(st.integers(0, 3)) for _ in range(rank)]
    want = np.pad(want, list(zip(before, after, strict=True)), constant_values=-5)
    try:
        spec = splice(parts, tensor(want.shape, F16, lanes), -5)
    except KernelParameterError as problem:  # a column of rows, once its dimension of size 1 is merged away
        assert "is not contiguous" in str(problem)
        reject()
    return spec, arrays, want


@given(pieces())
@settings(max_examples=100)
def test_random_joins_in_the_model(case: tuple[Splice, list[Array], Array]) -> None:
    spec, arrays, want = case
    assert np.array_equal(model(spec, *arrays), want.ravel())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(pieces(), min_size=20, max_size=20))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_joins_in_hardware(cases: list[tuple[Splice, list[Array], Array]]) -> None:
    check_all([spec for spec, _, _ in cases])


def test_parameter_errors_say_what_is_wrong() -> None:
    def error(part: GatherSource, *more: GatherSource) -> str:
        with pytest.raises(KernelParameterError) as caught:
            splice([part, *more], tensor((4, 6), F16, 4))
        return str(caught.value)

    x, where = tensor((4, 6), F16, 4), "splice kernel over (4, 6): "
    turned = replace(tensor((6, 4), F16, 4), access=tensor((6, 4), F16, 4).access.permute((1, 0)))
    padded = x.access.slice((0, 0), (1, 1), (4, 5)).pad((0, 1), (0, 0), 0)
    assert padded is not None
    assert (
        error(GatherSource(turned, None, KEEP)) == where + "the last dimension of source 0 is not contiguous"
    )
    assert error(GatherSource(replace(x, access=padded), None, KEEP)) == where + "source 0 is padded"
    halves = [GatherSource(tensor((2, 6), F16, 4), (2 * i, 0), KEEP, 0) for i in range(2)]
    assert error(*halves) == where + "sources share memories: ports [0, 0]"
    assert error(GatherSource(x, (1, 0), KEEP)) == (
        where + "source 0: region of (4, 6) at (1, 0) leaves the domain (4, 6)"
    )
