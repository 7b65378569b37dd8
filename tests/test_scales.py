"""Binary points by error, formats without sign, and the narrowing that takes in a ReLU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests.kernels.support import check
from torchcalyx.errors import SaturationWarning
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import fixed, integer
from torchcalyx.kernels.arith.ramp import fuse_ramp
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.quantize.scales import choose_format


def test_a_rare_outlier_is_clipped_at_eight_bits_and_never_at_sixteen() -> None:
    values = np.random.default_rng(0).normal(size=10_000)
    values[7] = 9.0  # alone in the upper half of -16 to 16
    largest = float(np.abs(values).max())
    assert choose_format(largest, values, 8, 0) == fixed(8, 4)
    assert choose_format(largest, values, 16, 1) == fixed(16, 10)
    assert choose_format(largest, None, 8, 0) == fixed(8, 3)


def test_the_binary_point_has_the_least_error_of_all() -> None:
    values = np.random.default_rng(1).laplace(size=5000)
    chosen = choose_format(float(np.abs(values).max()), values, 8, 0)

    def error(frac: int) -> float:
        stored = np.clip(np.round(values * 2.0**frac), -128, 127) / 2.0**frac
        return float(np.mean((stored - values) ** 2))

    assert chosen.frac == min(range(-2, 10), key=error)


def test_uniform_values_are_not_clipped() -> None:
    values = np.linspace(-7.9, 7.9, 4001)
    assert choose_format(7.9, values, 8, 0) == fixed(8, 4)
    assert choose_format(7.9, np.abs(values), 8, 0, signed=False) == fixed(8, 5, signed=False)


class Signs(nn.Module):
    """A value of each kind, each stored because a product reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        a, b, c, d, e, last = self.layers
        y = torch.relu(a(x))
        y = torch.sigmoid(b(y)) + 0.5
        y = torch.abs(c(y)).clamp(max=0.7)
        y = torch.tanh(d(y))
        y = e(y).clamp(min=-0.1, max=2.0)
        result = last(y)
        assert isinstance(result, Tensor)
        return result


def test_values_that_are_never_negative_have_no_sign_at_eight_bits() -> None:
    torch.manual_seed(0)
    net, x = Signs().eval(), torch.randn(3, 8)
    hw = torchcalyx.compile(net, x, precision="fixed8", simulator="icarus")
    typed = hw.stages.typed
    read = [typed.graph.node(n.args[0]) for n in typed.graph.nodes if n.op == "linear"]
    signs = [(n.op, typed.formats[n.name].signed) for n in read]
    assert signs == [
        ("input", True), ("relu", False), ("add", False), ("clamp", False), ("tanh", True), ("clamp", True),
    ]  # fmt: skip
    assert torch.equal(hw(x), hw.emulate(x))
    wide = torchcalyx.compile(net, x)
    assert all(f.signed for f in wide.stages.typed.formats.values())


def test_input_and_output_never_clip() -> None:
    x = torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    x[0, 0] = 9.0
    hw = torchcalyx.compile(nn.Identity(), x, precision="fixed8")
    assert float((hw.emulate(x) - x).abs().max()) <= 2.0**-4


def relu_and_narrow(source: int, frac: int, out: int) -> tuple[ExprBuilder, int]:
    b = ExprBuilder()
    total = b.add(b.input(fixed(source, frac)), b.const(3, frac))
    return b, b.maximum(total, b.const(0))


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("frac", [4, 6, 9])
def test_a_narrowing_takes_in_the_relu_before_it(signed: bool, frac: int) -> None:
    b, y = relu_and_narrow(12, 6, frac)
    out = fixed(8, frac, signed=signed)
    plain = b.build(y, out)
    fused = fuse_ramp(plain)
    assert [op.name for op in fused.ops].count("ramp") == 1
    assert "max" not in [op.name for op in fused.ops]
    every = np.arange(-2048, 2048)
    for one, other in zip(plain.emulate([every]), fused.emulate([every]), strict=True):
        assert np.array_equal(one, other)
    layout = row_major((40,), 4)
    source = Operand(fixed(12, 6), layout, whole((40,), layout))
    check(elementwise(fused, (source,), Operand(out, layout, whole((40,), layout))))


def test_other_expressions_stay_as_they_are() -> None:
    b = ExprBuilder()
    x = b.input(fixed(12, 6))
    low = b.build(b.maximum(x, b.const(1)), fixed(8, 6))
    assert fuse_ramp(low) == low
    b = ExprBuilder()
    x = b.input(fixed(12, 6))
    y = b.maximum(x, b.const(0))
    twice = b.build(b.select(b.less(y, b.const(5)), y, x), fixed(8, 6))
    assert fuse_ramp(twice) == twice


def test_a_shift_by_few_places_is_one_level_of_logic() -> None:
    from torchcalyx.kernels.rtl.lane import latency

    def sum_and_shift(bits: int) -> int:
        b = ExprBuilder()
        x, places, bias = b.input(fixed(24, 12)), b.input(integer(bits, signed=False)), b.input(fixed(16, 14))
        y = b.add(b.shift(b.shift_left(x, places), -(2**bits - 1)), bias)
        return latency(fuse_ramp(b.build(b.maximum(y, b.const(0)), fixed(8, 4))))

    assert [sum_and_shift(bits) for bits in (1, 2, 3)] == [1, 1, 2]


class Outlier(nn.Module):
    """A stored value with a rare large element, in front of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        result = self.last(torch.maximum(x * 0.5, x - 8.0))
        assert isinstance(result, Tensor)
        return result


def test_clipping_that_was_chosen_is_no_news_and_more_than_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = [torch.randn(1, 64, generator=generator) for _ in range(40)]
    seen[0][0, 0] = 8.6
    torch.manual_seed(0)
    hw = torchcalyx.compile(Outlier().eval(), seen[0], calibration=seen, precision="fixed8")
    (excess,) = hw.expected_excess().values()
    fmt = hw.stages.typed.formats["maximum"]
    assert (4.3 - fmt.max * fmt.resolution) / (255 * fmt.resolution) == pytest.approx(excess, abs=1 / 255)
    hw.emulate(seen[0])  # warnings are errors here
    roomy = torchcalyx.compile(Outlier().eval(), seen[0], calibration=seen, precision="fixed8", headroom=0)
    assert not roomy.expected_excess()
    with pytest.warns(SaturationWarning, match="input 'x': 1 of 64 outside"):
        far = seen[1].clone()
        far[0, 0] = 40.0
        hw.emulate(far)


def test_formats_that_the_user_gave_never_hide_a_saturation() -> None:
    net, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval(), torch.full((1, 8), 0.9)
    with torch.no_grad():
        net[0].weight.fill_(0.5)
    with pytest.warns(Warning) as found:
        hw = torchcalyx.compile(net, x, precision="fixed8.7")
        hw.emulate(x)
    assert not hw.expected_excess()
    assert any("'relu'" in str(w.message) for w in found if w.category is SaturationWarning)
