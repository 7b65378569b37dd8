"""Relayout kernels: RTL equals the software model, which equals numpy's own indexing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, random_array, tensor
from torchcalyx.kernels.arith.expr import ExprBuilder, narrowing
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer, product
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.moves.gather import Gather, GatherSource, gather, refusal
from torchcalyx.kernels.ports.access import Access, Layout, Operand, whole

F16 = fixed(16, 8)
LANES = [1, 3, 4, 8]


def moved(
    shape: Sequence[int],
    view: Callable[[Access], Access],
    out_shape: Sequence[int],
    lanes: int,
    fmt: NumberFormat = F16,
    out_fmt: NumberFormat | None = None,
) -> Gather:
    """A relayout of one tensor through a view."""
    source = tensor(shape, fmt, lanes)
    result = out_fmt or fmt
    part = GatherSource(
        replace(source, access=view(source.access)), (0,) * len(out_shape), narrowing(fmt, result)
    )
    return gather([part], tensor(out_shape, result, lanes))


def joined(
    shapes: Sequence[tuple[int, ...]],
    starts: Sequence[tuple[int, ...]],
    out_shape: tuple[int, ...],
    lanes: int,
    fill: int = 0,
    fmt: NumberFormat = F16,
) -> Gather:
    """Tensors placed at `starts` of the output."""
    sources = [
        GatherSource(tensor(s, fmt, lanes), at, narrowing(fmt, fmt))
        for s, at in zip(shapes, starts, strict=True)
    ]
    return gather(sources, tensor(out_shape, fmt, lanes), fill)


def model(spec: KernelSpec, *tensors: Array) -> Array:
    """The software model on tensors: packed into rows, result as a flat array."""
    reads = [p.operand.layout for p in spec.ports() if p.access == "read"]
    arrays = [t.reshape(layout.rows, layout.cols) for t, layout in zip(tensors, reads, strict=True)]
    return np.asarray(spec.emulate(*arrays).outputs[0]).ravel()


def test_transpose() -> None:
    specs = []
    for lanes in LANES:
        for shape in [(1, 1), (1, 7), (5, 1), (7, 5), (3, 8), (8, 9), (4, 4)]:
            spec = moved(shape, lambda a: a.permute((1, 0)), shape[::-1], lanes)
            data = np.arange(shape[0] * shape[1]).reshape(shape)
            assert np.array_equal(model(spec, data), data.T.ravel())
            assert spec.cycles() == data.size + 1
            specs.append(spec)
    check_all(specs)


def test_permute_slice_flip_and_step_at_once() -> None:
    def view(access: Access) -> Access:
        return access.permute((2, 0, 1)).slice((10, 0, 1), (-3, 1, 2), (4, 3, 2))

    data = np.arange(165).reshape(3, 5, 11)
    specs = [moved((3, 5, 11), view, (4, 3, 2), lanes) for lanes in LANES]
    for spec in specs:
        assert np.array_equal(model(spec, data), data.transpose(2, 0, 1)[10:0:-3, :, 1:5:2].ravel())
    check_all(specs)


def test_reshape_needs_no_common_shape() -> None:
    shapes = [((6, 5), (30,)), ((30,), (6, 5)), ((6, 5), (5, 6)), ((4, 9), (2, 2, 9)), ((2, 3), (3, 2))]
    specs = []
    for lanes in LANES:
        for shape, out_shape in shapes:
            source = GatherSource(tensor(shape, F16, lanes), None, narrowing(F16, F16))
            specs.append(gather([source], tensor(out_shape, F16, lanes)))
            data = np.arange(np.prod(shape)).reshape(shape)
            assert np.array_equal(model(specs[-1], data), data.ravel())
    check_all(specs)


def cat(axis: int, lanes: int) -> tuple[Gather, list[tuple[int, ...]]]:
    """Three tensors joined along one axis, and their shapes."""
    shapes, starts, at = [], [], 0
    for n in (1, 4, 3):
        shape, start = [2, 3, 5], [0, 0, 0]
        shape[axis], start[axis] = n, at
        at += n
        shapes.append(tuple(shape))
        starts.append(tuple(start))
    return joined(
        shapes, starts, tuple(at if d == axis else n for d, n in enumerate((2, 3, 5))), lanes
    ), shapes


def test_cat_on_every_axis() -> None:
    specs = []
    rng = np.random.default_rng(0)
    for lanes in LANES:
        for axis in range(3):
            spec, shapes = cat(axis, lanes)
            parts = [rng.integers(-99, 99, s) for s in shapes]
            assert np.array_equal(model(spec, *parts), np.concatenate(parts, axis).ravel())
            assert spec.cycles() == product(spec.sizes) + 1
            specs.append(spec)
    check_all(specs)


def test_constant_pad() -> None:
    specs = []
    for lanes in LANES:
        spec = joined([(3, 5)], [(2, 1)], (6, 9), lanes, fill=-77)
        data = np.arange(15).reshape(3, 5)
        assert np.array_equal(model(spec, data), np.pad(data, ((2, 1), (1, 3)), constant_values=-77).ravel())
        specs.append(spec)
    check_all(specs)


def test_padded_sources() -> None:
    """Padding inside the sources' own views: each its value, none read outside the memory."""
    specs = []
    for lanes in LANES:
        x, y = tensor((3, 5), F16, lanes), tensor((4, 4), F16, lanes)
        left = x.access.pad((1, 2), (0, 1), -7)
        right = y.access.permute((1, 0)).pad((0, 1), (0, 0), 9)
        below = x.access.slice((0, 1), (1, 1), (2, 4)).pad((0, 2), (1, 7), 3)
        assert left is not None and right is not None and below is not None
        parts = [
            GatherSource(replace(x, access=left), (0, 0), narrowing(F16, F16), 0),
            GatherSource(replace(y, access=right), (0, 8), narrowing(F16, F16), 1),
            GatherSource(replace(x, access=below), (4, 0), narrowing(F16, F16), 0),
        ]
        spec = gather(parts, tensor((7, 13), F16, lanes))
        a, b = np.arange(15).reshape(3, 5), np.arange(16).reshape(4, 4)
        upper = [
            np.pad(a, ((1, 0), (2, 1)), constant_values=-7),
            np.pad(b.T, ((0, 0), (1, 0)), constant_values=9),
        ]
        lower = np.pad(a[:2, 1:], ((0, 1), (2, 7)), constant_values=3)
        assert np.array_equal(model(spec, a, b), np.block([upper, [lower]]).ravel())
        specs.append(spec)
    check_all(specs)


