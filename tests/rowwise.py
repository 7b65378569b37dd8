"""The operations whose numbers are judged row by row, and calibration inputs with rows of unlike scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models import Function

Domain: TypeAlias = Literal["any", "positive", "nonzero", "exponent", "score"]
Scales: TypeAlias = Literal["unlike", "decades"]
Make: TypeAlias = Callable[[torch.Generator, Scales], nn.Module]

UNLIKE = (3e-3, 5.0, 0.2, 0.1, 1.0, 0.03, 2.0, 0.5)
"""Scales of the rows of one tensor, the usual case."""
LIMITS: dict[Domain, float] = {"exponent": 8.0, "score": 4.0}
"""Largest magnitude of a domain: beyond it the function itself leaves every range."""


@dataclass(frozen=True)
class Op:
    """make: the module, its parameters drawn. domains: what each input may hold. shape: of every input."""

    name: str
    make: Make
    domains: tuple[Domain, ...] = ("any",)
    shape: tuple[int, ...] = (6, 16)

    @property
    def rows(self) -> int:
        """Rows of an input: all axes but the last."""
        return math.prod(self.shape[:-1])


def _function(function: Callable[..., Tensor]) -> Make:
    return lambda generator, scales: Function(function)


def log_uniform(generator: torch.Generator, count: int, low: float, high: float) -> Tensor:
    """10^u with u uniform between two exponents."""
    return 10 ** (low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64))


def _affine(module: nn.Module, generator: torch.Generator, scales: Scales) -> nn.Module:
    """Parameters drawn: about 1 and 0, or over 12 decades from channel to channel."""
    for name, parameter in module.named_parameters():
        drawn = torch.randn(parameter.shape, generator=generator)
        if scales == "decades":
            drawn = drawn * log_uniform(generator, parameter.numel(), -6, 6).reshape(parameter.shape).float()
        elif name.endswith("weight"):
            drawn = 1 + 0.5 * drawn
        parameter.data = drawn
    return module


def _norm(make: Callable[[], nn.Module]) -> Make:
    return lambda generator, scales: _affine(make(), generator, scales)


class Attention(nn.Module):
    """Attention as it is written by hand; causal: a constant mask in which the future is the least float."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.causal:
            future = torch.ones(scores.shape, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(future, torch.finfo(torch.float32).min)
        return torch.softmax(scores, -1) @ v


class Twice(nn.Module):
    """A norm of a norm with a gate between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(16), nn.RMSNorm(16, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(x) * x)
        return result


def _masked(x: Tensor) -> Tensor:
    mask = torch.full(x.shape[-2:], -1e9).triu(3)
    return torch.softmax(x + mask, -1)


def _by_hand(x: Tensor) -> Tensor:
    shifted = torch.exp(x - x.amax(-1, keepdim=True))
    return shifted / shifted.sum(-1, keepdim=True)


def _cosine_by_hand(a: Tensor, b: Tensor) -> Tensor:
    lengths = torch.sqrt((a * a).sum(-1)) * torch.sqrt((b * b).sum(-1))
    return (a * b).sum(-1) / lengths


def _rms_by_hand(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


NORMS = (
    Op("layer_norm", _function(lambda x: F.layer_norm(x, (16,)))),
    Op("layer_norm affine", _norm(lambda: nn.LayerNorm(16))),
    Op("rms_norm", _function(lambda x: F.rms_norm(x, (16,), eps=1e-6))),
    Op("rms_norm affine", _norm(lambda: nn.RMSNorm(16, eps=1e-6))),
    Op("group_norm", _norm(lambda: nn.GroupNorm(2, 4)), shape=(2, 4, 12)),
    Op("group_norm one group", _norm(lambda: nn.GroupNorm(1, 4, affine=False)), shape=(2, 4, 12)),
    Op("instance_norm", _norm(lambda: nn.InstanceNorm1d(4)), shape=(2, 4, 12)),
    Op("normalize", _function(lambda x: F.normalize(x, dim=-1))),
    Op("normalize 1", _function(lambda x: F.normalize(x, p=1.0, dim=-1))),
    Op("cosine_similarity", _function(lambda a, b: F.cosine_similarity(a, b, dim=-1)), ("any", "any")),
    Op("var 0", _function(lambda x: x.var(-1, correction=0))),
    Op("var 1", _function(lambda x: x.var(-1))),
    Op("var 2", _function(lambda x: x.var(-1, correction=2, keepdim=True))),
    Op("std 0", _function(lambda x: x.std(-1, correction=0))),
    Op("std 1", _function(lambda x: x.std(-1))),
)
EXPONENTIALS = (
    Op("softmax", _function(lambda x: torch.softmax(x, -1))),
    Op("softmax masked", _function(_masked)),
    Op("log_softmax", _function(lambda x: torch.log_softmax(x, -1))),
    Op("logsumexp", _function(lambda x: torch.logsumexp(x, -1))),
    Op("attention", lambda g, s: Attention(False), ("score", "score", "any")),
    Op("attention causal", lambda g, s: Attention(True), ("score", "score", "any")),
)
FUNCTIONS = (
    Op("div", _function(lambda a, b: a / b), ("any", "nonzero")),
    Op("rsqrt", _function(torch.rsqrt), ("positive",)),
    Op("sqrt", _function(torch.sqrt), ("positive",)),
    Op("reciprocal", _function(torch.reciprocal), ("nonzero",)),
    Op("exp", _function(torch.exp), ("exponent",)),
    Op("log", _function(torch.log), ("positive",)),
    Op("pow 2", _function(lambda x: x**2)),
    Op("pow 3", _function(lambda x: x**3)),
    Op("pow 0.5", _function(lambda x: x**0.5), ("positive",)),
    Op("pow 1.5", _function(lambda x: x**1.5), ("positive",)),
    Op("pow -1", _function(lambda x: x**-1), ("nonzero",)),
    Op("pow -2", _function(lambda x: x**-2), ("nonzero",)),
    Op("pow -0.5", _function(lambda x: x**-0.5), ("positive",)),
)
CHAINS = (
    Op("cosine by hand", _function(_cosine_by_hand), ("any", "any")),
    Op("(x - mean) / std", _function(lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True))),
    Op("x * rsqrt(mean(x * x) + eps)", _function(_rms_by_hand)),
    Op("softmax by hand", _function(_by_hand), ("exponent",)),
    Op("exp(log(x))", _function(lambda x: torch.exp(torch.log(x))), ("positive",)),
    Op("x / (1 + exp(-x))", _function(lambda x: x / (1 + torch.exp(-x))), ("exponent",)),
    Op("sqrt(a * a + b * b)", _function(lambda a, b: torch.sqrt(a * a + b * b)), ("any", "any")),
    Op("softmax(log(x))", _function(lambda x: torch.softmax(torch.log(x), -1)), ("positive",)),
    Op("norm of norm", _norm(Twice)),
    Op("a / (b + eps)", _function(lambda a, b: a / (b + 1e-3)), ("any", "positive")),
    Op("log(sum(exp(x)))", _function(lambda x: torch.exp(x).sum(-1).log()), ("exponent",)),
)  # fmt: skip
OPS = (*NORMS, *EXPONENTIALS, *FUNCTIONS, *CHAINS)


def into_domain(rows: Tensor, domain: Domain, largest: float) -> Tensor:
    """Rows made to fit what an input may hold: signs, a distance from zero, a limit."""
    if domain in LIMITS:
        return rows.clamp(-LIMITS[domain], LIMITS[domain])
    if domain in ("positive", "nonzero"):
        # A twentieth of the row's own size away from zero; a row of zeros becomes one far below the others.
        size = rows.abs().amax(-1, keepdim=True).clamp(min=1e-6 * largest)
        apart = rows.abs().clamp(min=size / 20)
        return apart if domain == "positive" else torch.where(rows < 0, -apart, apart)
    return rows


def calibration(op: Op, scales: Scales, seed: int) -> tuple[Tensor, ...]:
    """An input tuple with rows of unlike scale: those of `UNLIKE`, or drawn over 12 decades."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number, domain in enumerate(op.domains):
        if scales == "unlike":
            scale = torch.tensor(UNLIKE[: op.rows], dtype=torch.float64).roll(3 * number)
        else:
            scale = log_uniform(generator, op.rows, -6, 6)
            if domain in LIMITS:
                scale = scale * 1e-6 * LIMITS[domain] / 2
        rows = torch.randn(op.rows, op.shape[-1], generator=generator, dtype=torch.float64) * scale[:, None]
        rows = into_domain(rows, domain, float(rows.abs().max()))
        made.append(rows.reshape(op.shape).float())
    return tuple(made)


def module(op: Op, scales: Scales, seed: int) -> nn.Module:
    """The module of an operation, in eval mode."""
    return op.make(torch.Generator().manual_seed(seed), scales).eval()
