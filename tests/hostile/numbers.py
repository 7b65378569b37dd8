"""Numbers: infinities and NaN, scales from 1e-30 to 1e30, every dtype, integers of 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.hostile.arguments import X
from tests.hostile.case import Case, refused, works
from torchcalyx.errors import CaptureError, InputError, UnsupportedOpError

V = X[0]
INF, NAN = float("inf"), float("nan")
FORMATS = {"fixed8": 2.0**-4, "fixed16": 2.0**-11, "fixed32": 2.0**-24}
"""Named precisions and the error they are held to: about eight units of the last place."""


class Weight(nn.Module):
    """One parameter and what is done with it."""

    def __init__(self, use: Callable[[torch.Tensor, torch.Tensor], Any], *values: Any) -> None:
        super().__init__()
        self.use = use
        self.w = nn.Parameter(torch.tensor(values[0] if len(values) == 1 else values))

    def forward(self, x: torch.Tensor) -> Any:
        return self.use(self.w, x)


def weight(use: Callable[[torch.Tensor, torch.Tensor], Any], *values: Any) -> Callable[[], nn.Module]:
    return lambda: Weight(use, *values)


def _product(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return w * x


def _layer(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w[None])


_BAD = "the model holds values that are not finite; replace them before compiling:\n  - parameter 'w' holds "
_LITERAL = "hardware numbers are finite, and an infinity has a meaning as a bound"

INFINITIES: tuple[Case, ...] = (
    *(
        refused(
            f"parameter-{v}",
            weight(use, 1.0, v, 2.0, 3.0),
            X,
            says=f"{_BAD}{v} at index [",
            by=CaptureError,
            made=True,
        )
        for v in (INF, -INF, NAN)
        for use in (_product, _layer)
    ),
    works("nan-unused", weight(lambda w, x: x * 2, 1.0, NAN), X, made=True),
    works("nan-sliced-away", weight(lambda w, x: x * w[0], 3.0, NAN), X, made=True),
    works("inf-returned", weight(lambda w, x: (x * 2, w), 1.0, INF, -INF), X, made=True),
    works("inf-literal-returned", lambda x: (x, torch.tensor([INF, 1.0])), X),
    refused(
        "nan-bound",
        weight(lambda w, x: torch.clamp(x, max=w), NAN),
        X,
        says=f"{_BAD}nan",
        by=CaptureError,
        made=True,
    ),
    works("inf-clamp-tensor", weight(lambda w, x: torch.clamp(x, max=w), INF), X, made=True),
    works(
        "inf-clamp-each",
        weight(lambda w, x: torch.clamp(x, -w, w), INF, 1.0, INF, 2.0),
        X,
        made=True,
        hardware=True,
    ),
    works("inf-minimum", weight(lambda w, x: torch.minimum(w, x), INF, 1.0, -1.0, INF), X, made=True),
    works("inf-maximum", weight(lambda w, x: torch.maximum(x, w), -INF, 1.0, -1.0, -INF), X, made=True),
    refused(
        "inf-wins",
        weight(lambda w, x: torch.maximum(x, w), INF, 1.0, 1.0, 1.0),
        X,
        says=f"{_BAD}inf",
        by=CaptureError,
        made=True,
    ),
    works("inf-clamp", lambda x: x.clamp(-INF, INF) + x.clamp(min=-INF, max=2), X),
    refused("inf-clamp-wrong-side", lambda x: x.clamp(min=INF), X, says=_LITERAL, by=UnsupportedOpError),
    refused(
        "nan-clamp",
        lambda x: x.clamp(max=NAN),
        X,
        says="no kernel yet for the value nan",
        by=UnsupportedOpError,
    ),
    refused("inf-added", lambda x: x + INF, X, says="aten.add", by=UnsupportedOpError),
    refused("inf-factor", lambda x: x * INF, X, says=_LITERAL, by=UnsupportedOpError),
    works("by-inf", lambda x: x / INF, X),
    works(
        "inf-compared",
        lambda x: (x < INF, x > -INF, x == INF, x != -INF, x <= INF, x < -INF),
        X,
        hardware=True,
    ),
    works(
        "inf-compared-each",
        weight(lambda w, x: (x < w, w > x, x == w, x != w), INF, 1.0, -INF, 3.0),
        X,
        made=True,
        hardware=True,
    ),
    works("is-nan", lambda x: (x.isnan(), x.isinf(), x.isfinite(), torch.nan_to_num(x)), X),
    works("smallest-of-inf", lambda x: torch.minimum(torch.full((3, 4), INF), x), X),
    works("padded-maximum", lambda x: F.max_pool1d(x[None], 3, 1, 1), X),
    refused(
        "calibration-inf",
        lambda x: x * 2,
        torch.tensor([1.0, INF]),
        says="calibration input 0 makes input",
        by=InputError,
    ),
    refused(
        "calibration-nan", lambda x: x * 2, torch.tensor([1.0, NAN]), says="infinite or NaN", by=InputError
    ),
    refused(
        "called-nan",
        lambda x: x * 2,
        V,
        says="argument args[0] is NaN at index (1,)",
        by=InputError,
        call=lambda: (torch.tensor([1.0, NAN, 1.0, 1.0]),),
    ),
    refused(
        "exp-1e5",
        lambda x: torch.exp(x),
        torch.tensor([1e5, 1.0]),
        says="calibration input 0 makes exp (node ",
        by=InputError,
    ),
    refused(
        "product-1e400",
        lambda x: x.prod(),
        torch.full((20,), 1e20),
        says="calibration input 0 makes mul of aten.prod (node ",
        by=InputError,
    ),
    refused(
        "sine-1e38",
        lambda x: torch.sin(x),
        X * 1e37,
        says="its tables pass the range of float64 at this scale",
        by=UnsupportedOpError,
    ),
    refused(
        "tanh-1e-38",
        lambda x: torch.tanh(x),
        X * 1e-38,
        says="tanh from ",
        by=UnsupportedOpError,
    ),
    works("tanh-1e-10", lambda x: torch.tanh(x), X * 1e-10),
    works("sigmoid-by-hand", lambda x: torch.exp(-x) + 1, torch.tensor([-300.0, 1.0]).double()),
    works("exp-100", lambda x: torch.exp(x), torch.tensor([100.0, 1.0])),
    works("exp-700", lambda x: torch.exp(x.double()), torch.tensor([700.0, 1.0]), hardware=True),
    works("power-1e240", lambda x: x**8, torch.tensor([1e30, 1.0])),
    works("negative-exp-1e5", lambda x: torch.exp(-x.abs() * 1e5), X),
)


def _scales(p: str, error: float) -> list[Case]:
    more: dict[str, Any] = {"options": {"precision": p}, "error": error}
    made = {**more, "made": True}
    big, small = (1e13, -3e13, 2e13, 5e12), (1e-13, -3e-13, 2e-13, 5e-14)
    return [
        works(f"{p}-weights-1e13", weight(_product, *big), X, **made),
        works(f"{p}-weights-1e-13", weight(_product, *small), X, **made),
        works(f"{p}-layer-1e13", weight(_layer, *big), X, **made),
        works(f"{p}-layer-1e-13", weight(_layer, *small), X, **made),
        works(f"{p}-up-and-down", weight(lambda w, x: torch.tanh(x * w * 1e-13) + x, *big), X, **made),
        works(
            f"{p}-bias-far", weight(lambda w, x: F.linear(x, w[None], w.new_tensor([2.0])), *small), X, **made
        ),
        works(f"{p}-far-terms", lambda x: x * 1e13 + x * 1e-13, X, **more),
        works(f"{p}-far-compared", lambda x: x * 1e-20 > x * 1e20, X, **more),
        works(f"{p}-far-chosen", lambda x: torch.where(x > 0, x * 1e-20, x * 1e20), X, **more),
        works(f"{p}-far-joined", lambda x: torch.cat([x * 1e-20, x * 1e20]), X, **more),
        works(f"{p}-far-product", lambda x: (x * 1e20) @ (x.t() * 1e-15), X, **more),
        works(f"{p}-input-1e30", lambda x: (x * 1e-30 + 1, x > 0, x.abs().sum()), X * 1e30, **more),
        works(
            f"{p}-input-1e-30", lambda x: (x * 1e30 + 1, x > 0, torch.sigmoid(x * 1e30)), X * 1e-30, **more
        ),
        works(f"{p}-norm-1e13", lambda x: F.layer_norm(x, (4,)), X * 1e13, **more),
        works(f"{p}-gelu-1e13", lambda x: F.gelu(x), X * 1e13, **more),
        works(f"{p}-clamp-far", lambda x: x.clamp(-1e30, 1e-30), X, **more),
    ]


SCALES = tuple(case for p, error in FORMATS.items() for case in _scales(p, error))


class Wide(Weight):
    """Its parameter and what it computes are float64."""

    def __init__(self, use: Callable[[torch.Tensor, torch.Tensor], Any], *values: float) -> None:
        super().__init__(use, 0.0)
        self.w = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> Any:
        return self.use(self.w, x.double())


BEYOND = tuple(
    works(f"{p}-{name}-{size:g}", lambda u=use, s=size: Wide(u, s, 2 * s, 3.0, -s), X, made=True,
          options={"precision": p, "on_inaccurate": "ignore"}, error=error)
    for p, error in {**FORMATS, "auto": 2.0**-4}.items()
    for size in (1e200, -1e300)
    for name, use in {"product": _product, "layer": _layer}.items()
)  # fmt: skip
"""Squares of these weights pass float64."""


def _floats(dtype: torch.dtype) -> list[Case]:
    name, x = str(dtype).removeprefix("torch."), X.to(dtype)
    image = torch.linspace(-6, 6, 50).reshape(1, 2, 5, 5).to(dtype)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).to(dtype)

    def conv() -> nn.Module:
        layers = (
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        return nn.Sequential(*layers).to(dtype)

    return [
        works(f"{name}-mlp", mlp, x, made=True, error=2.0**-9, hardware=dtype is torch.bfloat16),
        works(f"{name}-conv", conv, image, made=True, error=2.0**-9),
        works(f"{name}-softmax", lambda x: x.softmax(-1), x),
        works(f"{name}-widened", lambda x: x.float() * 1.1, x),
        works(f"{name}-narrowed", lambda x: x.to(dtype) * 1.1, X, wanted=lambda: X.double() * 1.1),
        works(f"{name}-constant", lambda x: x * torch.tensor([1.1, 2.2, 3.3, 4.4], dtype=dtype), x),
        works(
            f"{name}-constant-returned",
            lambda x: (x, torch.tensor([1.5, 2.5], dtype=dtype)),
            x,
            wanted=lambda: (x, torch.tensor([1.5, 2.5], dtype=dtype)),
        ),
        works(f"{name}-mixed", lambda x, y: x + y, x, X),
        works(f"{name}-reduced", lambda x: (x > 0.1, x.argmax(), x.max(), x.sum(), x.mean(1)), x),
        works(f"{name}-square-of-300", lambda x: x * x, torch.tensor([300.0, 2.0]).to(dtype)),
    ]


DTYPES: tuple[Case, ...] = (
    *(case for dtype in (torch.float64, torch.float16, torch.bfloat16) for case in _floats(dtype)),
    works("float8", lambda x: x.float() * 2, X.to(torch.float8_e4m3fn)),
    *(
        refused(
            f"{d}",
            lambda x: x.float() * 2,
            torch.ones(3).to(d),
            says="of the input has no hardware form",
            by=UnsupportedOpError,
        )
        for d in (torch.uint16, torch.uint32, torch.uint64)
    ),
    refused(
        "autocast",
        lambda x: torch.autocast("cpu", torch.bfloat16)(torch.sin)(x),
        X,
        says="wrap_with_autocast",
        by=CaptureError,
    ),
)

BIG = 2**31 - 1
_I = torch.tensor([3, -70000, BIG, -BIG - 1])

INTEGERS: tuple[Case, ...] = tuple(
    works(f"int64-{name}", function, _I, hardware=True)
    for name, function in (
        ("square", lambda x: x * x),
        ("product", lambda x: x * x.flip(0) + x),
        ("cube", lambda x: x**3),
        ("matrix", lambda x: x.reshape(2, 2) @ x.reshape(2, 2)),
        ("layer", lambda x: F.linear(x.reshape(2, 2), x.new_tensor([[BIG, -BIG], [3, 2]]))),
        ("sum-of-squares", lambda x: (x * x).sum()),
        ("running-sum", lambda x: (x * x).cumsum(0)),
        ("scaled", lambda x: x * 2**40),
        ("shifted-far", lambda x: x + (2**63 - 1)),
        ("all-multiplied", lambda x: x.prod()),
        ("rest", lambda x: ((x * x) % 7, (x * x) // 7, x * x > 100, (x * x * x).abs())),
        ("as-float", lambda x: (x * x).float() * 1e-9),
    )
)
TOO_BIG = refused(
    "int64-input",
    lambda x: x * 2,
    _I,
    says="is 1099511627776 at index (0,): the hardware's int32 holds -2147483648 to 2147483647",
    by=InputError,
    call=lambda: (torch.tensor([2**40, 1, 1, 1]),),
)

CASES: tuple[Case, ...] = (*INFINITIES, *SCALES, *BEYOND, *DTYPES, *INTEGERS, TOO_BIG)