def rolled(lanes: int) -> Gather:
    """roll(x, 3) of 10 elements: two parts of one memory."""
    x = tensor((10,), F16, lanes)
    keep = narrowing(F16, F16)
    parts = [
        GatherSource(replace(x, access=x.access.slice((0,), (1,), (7,))), (3,), keep, 5),
        GatherSource(replace(x, access=x.access.slice((7,), (1,), (3,))), (0,), keep, 5),
    ]
    return gather(parts, tensor((10,), F16, lanes))


def test_parts_of_one_memory_share_a_port() -> None:
    data = np.arange(10)
    specs = [rolled(lanes) for lanes in LANES]
    for spec in specs:
        assert [p.name for p in spec.ports()] == ["x0", "y"]
        assert np.array_equal(model(spec, data), np.roll(data, 3))
    check_all(specs)


def test_formats_are_narrowed_to_one() -> None:
    """Operands of four formats, unsigned and wide among them, joined and padded; saturations are counted."""
    out = fixed(12, 4)
    formats = [fixed(40, 20), fixed(8, 7, signed=False), integer(5), BOOL]
    specs = []
    for lanes in (3, 4):
        parts = [
            GatherSource(tensor((2, 3), f, lanes), (0, 1 + 3 * i), narrowing(f, out))
            for i, f in enumerate(formats)
        ]
        specs.append(gather(parts, tensor((3, 14), out, lanes), fill=-3))
    check_all(specs)
    spec = specs[0]
    assert spec.cycles() == 42 + 2
    rng = np.random.default_rng(1)
    arrays = [random_array(rng, s.operand) for s in spec.sources]
    result = spec.emulate(*arrays)
    want = np.full((3, 14), -3)
    saturated = 0
    for i, (fmt, array) in enumerate(zip(formats, arrays, strict=True)):
        scaled = np.array([round(int(v) * Fraction(2) ** (out.frac - fmt.frac)) for v in array.ravel()])
        want[:2, 1 + 3 * i : 4 + 3 * i] = np.clip(scaled, out.min, out.max).reshape(2, 3)
        saturated += int(np.count_nonzero((scaled < out.min) | (scaled > out.max)))
    assert np.array_equal(result.outputs[0].reshape(3, 14), want)
    assert result.saturated == saturated > 0


