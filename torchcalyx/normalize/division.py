"""Lowerings of division and remainder by values known at compile time.

A power of two becomes an exact product; any other single divisor keeps a true division ("div_const");
divisors that differ along an axis become a product with their reciprocals, at most one unit in the last place
away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Ref, Value, torch_dtype
from torchcalyx.normalize.elementwise import as_value, scaled


def _divisor(b: Builder, a: Args) -> Known | Reject:
    other = a.operand("other")
    if isinstance(other, Ref):
        return Reject(
            "no kernel yet for division by a computed tensor; the divisor must be known at compile time"
        )
    known = as_value(b, other, a.out.dtype)
    assert isinstance(known, Known)
    if bool((known.tensor == 0).any()):
        return Reject("the divisor is zero")
    return known


def _single(known: Known) -> int | float | None:
    first: int | float = known.tensor.reshape(-1)[0].item()
    return first if bool((known.tensor == first).all()) else None


def divided(b: Builder, x: Value, known: Known, shape: tuple[int, ...]) -> Value:
    """x / known in the dtype of x, broadcast to `shape`."""
    number = _single(known)
    if number is None:
        reciprocal = known.tensor.to(torch.float64).reciprocal().to(torch_dtype(x.dtype))
        return b.emit("mul", x, known.to(reciprocal))
    if abs(math.frexp(number)[0]) == 0.5 and math.isfinite(1 / number):
        return b.expand(scaled(b, x, 1 / number), shape)
    return b.expand(b.emit("div_const", x, value=float(number)), shape)


def _whole_quotient(b: Builder, a: Args, mode: str) -> Result:
    operands = _whole_operands(b, a)
    if isinstance(operands, Reject):
        return operands
    x, number = operands
    floor = b.emit("floor_div_const", x, value=number)
    if mode == "floor":
        return b.expand(floor, a.out.shape)
    return b.expand(b.emit("add", floor, _inexact_negative(b, x, floor, number)), a.out.shape)


def _whole_operands(b: Builder, a: Args) -> tuple[Value, int] | Reject:
    if a.out.dtype in (*FLOATS, "bool"):
        return Reject(f"no kernel yet for rounding division in {a.out.dtype}; integers only")
    known = _divisor(b, a)
    if isinstance(known, Reject):
        return known
    number = _single(known)
    if number is None:
        return Reject("no kernel yet for rounding division by several divisors")
    return as_value(b, a.operand("self"), a.out.dtype), int(number)


def _inexact_negative(b: Builder, x: Value, floor: Value, number: int) -> Value:
    """1 where truncation differs from floor: negative quotient with a rest; else 0."""
    zero = b.known(0, x.dtype)
    rest = b.emit("ne", b.emit("remainder_const", x, value=number), zero)
    return b.cast(b.emit("logical_and", rest, b.emit("lt", floor, zero)), x.dtype)


def _remainder(b: Builder, a: Args) -> Result:
    operands = _whole_operands(b, a)
    if isinstance(operands, Reject):
        return operands
    x, number = operands
    return b.expand(b.emit("remainder_const", x, value=number), a.out.shape)


def _fmod(b: Builder, a: Args) -> Result:
    operands = _whole_operands(b, a)
    if isinstance(operands, Reject):
        return operands
    x, number = operands
    rest = b.emit("remainder_const", x, value=number)
    step = _inexact_negative(b, x, b.emit("floor_div_const", x, value=number), number)
    return b.expand(b.emit("sub", rest, scaled(b, step, number)), a.out.shape)


WHOLE: Mapping[str, Lowering] = {
    "div": lambda b, a: _whole_quotient(b, a, a["rounding_mode"]),
    "floor_divide": lambda b, a: _whole_quotient(b, a, "floor"),
    "remainder": _remainder,
    "fmod": _fmod,
}
"""By name of the operator, for results that are integers."""
