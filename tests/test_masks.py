"""Attention with a mask, in the ways people write it, on scores of size 10: a masked position gets
probability 0, a fully masked row what torch gives, and all else is as near to float64 as without a mask.

Inputs are multiples of 1/256, exact in 16 bits, so that every error is the compiler's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from tests import tally
from tests.accuracy import quiet
from torchcalyx.errors import InputError, TorchCalyxError

KEYS, WIDTH, BLIND = 6, 8, 2
LEAST = torch.finfo(torch.float32).min
LIMIT = 2.0**-10

Kind: TypeAlias = Literal["constant", "float input", "bool input"]
Mix: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Way:
    """How a mask is written. mix: scores and mask to masked scores. addend: what an additive mask holds where
    masked, None for a bool mask (true where masked). value: what masked scores become or get added.
    """

    name: str
    mix: Mix
    kind: Kind = "constant"
    addend: float | None = None
    value: float = LEAST

    def mask(self, hidden: Tensor) -> Tensor:
        """What the module reads."""
        if self.addend is None:
            return hidden
        return torch.zeros(hidden.shape).masked_fill(hidden, self.addend)

    @property
    def nan(self) -> bool:
        """Whether torch gives NaN for a fully masked row."""
        return math.isinf(self.value)

    @property
    def uniform(self) -> bool:
        """Whether a fully masked row's scores are lost in float32, so that torch weighs all keys alike."""
        return not self.nan and abs(self.value) > 1e8


def _add(name: str, value: float, kind: Kind = "constant") -> Way:
    return Way(name, lambda s, m: s + m, kind, addend=value, value=value)


def _fill(name: str, value: float, kind: Kind = "constant") -> Way:
    return Way(name, lambda s, m: s.masked_fill(m, value), kind, value=value)


def _tril(scores: Tensor, hidden: Tensor) -> Tensor:
    seen = torch.tril(torch.ones(KEYS, KEYS))
    return scores.masked_fill(seen == 0, torch.finfo(scores.dtype).min)


WAYS = (
    _add("add -1e9", -1e9),
    _add("add finfo.min", LEAST),
    _add("add -1e4", -1e4),
    _add("add -inf", -math.inf),
    _fill("masked_fill -inf", -math.inf),
    _fill("masked_fill finfo.min", LEAST),
    Way("where -1e9", lambda s, m: torch.where(m, -1e9, s), value=-1e9),
    Way("where seen", lambda s, m: torch.where(~m, s, -1e9), value=-1e9),
    Way("tril", _tril),
    _add("float input -1e9", -1e9, "float input"),
    _add("float input finfo.min", LEAST, "float input"),
    _add("float input -inf", -math.inf, "float input"),
    _fill("bool input -inf", -math.inf, "bool input"),
    _fill("bool input finfo.min", LEAST, "bool input"),
)
CAUSAL = torch.ones(KEYS, KEYS, dtype=torch.bool).triu(1)
PADDED = (torch.arange(KEYS) >= KEYS - 2).expand(KEYS, KEYS).clone()
SOME_BLIND = CAUSAL | (torch.arange(KEYS) == BLIND)[:, None]
PATTERNS = {"causal": CAUSAL, "padded keys": PADDED, "both": CAUSAL | PADDED}
CASES = [(way, name) for way in WAYS for name in PATTERNS if way.name != "tril" or name == "causal"]
each_case = pytest.mark.parametrize(("way", "pattern"), CASES, ids=[f"{w.name}-{p}" for w, p in CASES])


class Masked(nn.Module):
    """Attention by hand; returns the probabilities and the result. mask: None when it is an input."""

    mask: Tensor | None

    def __init__(self, mix: Mix, mask: Tensor | None) -> None:
        super().__init__()
        self.mix = mix
        self.register_buffer("mask", mask)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH)
        mask = given[0] if self.mask is None else self.mask
        weights = torch.softmax(self.mix(scores, mask), -1)
        return weights, weights @ v