def test_every_width_moves() -> None:
    formats = [BOOL, integer(33), integer(9, signed=False), fixed(64, 40)]
    check_all([moved((5, 3), lambda a: a.permute((1, 0)), (3, 5), 4, fmt) for fmt in formats])


def test_both_simulators_agree() -> None:
    check(rolled(4), simulator="icarus")
    check(joined([(3, 5)], [(2, 1)], (6, 9), 4, fill=-77), simulator="icarus")


def test_calls_repeat_without_reset() -> None:
    check(joined([(2, 5), (1, 5)], [(1, 1), (3, 2)], (5, 7), 3, fill=1), calls=3)


def test_output_words_may_be_written_in_another_order() -> None:
    out, source = tensor((4, 8), F16, 4), tensor((8, 4), F16, 4)
    upside_down = replace(out, access=out.access.slice((3, 0), (-1, 1), (4, 8)))
    turned = replace(source, access=source.access.permute((1, 0)))
    spec = gather([GatherSource(turned, None, narrowing(F16, F16))], upside_down)
    data = np.arange(32).reshape(8, 4)
    assert np.array_equal(model(spec, data), data.T[::-1].ravel())
    check(spec)


def test_rows_of_one_element_each() -> None:
    layout = Layout(5, 1, 4)
    out = Operand(F16, layout, whole((5, 1), layout))
    check(gather([GatherSource(tensor((5,), F16, 4), (0,), narrowing(F16, F16))], out, sizes=(5,)))


def test_equal_relayouts_are_equal_specs() -> None:
    keep = narrowing(F16, F16)
    four = tensor((2, 3, 4, 1), F16, 4)
    two = tensor((6, 4), F16, 4)
    a = gather([GatherSource(four, (0, 0, 0, 0), keep)], tensor((2, 3, 4), F16, 4), 3, (2, 3, 4, 1))
    b = gather([GatherSource(two, (0, 0), keep, 0)], tensor((24,), F16, 4), 0, (6, 4))
    assert a == b
    assert a.sizes == (24,)


def extent(draw: st.DrawFn, size: int) -> tuple[int, int, int]:
    """start, stride and count of a slice of one dimension."""
    stride = draw(st.sampled_from([-2, -1, 1, 2, 3]))
    start = draw(st.integers(0, size - 1))
    room = (size - 1 - start) // stride if stride > 0 else start // -stride
    return start, stride, draw(st.integers(1, room + 1))


