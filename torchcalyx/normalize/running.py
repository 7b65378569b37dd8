"""Lowerings of running products and of running logarithms of sums: partial results of spans that double.

After step k every place holds its span of 2**k elements combined, so a row of n takes log2(n) elementwise
steps and rounds as often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Result
from torchcalyx.normalize.builder import Builder, Value

aten = torch.ops.aten


def running(b: Builder, x: Value, dim: int, combine: Callable[[Value, Value], Value]) -> Value:
    """All elements up to each place along dim combined by an associative function."""
    if not x.shape or x.shape[dim] == 1:
        return x
    size, reach = x.shape[dim], 1
    while reach < size:
        later = b.slice(x, dim, reach, 1, size - reach)
        earlier = b.slice(x, dim, 0, 1, size - reach)
        x = b.cat([b.slice(x, dim, 0, 1, reach), combine(earlier, later)], dim)
        reach *= 2
    return x


def _cumprod(b: Builder, a: Args) -> Result:
    a.ignore("dtype")
    x = b.cast(a.tensor("self"), a.out.dtype)
    return running(b, x, a["dim"], lambda p, q: b.emit("mul", p, q))


def _log_cumulative(b: Builder, a: Args) -> Result:
    """ln(e^p + e^q) = max(p, q) + ln(1 + e^-|p - q|): nothing leaves the range of x and its count."""
    x = b.cast(a.tensor("self"), a.out.dtype)

    def both(p: Value, q: Value) -> Value:
        apart = b.emit("abs", b.emit("sub", p, q))
        rest = b.emit("log1p", b.emit("exp", b.emit("neg", apart)))
        return b.emit("add", b.emit("maximum", p, q), rest)

    return running(b, x, a["dim"], both)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.cumprod.default: _cumprod,
    aten.logcumsumexp.default: _log_cumulative,
    aten._logcumsumexp.default: _log_cumulative,
}
