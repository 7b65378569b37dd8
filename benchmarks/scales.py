"""Models whose numbers have unlike scales, and what a user is told about each.

Every case is compiled with its calibration inputs and called; torch in float64 is the reference.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torchcalyx
from torchcalyx.kernels.arith.numerics import NumberFormat

LEAST = torch.finfo(torch.float32).min
ROWS = torch.tensor([3e-3, 5.0, 0.2, 0.1])


TOLERATED = 2.0**-5
"""The default tolerance: share of an output's largest value."""


@dataclass(frozen=True)
class Outcome:
    """What one compilation and call came to.

    error: as the case measures it, None without a result. share: greatest error by the largest value of the
    output. ideal: the same of float64 on the inputs as they are stored. said: class of the exception, else of
    the project's warnings. own: whether all of these are the project's.
    """

    error: float | None
    share: float = 0.0
    ideal: float = 0.0
    said: tuple[str, ...] = ()
    own: bool = True

    @property
    def silent(self) -> bool:
        """Wrong without a word, by more than the default tolerance and twice what rounding the inputs alone
        does, or stopped by a foreign exception.
        """
        return not self.own or (self.share > TOLERATED + 2 * self.ideal and not self.said)

    def __str__(self) -> str:
        words = ", ".join(self.said)
        if self.error is None:
            return words
        parts = [_percent(self.error), *self.said, *(["no word"] if self.silent else [])]
        if self.ideal > TOLERATED:
            parts.insert(1, f"{_percent(self.ideal)} by the inputs' rounding")
        return ", ".join(parts)


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


@dataclass(frozen=True)
class Case:
    """One line of the table. fixed16, fixed32: the figures of the issue, before the work on it began.

    calibration: the inputs that choose the formats; call: those of the call (None: the same). error: from the
    result and the right one (float64) to the figure. precision: where the named ones are not meant.
    """

    model: str
    fixed16: str
    fixed32: str
    module: Callable[[], nn.Module]
    calibration: Callable[[], tuple[Tensor, ...]]
    call: Callable[[], tuple[Tensor, ...]] | None = None
    error: Callable[[Tensor, Tensor], Tensor] = lambda got, real: (got - real).abs()
    precision: str | None = None


def outcome(case: Case, precision: str) -> Outcome:
    """Compile and call one case."""
    torch.manual_seed(0)
    module = case.module().eval()
    samples = case.calibration()
    inputs = case.call() if case.call is not None else samples
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        real = exact(*(x.double() for x in inputs))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            hw = torchcalyx.compile(module, samples, precision=case.precision or precision)
            got = hw.emulate(*inputs).double()
        except Exception as error:  # a foreign exception is a finding of its own
            own = isinstance(error, torchcalyx.TorchCalyxError)
            return Outcome(None, said=(type(error).__name__,), own=own)
    kinds = dict.fromkeys(w.category for w in caught if w.category.__module__.startswith("torchcalyx"))
    formats = [binding.fmt for binding in hw.stages.selection.inputs]
    with torch.no_grad():
        ideal = exact(*(stored(x, fmt) for x, fmt in zip(inputs, formats, strict=True)))
    found, share, rounding = (
        float(torch.nan_to_num(t, nan=math.inf).max())
        for t in (case.error(got, real), of_largest(got, real), of_largest(ideal, real))
    )
    ideal_share = rounding if inputs_fit(inputs, formats) else 0.0
    return Outcome(found, share, ideal_share, tuple(kind.__name__ for kind in kinds))


def stored(x: Tensor, fmt: NumberFormat) -> Tensor:
    """What a memory of that format holds of an input."""
    return torch.clamp(torch.round(x.double() * 2.0**fmt.frac), fmt.min, fmt.max) * 2.0**-fmt.frac


def inputs_fit(inputs: Sequence[Tensor], formats: Sequence[NumberFormat]) -> bool:
    """Whether all inputs lie in their ranges: only then is their rounding no fault of the formats."""
    return all(
        bool((x.double().abs() <= fmt.max * 2.0**-fmt.frac).all())
        for x, fmt in zip(inputs, formats, strict=True)
    )


def of_row(got: Tensor, real: Tensor) -> Tensor:
    """Error of each row by its largest value."""
    return (got - real).abs().amax(-1) / real.abs().amax(-1)


def of_each(got: Tensor, real: Tensor) -> Tensor:
    """Error of each element by its own value."""
    return (got - real).abs() / real.abs()


def of_largest(got: Tensor, real: Tensor) -> Tensor:
    """Error by the largest value."""
    return (got - real).abs() / real.abs().max()