@st.composite
def relayouts(draw: st.DrawFn) -> tuple[Gather, Array, Array]:
    """A view of a tensor put somewhere into a padded output: kernel, data, what numpy makes of it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    lanes = draw(st.sampled_from([1, 2, 3, 4, 8]))
    order = tuple(draw(st.permutations(range(len(shape)))))
    source = tensor(shape, F16, lanes)
    data = np.arange(1, np.prod(shape) + 1).reshape(shape)
    parts = [extent(draw, shape[d]) for d in order]
    starts, strides, sizes = (tuple(p[i] for p in parts) for i in range(3))
    access = source.access.permute(order).slice(starts, strides, sizes)
    picks = [np.array([a + i * k for i in range(n)]) for a, k, n in parts]
    want = data.transpose(order)[np.ix_(*picks)]
    before = tuple(draw(st.integers(0, 2)) for _ in sizes)
    after = tuple(draw(st.integers(0, 2)) for _ in sizes)
    want = np.pad(want, tuple(zip(before, after, strict=True)), constant_values=-5)
    part = GatherSource(replace(source, access=access), before, narrowing(F16, F16))
    return gather([part], tensor(want.shape, F16, lanes), -5), data, want


@given(relayouts())
@settings(max_examples=150)
def test_random_relayouts_in_the_model(case: tuple[Gather, Array, Array]) -> None:
    spec, data, want = case
    assert np.array_equal(model(spec, data), want.ravel())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(relayouts(), min_size=20, max_size=20))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_relayouts_in_hardware(cases: list[tuple[Gather, Array, Array]]) -> None:
    check_all([spec for spec, _, _ in cases])


def error(shapes: Sequence[tuple[int, ...]], starts: Sequence[tuple[int, ...]], fill: int = 0) -> str:
    with pytest.raises(KernelParameterError) as caught:
        joined(shapes, starts, (4, 6), 4, fill)
    return str(caught.value)


def test_parameter_errors_say_what_is_wrong() -> None:
    prefix = "gather kernel over (4, 6): "
    assert error([(2, 6), (3, 6)], [(0, 0), (1, 0)]) == prefix + "the regions of sources 0 and 1 overlap"
    assert (
        error([(2, 5)], [(0, 2)]) == prefix + "source 0: region of (2, 5) at (0, 2) leaves the domain (4, 6)"
    )
    assert (
        error([(2, 6)], [(0, -1)])
        == prefix + "source 0: region of (2, 6) at (0, -1) leaves the domain (4, 6)"
    )
    assert error([(6,)], [(0,)]) == prefix + "source 0: 1 dimensions and 1 starts for 2 domain dimensions"
    assert (
        error([(4, 6)], [(0, 0)], 40000) == prefix + "fill value 40000 is not a stored integer of fixed16.8"
    )
    assert error([], []) == prefix + "it needs at least one dimension and one source"


def test_wrong_expressions_formats_and_lanes_are_refused() -> None:
    out = tensor((6,), F16, 4)
    b = ExprBuilder()
    x = b.input(F16)
    square = b.build(b.mul(x, x), F16)
    six, narrow = tensor((6,), F16, 4), narrowing(F16, fixed(9, 1))
    cases = [
        (GatherSource(six, (0,), square), "its expression must have one operand"),
        (GatherSource(six, (0,), narrow), "its expression gives fixed9.1, the output holds fixed16.8"),
        (GatherSource(tensor((6,), F16, 3), (0,), narrowing(F16, F16)), "3 lanes, the output has 4"),
    ]
    for source, message in cases:
        assert message in str(refusal([source], out))
        with pytest.raises(KernelParameterError, match=message):
            gather([source], out)
    keep = narrowing(F16, F16)
    shared = [
        GatherSource(tensor((3,), F16, 4), (0,), keep, 0),
        GatherSource(tensor((3,), F16, 4), (3,), keep, 0),
    ]
    assert refusal(shared, out) is None
    other = [shared[0], GatherSource(tensor((3,), fixed(8, 8), 4), (3,), narrowing(fixed(8, 8), F16), 0)]
    assert refusal(other, out) == "sources 0 and 1 see port 0 in different formats or layouts"
    with pytest.raises(KernelParameterError, match=r"5 elements for an output of 6"):
        gather([GatherSource(tensor((5,), F16, 4), (0,), keep)], out, sizes=(5,))


def test_a_partial_word_is_never_written() -> None:
    target = tensor((8,), F16, 4)
    part = replace(target, access=target.access.slice((0,), (1,), (6,)))
    with pytest.raises(KernelParameterError, match="output: rows of 6 elements end inside words of 4 lanes"):
        gather([GatherSource(tensor((6,), F16, 4), (0,), narrowing(F16, F16))], part)
