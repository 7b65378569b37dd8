"""The window kernel: RTL equals the software model, which equals torch's convolution; cycles as declared."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from tests.kernels.convolution import Conv, dot_of, left_of, stored, window
from tests.kernels.gemm import ACT, epilogue, linear, padded
from tests.kernels.group import check_all
from tests.kernels.support import Array, check
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed, integer, product
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.ports.access import Access, Layout, Operand
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.kernels.products.window import WindowDot
from torchcalyx.simulate import Simulator

SAME = ((1, 1), (1, 1))
CONVS: dict[
    tuple[int, int], list[tuple[str, Conv]]
] = {  # lanes, columns -> (order of the input, convolution)
    (1, 1): [
        ("pixels", Conv(1, 1, (3, 4), 2, (2, 2))),
        ("planes", Conv(2, 2, (5,), 1, (3,), 2, ((2, 1),))),
        ("pixels", Conv(1, 3, (4,), 2, (2,))),
    ],
    (3, 3): [
        ("pixels", Conv(1, 3, (4, 5), 4, (3, 3), 1, SAME)),
        ("planes", Conv(1, 2, (3, 8), 2, (2, 3), 2, SAME, 1, 7)),
        ("pixels", Conv(1, 2, (9,), 2, (3,), 1, (), 2)),
    ],
    (4, 2): [
        ("pixels", Conv(1, 1, (5, 6), 5, (3, 3), 1, SAME)),
        ("planes", Conv(1, 1, (5, 6), 5, (3, 3), 1, SAME)),
        ("pixels", Conv(1, 3, (6, 7), 4, (3, 3), 2)),
        ("planes", Conv(2, 3, (5, 7), 3, (3, 2), (1, 2))),
        ("pixels", Conv(1, 4, (3, 4), 9, (2, 2))),
        ("planes", Conv(1, 1, (3, 3, 5), 3, (2, 2, 2), 1, ((1, 0), (0, 1), (1, 1)))),
        ("pixels", Conv(1, 2, (3, 3, 4), 2, (3, 2, 2), 1, ((1, 1), (0, 0), (2, 0)))),
    ],
    (8, 8): [
        ("planes", Conv(1, 1, (20,), 3, (7,), 3, ((3, 3),))),
        ("pixels", Conv(1, 2, (13,), 3, (3,), 1, ((4, 2),), 2, -9)),
        ("planes", Conv(2, 3, (6, 17), 9, (3, 3), 2, SAME)),
        ("planes", Conv(1, 1, (4, 9), 3, (2, 3), 1, ((0, 0), (9, 0)))),
    ],
    (16, 2): [
        ("planes", Conv(1, 3, (5, 18), 4, (3, 3), 1, SAME, (1, 3))),
        ("pixels", Conv(1, 4, (5, 5), 3, (3, 3), 1, ((2, 2), (2, 2)), 2)),
    ],
}


@pytest.mark.parametrize("shape", CONVS, ids=lambda s: f"{s[0]}x{s[1]}")
def test_every_convolution_equals_its_model_on_one_engine(shape: tuple[int, int]) -> None:
    check_all([window(conv, *shape, order) for order, conv in CONVS[shape]])


@pytest.mark.parametrize("order", ["pixels", "planes"])
def test_strides_below_at_and_beyond_the_kernel(order: str) -> None:
    pairs = itertools.product((1, 2, 3), (1, 2, 3, 5))
    convs = [Conv(1, 1, (2, 13), 2, (1, taps), (1, stride)) for taps, stride in pairs]
    check_all([window(conv, 4, 4, order) for conv in convs])


@pytest.mark.parametrize("order", ["pixels", "planes"])
def test_paddings_start_rows_at_every_place_of_a_word(order: str) -> None:
    pads = [(0, 0), (1, 0), (2, 3), (3, 1), (4, 0), (5, 6)]
    check_all([window(Conv(2, 1, (2, 6), 2, (2, 3), 1, ((1, 0), p)), 4, 2, order) for p in pads])


def test_dilation_against_every_stride() -> None:
    convs = [
        Conv(1, 2, (12,), 2, (3,), stride, ((2, 2),), gap)
        for stride, gap in itertools.product((1, 2, 3), (1, 2, 3))
    ]
    check_all([window(conv, 4, 4, order) for conv in convs for order in ("pixels", "planes")])


def test_every_channel_count_and_lane_count() -> None:
    for lanes in (1, 3, 4, 8, 16):
        convs = [Conv(1, channels, (4, 5), 2, (2, 3)) for channels in (1, 2, 3, 4) if channels <= lanes]
        check_all([window(conv, lanes, 1, order) for conv in convs for order in ("pixels", "planes")])


def test_rows_too_short_to_read_ahead_wait() -> None:
    short = window(Conv(1, 1, (6, 5), 1, (3, 4)), 4, 1, "pixels")
    assert short.window.stall(short.beats) > 0 and short.period == short.beats == 3
    bound = window(Conv(1, 1, (6, 9), 1, (5, 2)), 4, 1, "pixels")
    assert bound.period == 5 > bound.beats == 3, "five lines each bring a word"
    check_all([short, bound], vectors=3)


@pytest.mark.parametrize(
    "simulator", [pytest.param("icarus", marks=pytest.mark.needs("icarus")), "verilator"]
)
def test_calls_repeat_without_a_reset_in_both_simulators(simulator: Simulator) -> None:
    check(window(Conv(1, 3, (5, 9), 5, (3, 3), 1, SAME), 4, 2, "planes"), simulator=simulator, calls=2)


def test_one_engine_serves_windows_matrices_and_vectors() -> None:
    b = ExprBuilder()
    squared = b.input(ACT)
    wide = padded((9,), ACT, 4)
    square = elementwise(b.build(b.mul(squared, squared), ACT), [wide], padded((9,), ACT, 4, exact=True))
    conv = window(Conv(1, 3, (4, 5), 5, (3, 3)), 4, 4)
    check_all([conv, linear((2,), 9, 6, 4, 4), square, dot_of(conv)])


@pytest.mark.parametrize(
    ("left", "weight", "out"),
    [
        (integer(8, signed=False), integer(8), integer(32)),
        (fixed(8, 7), fixed(16, 14), fixed(8, 5)),
        (fixed(32, 16), fixed(32, 28), fixed(32, 16)),
        (integer(5), integer(12, signed=False), integer(20)),
    ],
    ids=str,
)
def test_number_formats(left: NumberFormat, weight: NumberFormat, out: NumberFormat) -> None:
    pads, fill = SAME, left.max
    conv = Conv(1, 2, (4, 6), 3, (3, 3), 1, pads, 1, fill)
    check_all([window(conv, 4, 2, order, left, weight, out) for order in ("pixels", "planes")])


@pytest.mark.parametrize("stages", [2, 3])
def test_more_multiplier_stages_cost_a_cycle_each(stages: int) -> None:
    conv = Conv(1, 1, (4, 6), 3, (3, 3))
    spec = window(conv, 4, 2, mul_stages=stages)
    assert spec.cycles() == window(conv, 4, 2).cycles() + stages - 1
    check_all([spec])


def sums(conv: Conv, order: str) -> tuple[WindowDot, Array, Array, Array]:
    """A kernel that writes plain sums, its activations (batch, channel, *spatial), weights and results."""
    small, wide = integer(6), integer(40)
    windows, contracted = left_of(conv, small, 4, order), len(conv.kernel) + 1
    domain = (*windows.access.sizes[:-contracted], conv.features)
    expr = epilogue(accumulator(small, small, conv.inner), wide, 0)
    target = padded(domain, wide, 4, exact=True)
    spec = WindowDot(windows, small, conv.features, 4, expr, (), target, contracted=contracted)
    rng = np.random.default_rng(7)
    x = rng.integers(-32, 31, conv.shape, endpoint=True)
    weights = rng.integers(-32, 31, (conv.features, *conv.kernel, conv.channels), endpoint=True)
    memory = np.zeros((spec.left.layout.rows, spec.left.layout.cols), dtype=np.int64)
    stored(conv, small, 4, order).access.write(memory, x)
    found = spec.emulate(memory, spec.pack(weights)).outputs[0]
    return spec, x, np.moveaxis(weights, -1, 1), spec.out.access.read(found)


@pytest.mark.parametrize("order", ["pixels", "planes"])
@pytest.mark.parametrize(
    "conv",
    [
        Conv(2, 3, (11,), 4, (3,), 2, ((2, 2),), 2),
        Conv(2, 3, (7, 9), 5, (3, 2), (1, 2), ((2, 2), (1, 1)), (2, 1)),
        Conv(1, 2, (4, 5, 6), 3, (2, 3, 2), 1, ((1, 1), (0, 0), (1, 1))),
    ],
    ids=["1d", "2d", "3d"],
)
def test_the_model_is_torchs_convolution(conv: Conv, order: str) -> None:
    _, x, weights, found = sums(conv, order)
    function = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
    want = function[len(conv.kernel) - 1](
        torch.tensor(x, dtype=torch.float64), torch.tensor(weights, dtype=torch.float64), None,
        conv.stride, tuple(before for before, _ in conv.pads), conv.dilation,
    )  # fmt: skip
    assert np.array_equal(np.moveaxis(found, -1, 1), want.numpy())


def test_weights_are_packed_in_the_order_of_the_registers_and_unpack_again() -> None:
    spec = window(Conv(1, 3, (4, 5), 3, (2, 3)), 4, 2)
    weights = np.arange(1, 3 * 18 + 1).reshape(3, 2, 3, 3)
    packed = spec.pack(weights)
    assert packed.shape == (spec.right.layout.rows, spec.right.layout.cols) == (10, 8)
    assert np.array_equal(spec.unpack(packed), weights.reshape(3, 18))
    assert np.count_nonzero(packed) == weights.size
    assert packed[0, :4].tolist() == [1, 2, 3, 10], "column 0: row 0 and then row 1 of the kernel"


def test_the_first_layer_of_the_papers_network_keeps_its_multipliers_busy() -> None:
    conv, bound = Conv(1, 3, (80, 60), 8, (5, 5)), 10 * 76 * 56
    for order in ("pixels", "planes"):
        spec = window(conv, 8, 8, order)
        assert bound < spec.cycles() <= 1.002 * bound
        assert Fraction(dot_of_pixels(conv).cycles(), spec.cycles()) > 2


def dot_of_pixels(conv: Conv) -> KernelSpec:
    """The dot kernel reads pixels only."""
    return dot_of(window(conv, 8, 8, "pixels"))


@pytest.mark.parametrize(
    ("conv", "limit"),
    [
        (Conv(1, 1, (28, 28), 6, (5, 5)), 1.02 * 4 * 24 * 24),
        (Conv(1, 1, (8, 8), 6, (5, 5), 1, ((2, 2), (2, 2))), 1.11 * 4 * 8 * 8),
        (Conv(1, 1, (49, 10), 64, (10, 4), 2, ((4, 5), (1, 1))), 1.01 * 40 * 25 * 5),
        (Conv(1, 1, (1024,), 128, (512,), 4, ((254, 254),)), 1.01 * 64 * 16 * 256),
    ],
    ids=["lenet28", "lenet8", "dscnn", "crepe"],
)
def test_first_layers_of_known_networks(conv: Conv, limit: float) -> None:
    assert window(conv, 8, 8, "planes").cycles() <= limit


def test_a_short_part_of_a_long_kernel_runs() -> None:
    check_all([window(Conv(1, 1, (60,), 9, (64,), 4, ((30, 31),)), 16, 8, "planes")])


def test_cycles_are_the_sum_of_their_parts() -> None:
    for order, conv in CONVS[4, 2]:
        spec = window(conv, 4, 2, order)
        rows, w = product(spec.window.rows), spec.window
        row = w.outputs * max(spec.beats, -(-w.loads // w.group))
        late = (rows - 1) * w.stall(spec.beats)
        assert spec.cycles() == w.loads + w.first_loads + rows * row + late + 3 + 1 + 2 + 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"columns": 3}, "3 columns do not divide the 4 lanes of a word"),
        ({"features": 5}, r"times 5 features does not give \(1, 2, 4, 2\)"),
        ({"contracted": 1}, r"needs dimensions \(..., o, taps, c\)"),
        ({"left": left_of(Conv(1, 3, (4, 6), 2, (3, 3)), ACT, 2, "planes")}, "have 2 and 4 lanes"),
        ({"left": left_of(Conv(1, 3, (6, 6), 2, (5, 3)), ACT, 4, "planes")}, "epilogue input 0 takes"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, object], reason: str) -> None:
    good = window(Conv(1, 3, (4, 6), 2, (3, 3)), 4, 2)
    with pytest.raises(KernelParameterError, match=reason):
        replace(good, **change)  # type: ignore[arg-type]


def test_inputs_that_no_window_slides_over_are_refused() -> None:
    conv = Conv(1, 1, (4, 6), 2, (3, 3))
    good = window(conv, 4, 2, "planes")

    def refused(access: Access, reason: str, layout: Layout = good.left.layout) -> None:
        with pytest.raises(KernelParameterError, match=reason):
            replace(good, left=Operand(ACT, layout, access))

    access = good.left.access
    rows, columns = access.steps
    refused(access.over(access.sizes, (rows, (*columns[:2], -1, *columns[3:]))), "dimension 2 does not slide")
    refused(access.over(access.sizes, (rows, tuple(-c for c in columns))), "pixels -1 elements apart")
    refused(access.over(access.sizes, (rows, (0, 2, *columns[2:]))), "dimension 1 do not lie whole words")
    with pytest.raises(KernelParameterError, match="register bits, more than 65536"):
        window(Conv(1, 1, (5000,), 2, (4096,)), 4, 2, "planes")