def operands(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """q and k with scores of size 10, and v, all multiples of 1/256."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(KEYS, WIDTH, generator=generator) * s for s in (2.4, 2.4, 1.0))
    return tuple((x * 256).round() / 256 for x in (q, k, v))  # type: ignore[return-value]


def call(way: Way, hidden: Tensor, seed: int = 0) -> tuple[Tensor, ...]:
    """The arguments of a call."""
    given = () if way.kind == "constant" else (way.mask(hidden),)
    return (*operands(seed), *given)


def module(way: Way, hidden: Tensor) -> nn.Module:
    return Masked(way.mix, way.mask(hidden) if way.kind == "constant" else None).eval()


@functools.cache
def compiled(way: Way, pattern: str, **options: Any) -> torchcalyx.CompiledModule:
    hidden = SOME_BLIND if pattern == "blind" else PATTERNS[pattern]
    samples = [call(way, hidden, seed) for seed in range(2)]
    with quiet():
        return torchcalyx.compile(module(way, hidden), samples[0], calibration=samples, **options)


def wanted(way: Way, hidden: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Torch in float64; in a fully masked row that the model's own float32 makes uniform, all keys alike."""
    q, k, v = (x.double() for x in operands(seed))
    weights, _ = Masked(way.mix, way.mask(hidden).double() if way.addend else hidden)(q, k, v)
    if way.uniform:
        weights[hidden.all(-1)] = 1 / KEYS
    return weights, weights @ v


def compare(way: Way, hidden: Tensor, found: tuple[Tensor, Tensor], seed: int = 0) -> None:
    """AssertionError unless a result is right."""
    blind = hidden.all(-1)
    weights, result = (x.double() for x in found)
    exact, exact_result = wanted(way, hidden, seed)
    alive = hidden & ~blind[:, None]
    assert torch.all(weights[alive] == 0), f"{way.name}: masked positions have weights {weights[alive]}"
    error = (weights - exact).abs().max().item()
    assert error <= LIMIT, f"{way.name}: weights err by {error:.3g}:\n{weights}\ninstead of\n{exact}"
    error = (result - exact_result).abs().max().item()
    assert error <= LIMIT, f"{way.name}: the result errs by {error:.3g}"


def test_scores_are_of_size_ten() -> None:
    for seed in range(2):
        q, k, _ = operands(seed)
        scores = q @ k.T / math.sqrt(WIDTH)
        assert 8 < float(scores.abs().max()) < 20
        assert float(scores.std()) > 3


@pytest.mark.parametrize("way", WAYS, ids=[w.name for w in WAYS])
def test_torch_itself_does_what_is_asked(way: Way) -> None:
    """In the float32 of the model; the comparison takes this result and no other."""
    hidden = CAUSAL if way.name == "tril" else SOME_BLIND
    found = Masked(way.mix, way.mask(hidden))(*operands())
    if way.nan:
        assert torch.isnan(found[0][BLIND]).all()
        return
    compare(way, hidden, found)
    with pytest.raises(AssertionError, match="masked positions have weights"):
        compare(way, hidden, (found[0] + 1e-6, found[1]))
    with pytest.raises(AssertionError, match="weights err by"):
        compare(way, hidden, (found[0] * 0.99, found[1]))
    with pytest.raises(AssertionError, match="the result errs by"):
        compare(way, hidden, (found[0], found[1] + 1e-3))


def test_the_limit_is_met_without_a_mask() -> None:
    """What the other tests ask for is possible: nothing else of the computation needs a greater limit."""
    way, nothing = Way("no mask", lambda s, m: s), torch.zeros_like(CAUSAL)
    samples = [call(way, nothing, seed) for seed in range(2)]
    hw = torchcalyx.compile(module(way, nothing), samples[0], calibration=samples)
    for seed in range(3):
        compare(way, nothing, hw.emulate(*call(way, nothing, seed)), seed)


@each_case
def test_masked_attention_is_right(way: Way, pattern: str) -> None:
    hw = compiled(way, pattern)
    for seed in range(3):
        compare(way, PATTERNS[pattern], hw.emulate(*call(way, PATTERNS[pattern], seed)), seed)


@pytest.mark.parametrize("way", [w for w in WAYS if w.kind != "constant"], ids=lambda w: w.name)
def test_a_mask_that_is_an_input_may_change(way: Way) -> None:
    hw = compiled(way, "causal")
    for hidden in PATTERNS.values():
        compare(way, hidden, hw.emulate(*call(way, hidden)))
    nothing = torch.zeros_like(CAUSAL)
    compare(way, nothing, hw.emulate(*call(way, nothing)))


@pytest.mark.parametrize("way", [w for w in WAYS if not w.nan and w.name != "tril"], ids=lambda w: w.name)
def test_a_fully_masked_row_is_what_torch_gives(way: Way) -> None:
    hw = compiled(way, "blind" if way.kind == "constant" else "causal")
    compare(way, SOME_BLIND, hw.emulate(*call(way, SOME_BLIND)))


@pytest.mark.parametrize("way", [w for w in WAYS if w.nan and w.kind == "constant"], ids=lambda w: w.name)
def test_a_constant_mask_that_makes_nan_is_refused_at_compile_time(way: Way) -> None:
    with pytest.raises(TorchCalyxError, match=r"(?i)\brow\b") as caught:
        compiled(way, "blind")
    assert "test_masks.py" in str(caught.value), "the user's line is missing"
    compiled(way, "causal")  # it is the row that is refused, not the way


@pytest.mark.parametrize("way", [w for w in WAYS if w.nan and w.kind != "constant"], ids=lambda w: w.name)
def test_an_input_mask_that_makes_nan_is_refused_at_the_call(way: Way) -> None:
    hw = compiled(way, "causal")
    for run in (hw.emulate, hw.simulate, hw):
        with pytest.raises(InputError, match=r"(?i)\brow\b"):
            run(*call(way, SOME_BLIND))
    compare(way, CAUSAL, hw.emulate(*call(way, CAUSAL)))


@pytest.mark.needs("calyx", "icarus")
@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.name)
def test_the_hardware_is_the_model(way: Way) -> None:
    hw = compiled(way, "causal", simulator="icarus", multipliers=16)
    calls = [call(way, CAUSAL, seed) for seed in range(2)]
    if way.kind != "constant":
        calls.append(call(way, PADDED))
    for inputs, run in zip(calls, hw.simulate_batch(calls), strict=True):
        assert run.cycles == hw.cycles
        for rtl, model in zip(run.outputs, hw.emulate(*inputs), strict=True):
            assert torch.equal(rtl, model), f"{way.name}: hardware {rtl}\nsoftware model {model}"
    tally.count(len(calls), len(calls))
