"""Channels far larger than the others: the model stays, eight bits lose less, no multiplier more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.capture import capture
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.powers import exponents
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import normalize
from torchcalyx.options import Options
from torchcalyx.quantize import outliers
from torchcalyx.quantize.outliers import best_factors, separated
from torchcalyx.quantize.precision import Precisions

WIDTH, INNER = 24, 48


class Block(nn.Module):
    """The second half of a transformer layer behind a norm with one channel forty times the others."""

    def __init__(self, *, residual: bool = True) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.residual = residual
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        with torch.no_grad():
            self.norm.weight[3] = 20.0
            self.norm.bias[3] = 40.0
            self.up.weight[:, 3] *= 0.02
            self.up.bias[5] = 60.0  # leaves GELU as it is
            self.down.weight[:, 5] *= 0.02

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        z = self.down(nn.functional.gelu(self.up(y)))
        return self.last(y + z) if self.residual else z


def inputs(count: int) -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(1, 5, WIDTH) for _ in range(count)]


def graphs(net: nn.Module, precision: str) -> tuple[Graph, Graph]:
    """Before and after."""
    seen = inputs(6)
    graph = normalize(capture(net.eval(), (seen[0],), {}))
    samples = [(x.numpy(),) for x in seen]
    return graph, separated(graph, samples, Precisions(graph, Options(precision=precision)))


@pytest.mark.parametrize("residual", [True, False])
def test_what_the_model_computes_stays(residual: bool) -> None:
    net = Block(residual=residual)
    before, after = graphs(net, "fixed8")
    shifts = [n for n in after.nodes if n not in before.nodes and n.op == "mul"]
    assert len(shifts) == 1 + residual  # behind GELU, and in front of the sum
    for x in inputs(3):
        wanted = net.double()(x.double()).detach().numpy()
        np.testing.assert_allclose(reference(after, (x.numpy(),))[0], wanted, rtol=1e-5, atol=1e-5)


def test_the_channels_that_are_not_outliers_are_enlarged() -> None:
    before, after = graphs(Block(), "fixed8")
    name = next(n for n, p in before.parameter_names.items() if p == "norm.weight")
    factors = after.constants[name] / before.constants[name]
    assert factors[3] == 1
    assert set(np.delete(factors, 3)) == {2.0**outliers.MOST}


def test_sixteen_bits_need_no_factors() -> None:
    before, after = graphs(Block(), "fixed16")
    assert after is before


def test_values_of_like_scale_keep_theirs() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (40, 8))
    weight = np.random.default_rng(1).normal(size=(6, 8))
    assert np.all(best_factors(rows, [weight], 8, [8], beside=True) == 1)


def test_a_few_rows_tell_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(outliers.FEWEST, 8)) * ([100.0] + [1.0] * 7)
    weight = np.random.default_rng(1).normal(size=(6, 8)) / ([100.0] + [1.0] * 7)
    assert np.any(best_factors(rows, [weight], 8, [8], beside=False) != 1)
    assert np.all(best_factors(rows[1:], [weight], 8, [8], beside=False) == 1)


def test_silence_has_no_outliers() -> None:
    assert np.all(best_factors(np.zeros((20, 4)), [np.ones((2, 4))], 8, [8], beside=False) == 1)


def test_eight_bits_lose_less(monkeypatch: pytest.MonkeyPatch) -> None:
    net, seen, tests = Block().eval(), inputs(8), inputs(16)[8:]

    def error() -> tuple[float, int]:
        hw = torchcalyx.compile(net, seen[0], calibration=seen, precision="fixed8", tolerance=float("inf"))
        wrong = [(hw.emulate(x) - net(x)).detach().square().mean() for x in tests]
        return float(torch.stack(wrong).mean().sqrt()), hw.cycles

    found, cycles = error()
    monkeypatch.setattr(outliers, "MOST", 0)
    plain, before = error()
    assert found < 0.6 * plain
    assert cycles <= before + 4


@pytest.mark.needs("calyx", "verilator")
@pytest.mark.parametrize("precision", ["fixed8", "fixed16"])
def test_hardware_shifts_as_the_model_does(precision: str) -> None:
    net, seen = Block().eval(), inputs(3)
    hw = torchcalyx.compile(net, seen[0], calibration=seen, precision=precision, tolerance=float("inf"))
    run = hw.simulate(seen[1])
    assert torch.equal(run.outputs, hw.emulate(seen[1]))
    assert run.cycles == hw.cycles


class Powers(nn.Module):
    """A product with the user's own powers of two."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("powers", torch.tensor([0.25, 1.0, 2.0, 0.25, 1.0, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.powers


def test_powers_of_two_need_no_multiplier() -> None:
    x = torch.linspace(-3, 3, 12).reshape(2, 6)
    hw = torchcalyx.compile(Powers().eval(), x, precision="fixed16")
    assert all(call.spec.engine() is None for call in hw.stages.selection.calls)
    assert (hw.emulate(x) - Powers()(x)).abs().max() <= 2.0**-11


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.25, 1.0, 8.0], [-2, 0, 3]),
        ([0.25, 3.0], None),
        ([-1.0, 1.0], None),
        ([0.0, 1.0], None),
        ([float("inf")], None),
        ([float("nan")], None),
        ([], None),
    ],
)
def test_exponents(values: list[float], wanted: list[int] | None) -> None:
    found = exponents(np.array(values, np.float32))
    assert (None if found is None else found.tolist()) == wanted
