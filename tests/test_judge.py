"""The judge of numbers is right itself: it passes the best possible result and fails a slightly worse one."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from tests.accuracy import BITS, LOOSE, Memories, Subject, stored, subject, verdict
from tests.drawn_rows import KINDS, Kind, Row, corners, rows, tensors
from tests.rowwise import OPS, Op, Scales, calibration, module
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed

SEED = 5
each_op = pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
each_precision = pytest.mark.parametrize("precision", BITS)


def finest(values: Tensor, bits: int) -> NumberFormat:
    """The finest format of a width that holds all values."""
    return fixed(bits, bits - 1 - math.frexp(float(values.detach().double().abs().max()))[1])


def stand_in(op: Op, precision: str, off: float = 0.0, scales: Scales = "unlike") -> Subject:
    """Exact hardware for an operation: torch on what its memories hold, rounded once, `off` units beside."""
    made, sample = module(op, scales, SEED), calibration(op, scales, SEED)
    bits = BITS[precision]
    result = made.double()(*(x.double() for x in sample))
    made = made.float()
    kept = Memories(
        tuple(finest(x, bits) for x in sample),
        finest(result, bits),
        {name: finest(p, bits) for name, p in made.named_parameters()},
    )

    def run(*inputs: Tensor) -> Tensor:
        exact = stored(found.exact(*inputs), kept.output)
        slack = max(kept.output.resolution, LOOSE * float(exact.abs().max()) * (precision == "fixed32"))
        return exact + off * slack

    found = Subject(op.name, precision, made, kept, run, (sample,))
    return found


@each_op
@each_precision
@pytest.mark.parametrize("scales", ["unlike", "decades"])
def test_the_ideal_passes(op: Op, precision: str, scales: Scales) -> None:
    judged = stand_in(op, precision, scales=scales)
    judged.judge(*judged.samples[0]).check()
    assert not judged.coarse()


@each_op
def test_the_ideal_passes_on_drawn_rows(op: Op) -> None:
    judged = stand_in(op, "fixed16")
    units = [fmt.resolution for fmt in judged.memories.inputs]

    for corner in corners(op):
        judged.judge(*tensors(op, corner, judged.samples[0], units)).check()

    @given(rows(op))
    @settings(max_examples=10)
    def draw(drawn: list[list[Row]]) -> None:
        judged.judge(*tensors(op, drawn, judged.samples[0], units)).check()

    draw()


@each_op
@each_precision
@pytest.mark.parametrize("off", [-3, 3])
def test_three_units_beside_the_ideal_fail(op: Op, precision: str, off: int) -> None:
    judged = stand_in(op, precision, off)
    exact_inputs = judged.memories.round_inputs(judged.samples[0])
    found = judged.judge(*exact_inputs)
    close = found.judged & (found.ideal_error <= 0.6 * found.slack)
    assert close.any()
    assert bool(found.broken[close].all()), f"{op.name}: {int(close.sum())} elements are close to the ideal"
    with pytest.raises(AssertionError, match=rf"(?s){precision}.*elements break the inequality.*worst at"):
        found.check()


@each_op
def test_calibration_inputs_tell_right_from_wrong(op: Op) -> None:
    for wrong in (torch.zeros_like, torch.ones_like, lambda t: t * torch.nan, lambda t: -t):
        assert not _passes(op, wrong)


def _passes(op: Op, change: Callable[[Tensor], Tensor]) -> bool:
    judged = stand_in(op, "fixed16")
    right = judged.real(*judged.samples[0])
    exact = judged.exact(*judged.samples[0])
    found = verdict("", change(right), right, exact, judged.memories.output, "fixed16")
    return not bool(found.broken.any())


def test_storing_rounds_half_to_even_and_saturates() -> None:
    fmt = fixed(6, 2)
    values = [-99.0, -8.0, -0.375, -0.125, 0.0, 0.125, 0.375, 0.3, 7.75, 7.9, math.inf, -math.inf]
    got = stored(torch.tensor(values), fmt)
    for value, found in zip(values[:-2], got.tolist(), strict=False):
        wanted = Fraction(max(-32, min(31, round(Fraction(value) * 4))), 4)
        assert Fraction(found) == wanted, value
    assert got[-2:].tolist() == [7.75, -8.0]
    assert not torch.signbit(stored(torch.tensor(-0.01), fmt)), "hardware has no negative zero"
    assert math.isnan(float(stored(torch.tensor(math.nan), fmt)))


def test_the_limit_is_inclusive_and_counts_from_the_float() -> None:
    fmt, real, exact = fixed(8, 4), torch.tensor([1.02]), torch.tensor([1.05])
    ideal = 1.0625
    limit = 2 * abs(ideal - 1.02) + 1 / 16
    for got, fine in ((1.02 + limit - 1e-6, True), (1.02 - limit + 1e-6, True), (1.02 + limit + 1e-6, False)):
        found = verdict("", torch.tensor([got]), real, exact, fmt, "fixed8")
        assert bool(found.broken.any()) is not fine, got


def test_fixed32_may_err_by_a_share_of_the_largest_output() -> None:
    real = torch.tensor([1.0, 4.0], dtype=torch.float64)
    for beside, fine in ((0.9, True), (1.1, False)):
        got = real + torch.tensor([beside * LOOSE * 4, 0.0])
        found = verdict("", got, real, real, fixed(32, 28), "fixed32")
        assert bool(found.broken.any()) is not fine
        assert verdict("", got, real, real, fixed(32, 28), "fixed16").broken[0]


def test_elements_without_a_number_are_not_judged() -> None:
    real = torch.tensor([math.nan, math.inf, 1.0, 1.0], dtype=torch.float64)
    exact = torch.tensor([1.0, 1.0, math.nan, 1.0], dtype=torch.float64)
    found = verdict("", torch.tensor([9.0, 9.0, 9.0, 9.0]), real, exact, fixed(16, 8), "fixed16")
    assert found.judged.tolist() == [False, False, False, True]
    assert found.broken.tolist() == [False, False, False, True]


def test_the_message_tells_all() -> None:
    fmt, real = fixed(16, 8), torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    got = real + torch.tensor([[0.0, 0.0], [0.25, 0.5]])
    assert str(verdict("norm at fixed16", got, real, real, fmt, "fixed16")) == (
        "norm at fixed16: 2 of 4 elements break the inequality, in rows 1\n"
        "  worst at (1, 1): got 4.5, ideal 4, float 4\n"
        "  error 128 ulp, allowed 2 * 0 + 1 ulp (1 ulp = 0.003906)"
    )


def test_a_coarse_format_is_no_excuse() -> None:
    op = OPS[0]
    judged = stand_in(op, "fixed16")
    lax = Memories(judged.memories.inputs, fixed(16, 4), {})
    found = Subject(op.name, "fixed16", judged.module, lax, judged.run, judged.samples).coarse()
    assert len(found) == 1 and found[0].startswith("output is fixed16.4 for values up to")


def test_parameters_are_read_as_the_program_stores_them() -> None:
    norm = nn.LayerNorm(4)
    norm.weight.data = torch.tensor([0.1, -0.7, 0.33, 1.9])
    norm.bias.data = torch.tensor([1e-3, 0.25, -0.11, 0.5])
    sample = (torch.tensor([[0.5, -1.0, 2.0, 0.25]]),)
    judged = subject("norm", norm, [sample], "fixed8")
    assert sorted(judged.memories.parameters) == ["bias", "weight"]
    for name, value in (("weight", norm.weight), ("bias", norm.bias)):
        fmt = judged.memories.parameters[name]
        wanted = fmt.dequantize(fmt.quantize(value.detach().numpy()))
        assert judged.parameters[name].tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_stay_inside_the_calibrated_range(kind: Kind) -> None:
    for op in OPS:
        samples = calibration(op, "unlike", SEED)
        for step in (0, 37, 600):
            row = Row(kind, step, 11)
            drawn = tensors(op, [[row] * op.rows] * len(op.domains), samples, [2.0**-9] * len(op.domains))
            for x, sample, domain in zip(drawn, samples, op.domains, strict=True):
                assert x.shape == op.shape and x.dtype == torch.float32
                assert min(0.0, float(sample.min())) <= float(x.min())
                assert float(x.max()) <= float(sample.max())
                assert domain not in ("positive", "nonzero") or float(x.abs().min()) > 0
                assert domain != "positive" or float(x.min()) > 0


def test_scales_are_drawn_over_six_decades_and_calibrations_over_twelve() -> None:
    op = OPS[0]
    steps: list[int] = []

    @given(rows(op))
    @settings(max_examples=200)
    def draw(drawn: list[list[Row]]) -> None:
        steps.extend(row.step for one in drawn for row in one)

    draw()
    decades = Counter(step // 100 for step in steps)
    assert all(decades[d] > len(steps) / 20 for d in range(6)), decades
    sizes = [calibration(op, "decades", seed)[0].abs().amax(-1) for seed in range(100)]
    found = torch.cat(sizes).log10()
    assert float(found.min()) < -5 and float(found.max()) > 5
    weights = [p.detach().abs().log10() for p in module(OPS[1], "decades", 3).parameters()]
    assert float(torch.cat(weights).max() - torch.cat(weights).min()) > 9


def test_an_output_that_was_widened_is_judged_as_32_bits() -> None:
    """The compiler gives an output more bits than were asked for where it misses the tolerance otherwise."""
    op = next(op for op in OPS if op.name == "rms_norm")
    at_32 = stand_in(op, "fixed32", 0.9)
    (x,) = at_32.samples[0]
    asked_for_8 = dataclasses.replace(at_32, precision="fixed8")
    assert not asked_for_8.judge(x).broken.any()
    beside = dataclasses.replace(stand_in(op, "fixed16", 3.0))
    assert beside.judge(x).broken.any(), "at 16 bits a unit is a unit"
