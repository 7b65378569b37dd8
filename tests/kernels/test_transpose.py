"""Block transposition and the choice of a relayout: RTL equals the software model, which equals numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.group import check_all
from tests.kernels.support import Array, check, random_array, tensor
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.moves.gather import Gather
from torchcalyx.kernels.moves.relayout import GatherSource, relayout
from torchcalyx.kernels.moves.splice import Splice
from torchcalyx.kernels.moves.transpose import Transpose, transpose
from torchcalyx.kernels.ports.access import Access
from torchcalyx.simulate import Simulator

F16 = fixed(16, 8)
KEEP = narrowing(F16, F16)


def turned(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    lanes: int,
    fmt: NumberFormat = F16,
    out: NumberFormat = F16,
) -> Transpose:
    source = tensor(shape, fmt, lanes)
    target = tensor([shape[d] for d in order], out, lanes)
    return transpose(replace(source, access=source.access.permute(order)), narrowing(fmt, out), target)


def model(spec: KernelSpec, data: Array) -> Array:
    layout = spec.ports()[0].operand.layout
    return np.asarray(spec.emulate(data.reshape(layout.rows, layout.cols)).outputs[0]).ravel()


@pytest.mark.parametrize(("lanes", "simulator"), [(2, None), (3, "verilator"), (4, None), (8, None)])
def test_matrices_of_sizes_around_the_lanes(lanes: int, simulator: Simulator | None) -> None:
    specs = []
    sizes = [(2, lanes), (lanes - 1, lanes + 1), (lanes, lanes), (2 * lanes + 1, 3), (7, 5), (3, 11)]
    for rows, cols in sizes:
        if rows > 1:
            specs.append(turned((rows, cols), (1, 0), lanes))
            data = np.arange(rows * cols).reshape(rows, cols)
            assert np.array_equal(model(specs[-1], data), data.T.ravel())
    check_all(specs, simulator=simulator)


def test_batches_and_other_dimensions_between() -> None:
    specs = []
    for lanes in (3, 4):
        for shape, order in [
            ((2, 5, 6), (0, 2, 1)), ((2, 5, 6), (2, 0, 1)), ((2, 5, 6), (2, 1, 0)), ((3, 4, 8), (0, 2, 1)),
            ((2, 3, 4, 5), (0, 3, 1, 2)), ((2, 3, 4, 5), (3, 1, 0, 2)),
        ]:  # fmt: skip
            spec = turned(shape, order, lanes)
            data = np.arange(np.prod(shape)).reshape(shape)
            assert np.array_equal(model(spec, data), data.transpose(order).ravel())
            specs.append(spec)
    check_all(specs)


def test_cycles() -> None:
    assert turned((64, 64), (1, 0), 8).cycles() == 64 * 64 // 8 + 8 + 1
    assert turned((3, 40), (1, 0), 8).cycles() == 40 + 8 + 1
    assert turned((3, 5), (1, 0), 8).cycles() == 5 + 5 + 1
    assert turned((9, 8), (1, 0), 8, F16, fixed(8, 3)).cycles() == 2 * 8 + 8 + 1 + 1


def test_formats_are_narrowed() -> None:
    out = fixed(12, 4)
    specs = [
        turned((6, 7), (1, 0), 4, fmt, out)
        for fmt in (fixed(40, 20), fixed(8, 7, signed=False), integer(5), BOOL)
    ]
    array = random_array(np.random.default_rng(0), specs[0].source)
    result = specs[0].emulate(array)
    exact = np.array([round(int(v) / 2**16) for v in array.reshape(6, 7).T.ravel()])
    assert np.array_equal(result.outputs[0].ravel(), np.clip(exact, out.min, out.max))
    assert result.saturated == np.count_nonzero((exact < out.min) | (exact > out.max)) > 0
    check_all(specs)


def test_both_simulators_agree_over_repeated_calls() -> None:
    spec = turned((2, 5, 7), (0, 2, 1), 4)
    check(spec, simulator="icarus")
    check(spec, calls=2)


@st.composite
def permutations(draw: st.DrawFn) -> tuple[Gather | Splice | Transpose, Array, Array]:
    """The fastest relayout of a permuted slice: kernel, data, what numpy makes of it."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=2, max_size=4)))
    lanes = draw(st.sampled_from([1, 2, 3, 4, 8]))
    order = tuple(draw(st.permutations(range(len(shape)))))
    starts = tuple(draw(st.sampled_from([0, 0, 0, shape[d] // 2])) for d in order)
    sizes = tuple(
        draw(st.integers((shape[d] - s + 1) // 2, shape[d] - s)) for d, s in zip(order, starts, strict=True)
    )
    source = tensor(shape, F16, lanes)
    data = np.arange(np.prod(shape)).reshape(shape)
    want = data.transpose(order)[tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]
    access = source.access.permute(order).slice(starts, (1,) * len(order), sizes)
    part = GatherSource(replace(source, access=access), None, KEEP)
    return relayout([part], tensor(sizes, F16, lanes)), data, want


@given(permutations())
@settings(max_examples=200)
def test_random_relayouts_in_the_model(case: tuple[KernelSpec, Array, Array]) -> None:
    spec, data, want = case
    assert np.array_equal(model(spec, data), want.ravel())


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")  # long reports
@given(st.lists(permutations(), min_size=25, max_size=25))
@settings(max_examples=2, phases=[Phase.generate])
def test_random_relayouts_in_hardware(cases: list[tuple[KernelSpec, Array, Array]]) -> None:
    check_all([spec for spec, _, _ in cases])


def test_relayout_takes_the_fastest_kernel() -> None:
    def kernel(access: Access, shape: tuple[int, ...], lanes: int = 4) -> Gather | Splice | Transpose:
        source = tensor((8, 8), F16, lanes)
        part = GatherSource(replace(source, access=access), None, KEEP)
        return relayout([part], tensor(shape, F16, lanes))

    square = tensor((8, 8), F16, 4).access
    assert isinstance(kernel(square.slice((0, 1), (1, 1), (8, 6)), (8, 6)), Splice)
    assert isinstance(kernel(square.permute((1, 0)), (8, 8)), Transpose)
    assert isinstance(kernel(square.slice((0, 7), (1, -1), (8, 8)), (8, 8)), Gather)
    assert isinstance(kernel(square.slice((0, 1), (1, 1), (8, 6)), (6, 8)), Gather)  # another shape
    x = tensor((10,), F16, 4)
    ends = [
        GatherSource(replace(x, access=x.access.slice((7,), (1,), (3,))), (0,), KEEP, 0),
        GatherSource(replace(x, access=x.access.slice((0,), (1,), (7,))), (3,), KEEP, 0),
    ]
    assert isinstance(
        relayout(ends, tensor((10,), F16, 4)), Gather
    )  # one memory cannot be read twice a cycle


def test_parameter_errors_say_what_is_wrong() -> None:
    def error(source: Access, fmt: NumberFormat = F16, lanes: int = 4) -> str:
        with pytest.raises(KernelParameterError) as caught:
            transpose(replace(tensor((6, 8), F16, 4), access=source), KEEP, tensor((8, 6), fmt, lanes))
        return str(caught.value)

    x, where = tensor((6, 8), F16, 4).access, "transpose kernel over (8, 6): "
    right = x.permute((1, 0))
    assert error(x) == where + "the source loops over (6, 8)"
    assert error(right, fixed(8, 1)) == where + "its expression gives fixed16.8, the output holds fixed8.1"
    assert error(right, F16, 3) == where + "4 lanes, the output has 3"
    assert error(right.slice((7, 0), (-1, 1), (8, 6))) == (
        where + "source: neighbours of loop dimension 0 lie -1 columns and 0 rows apart along dimension 0"
    )
    with pytest.raises(KernelParameterError, match="source and output have their lanes on one dimension"):
        transpose(tensor((8,), F16, 4), KEEP, tensor((8,), F16, 4))
