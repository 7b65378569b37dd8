"""The dot kernel: RTL equals the software model, which equals plain integers; cycles as declared."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.gemm import (
    ACT,
    BIAS,
    WEIGHT,
    epilogue,
    linear,
    padded,
    with_stable_names,
)
from tests.kernels.group import check_all
from tests.kernels.support import check, inputs
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer, product
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.engine.dot import tree_stages
from torchcalyx.kernels.products.dot import Dot, dot

SHAPES: dict[
    tuple[int, int], list[tuple[tuple[int, ...], int, int]]
] = {  # lanes, columns -> (rows, inner, features)
    (1, 1): [((1,), 1, 1), ((3,), 5, 2)],
    (3, 3): [((1,), 1, 1), ((2,), 2, 4), ((2,), 3, 3), ((1,), 4, 2), ((2, 2), 7, 7)],
    (3, 1): [((1,), 1, 1), ((2,), 4, 2), ((2,), 3, 7), ((1,), 2, 3)],
    (5, 5): [((2,), 11, 13), ((1,), 5, 5)],
    (4, 2): [
        ((1,), 1, 1),
        ((2,), 3, 3),
        ((2,), 4, 4),
        ((1,), 5, 5),
        ((3,), 9, 6),
        ((2,), 2, 10),
        ((2, 3), 4, 9),
    ],
    (8, 2): [((2,), 7, 1), ((2,), 8, 3), ((3,), 9, 17), ((1,), 5, 13), ((2,), 16, 16)],
    (8, 8): [((1,), 7, 7), ((2,), 8, 8), ((1,), 9, 9), ((2, 2), 23, 19)],
}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_every_shape_equals_its_model_on_one_engine(shape: tuple[int, int]) -> None:
    specs = [linear(rows, inner, features, *shape) for rows, inner, features in SHAPES[shape]]
    check_all(specs, rounds=2, simulator="verilator")


@pytest.mark.parametrize("stages", [2, 3])
def test_more_multiplier_stages_cost_a_cycle_each(stages: int) -> None:
    spec = linear((2,), 13, 9, 4, 2, mul_stages=stages)
    assert spec.cycles() == linear((2,), 13, 9, 4, 2).cycles() + stages - 1
    check(spec, calls=2)


def test_both_simulators_agree() -> None:
    check_all([linear((2,), 7, 5, 4, 4), linear((1,), 9, 11, 4, 4)], simulator="icarus", rounds=2)
    check(linear((2,), 9, 13, 8, 2), simulator="icarus", calls=2)


@pytest.mark.parametrize(
    ("left", "weight", "out"),
    [
        (integer(8, signed=False), integer(8), integer(32)),
        (BOOL, BOOL, integer(8, signed=False)),
        (fixed(8, 7), fixed(16, 14), fixed(8, 5)),
        (fixed(32, 16), fixed(32, 28), fixed(32, 16)),
        (integer(5), integer(12, signed=False), integer(20)),
    ],
    ids=str,
)
def test_number_formats(left: NumberFormat, weight: NumberFormat, out: NumberFormat) -> None:
    check(linear((2,), 7, 6, 4, 2, left, weight, out))


def test_the_model_is_rational_arithmetic() -> None:
    out = fixed(12, 8)
    spec = linear((2, 3), 21, 10, 4, 2, out=out)
    x, packed, bias = inputs(spec, np.random.default_rng(1))
    weights = spec.unpack(packed)
    result = spec.emulate(x, packed, bias)
    saturated = 0
    for row in range(6):
        for n in range(10):
            total = sum(int(x[row, k]) * int(weights[n, k]) for k in range(21))
            shifted = total + (int(bias[0, n]) << (ACT.frac + WEIGHT.frac - BIAS.frac))
            quotient, rest = divmod(max(shifted, 0), 1 << 14)
            quotient += rest > 1 << 13 or (rest == 1 << 13 and quotient % 2)
            saturated += quotient > out.max
            assert result.outputs[0][row, n] == min(quotient, out.max)
    assert result.saturated == saturated > 0


def test_packed_weights_are_zero_at_ragged_edges_and_unpack_again() -> None:
    spec = linear((1,), 5, 7, 4, 2)
    weights = np.arange(1, 36).reshape(7, 5)
    packed = spec.pack(weights)
    assert packed.shape == (spec.right.layout.rows, spec.right.layout.cols) == (8, 8)
    assert np.array_equal(spec.unpack(packed), weights)
    assert np.count_nonzero(packed) == weights.size
    assert packed[0].tolist() == [1, 2, 3, 4, 6, 7, 8, 9], "columns 0 and 1 at k = 0..3"


def test_an_identity_epilogue_writes_the_sum_itself() -> None:
    out = integer(40)
    total = Dot.accumulator(integer(8), integer(8), 6)
    left, target = padded((3, 6), integer(8), 4), padded((3, 5), out, 4, exact=True)
    spec = Dot(left, integer(8), 5, 4, epilogue(total, out, 0), (), target)
    check(spec, calls=2)
    x, packed = inputs(spec, np.random.default_rng(0))
    assert np.array_equal(spec.emulate(x, packed).outputs[0], x[:, :6] @ spec.unpack(packed).T)


def test_a_batch_runs_as_one_loop_over_rows() -> None:
    apart = linear((2, 3), 8, 8, 4, 4)
    joined = dot(apart.left, WEIGHT, 8, 4, apart.epilogue, apart.extras, apart.out)
    assert joined.sizes == (6, 2, 2) and joined.cycles() == apart.cycles()
    check(joined)


def test_linear_256_at_batch_1_is_within_6_percent_of_the_bound() -> None:
    spec = linear((1,), 256, 256, 8, 8)
    assert spec.cycles() <= 1.06 * 1024
    assert spec.cycles() == 1024 + 5, "read, multiply, two adder stages, epilogue"
    check(spec, vectors=1)


@pytest.mark.parametrize(
    ("sizes", "lanes", "limit"),
    [((64, 48, 4), 8, 90), ((64, 48, 4), 4, 250), ((16, 64, 32, 32, 5), 8, 130)],
    ids=["ffnn64", "ffnn16", "jet64"],
)
def test_small_networks_at_batch_1(sizes: tuple[int, ...], lanes: int, limit: int) -> None:
    layers = [linear((1,), a, b, lanes, lanes) for a, b in itertools.pairwise(sizes)]
    assert check_all(layers, rounds=1, simulator="verilator").cycles <= limit


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 8, 16, 17])
def test_cycles_are_steps_read_multiply_tree_and_epilogue(depth: int) -> None:
    spec = linear((2,), 3 * depth, 2 * depth, depth, depth)
    assert spec.cycles() == product(spec.sizes) + 1 + 1 + tree_stages(depth) + 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"columns": 3}, "3 columns do not divide the 4 lanes of a word"),
        ({"columns": 0}, "0 columns do not divide"),
        ({"features": 5}, r"\(2, 8\) times 5 features does not give \(2, 6\)"),
        ({"left": padded((8,), ACT, 4)}, r"needs dimensions \(..., m, k\)"),
        ({"left": padded((2, 8), ACT, 2)}, "left operand and output have 2 and 4 lanes"),
        ({"left": replace(padded((8, 2), ACT, 4), access=padded((8, 2), ACT, 4).access.permute((1, 0)))},
         "left operand: neighbours of loop dimension 1 lie 0 columns and 1 rows apart"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(change: dict[str, object], reason: str) -> None:
    good = linear((2,), 8, 6, 4, 2)
    with pytest.raises(KernelParameterError, match=reason):
        replace(good, **change)  # type: ignore[arg-type]


def test_the_smallest_program(golden: Callable[[str], None]) -> None:
    tiny = fixed(4, 2)
    out = padded((1, 1), tiny, 1, exact=True)
    expr = epilogue(Dot.accumulator(tiny, tiny, 2), tiny, 0)
    golden(with_stable_names(bench(Dot(padded((1, 2), tiny, 1), tiny, 1, 1, expr, (), out)).futil))