def of_column(got: Tensor, real: Tensor) -> Tensor:
    """Error of each channel by its largest value."""
    return of_row(got.T, real.T)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        """The function of the inputs."""
        return self.function(*inputs)


class DecoderLayer(nn.Module):
    """Causal attention written out with a mask of the least float, and a feed-forward layer."""

    def __init__(self, width: int = 16, heads: int = 2, gain: float = 2.0) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        # Training gives queries and keys of a size that tells positions apart: scores up to about 10.
        self.qkv.weight.data[: 2 * width] *= gain * math.sqrt(3)

    def forward(self, x: Tensor) -> Tensor:
        """x: (positions, width)."""
        count, width = x.shape
        parts = self.qkv(self.before(x)).view(count, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(1, 2, 0, 3)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.full((count, count), LEAST).triu(1)
        mixed = (torch.softmax(scores + future, -1) @ v).transpose(0, 1).reshape(count, width)
        x = x + self.out(mixed)
        result: Tensor = x + self.down(F.gelu(self.up(self.between(x))))
        return result


def _masked(value: float) -> Callable[[], nn.Module]:
    return lambda: Call(lambda scores: torch.softmax(scores + torch.full((8, 8), value).triu(1), -1))


def _channels() -> nn.Module:
    layer = nn.Linear(16, 8)
    scales = torch.tensor([1e-6, 1e6]).repeat(4)
    layer.weight.data *= scales[:, None]
    layer.bias.data *= scales
    return layer


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1) / torch.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def _standardised(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def _small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))


def _rows() -> tuple[Tensor, ...]:
    return (torch.randn(4, 16) * ROWS[:, None],)


def _two_rows() -> tuple[Tensor, ...]:
    return (*_rows(), torch.randn(4, 16) * ROWS.flip(0)[:, None])


def _normal(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(*shape),)


def _wrong_formats() -> Sequence[Case]:
    return [
        Case(
            f'"{text}" everywhere',
            "all wrong, no word",
            "",
            _small_net,
            _normal(4, 16),
            None,
            of_largest,
            text,
        )
        for text in ("fixed2.1", "fixed8.12", "fixed16.40", "fixed16.-3")
    ]


CASES: tuple[Case, ...] = (
    Case("softmax(scores + causal mask of -1e9)", "0.55 of 1", "0.17 of 1", _masked(-1e9), _normal(8, 8)),
    Case("softmax(scores + causal mask of finfo.min)", "0.55 of 1", "OverflowError", _masked(LEAST),
         _normal(8, 8)),
    Case("softmax(scores + causal mask of -1e4)", "0.17 of 1", "right", _masked(-1e4), _normal(8, 8)),
    Case("decoder layer, eager causal attention", "94 % of the largest", "OverflowError", DecoderLayer,
         _normal(8, 16), None, of_largest),
    Case("RMSNorm, rows of unlike scale", "160 %", "2e-4", lambda: nn.RMSNorm(16, eps=1e-6), _rows, None,
         of_row),
    Case("LayerNorm, the same rows", "170 %", "4e-4", lambda: nn.LayerNorm(16), _rows, None, of_row),
    Case("F.normalize, the same rows", "330 %", "4e-4", lambda: Call(lambda x: F.normalize(x, dim=-1)), _rows,
         None, of_row),
    Case("(x - mean) / std, the same rows", "370 %", "4e-4", lambda: Call(_standardised), _rows, None,
         of_row),
    Case("cosine of two such rows", "3200 %", "5e-4", lambda: Call(_cosine), _two_rows, None, of_each),
    Case("GroupNorm, an input 800 times smaller", "0.0025 instead of 0.61", "", lambda: nn.GroupNorm(2, 4),
         lambda: (torch.randn(1, 4, 12) * 4,), lambda: (torch.randn(1, 4, 12) / 200,), of_largest),
    Case("x.var(-1), the same rows", "100 %", "8e-5", lambda: Call(lambda x: x.var(-1)), _rows, None,
         of_each),
    Case("linear layer, channels of 1e-6 and 1e6", "small ones become 0", "", _channels, _normal(4, 16), None,
         of_column),
    Case("calibrated with zeros, then real inputs", "all wrong, no word", "", _small_net,
         lambda: (torch.zeros(4, 16),), _normal(4, 16), of_largest),
    Case("calibrated with a constant, then real inputs", "all wrong, no word", "", _small_net,
         lambda: (torch.full((4, 16), 1e-3),), _normal(4, 16), of_largest),
    *_wrong_formats(),
    Case("an input outside the calibrated range", "saturates, no word", "", _small_net, _normal(4, 16),
         lambda: (torch.randn(4, 16) * 8,), of_largest),
)  # fmt: skip
"""The table at the top of the issue that asked for numbers to be trusted, line by line."""
