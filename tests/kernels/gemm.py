"""Operands, epilogues and kernels for the tests of the matrix products; multipliers of a program."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from torchcalyx.design import Design
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.arith.numerics import NumberFormat, ceil_div, fixed, product
from torchcalyx.kernels.ports.access import Layout, Operand, whole
from torchcalyx.kernels.products.dot import Dot
from torchcalyx.kernels.products.systolic import Systolic, systolic

ACT = fixed(16, 8)
WEIGHT = fixed(16, 14)
BIAS = fixed(16, 9)


def padded(
    shape: Sequence[int],
    fmt: NumberFormat,
    lanes: int,
    domain: Sequence[int] | None = None,
    *,
    exact: bool = False,
) -> Operand:
    """A tensor whose rows (last axis) begin at whole words.

    Unless `exact`, what pads a row belongs to the buffer too, so tests fill it with any values.
    """
    rows, cols = product(shape[:-1]), shape[-1]
    layout = Layout(rows, cols if exact else ceil_div(cols, lanes) * lanes, lanes)
    access = whole(shape, Layout(rows, cols, lanes))
    return Operand(fmt, layout, access if domain is None else access.expand(tuple(domain)))


def turned(shape: Sequence[int], fmt: NumberFormat, lanes: int) -> Operand:
    """An operand of `shape` stored with its last two axes swapped."""
    stored = padded((*shape[:-2], shape[-1], shape[-2]), fmt, lanes)
    n = len(shape)
    return replace(stored, access=stored.access.permute((*range(n - 2), n - 1, n - 2)))


def epilogue(total: Value, out: NumberFormat, memories: int = 1, fmt: NumberFormat = BIAS) -> Expr:
    """relu(sum + memory 0 + memory 1 + ...) narrowed to `out`."""
    b = ExprBuilder()
    value = b.input(total)
    for _ in range(memories):
        value = b.add(value, b.input(fmt))
    return b.build(b.maximum(value, b.const(0)) if memories else value, out)


def linear(
    rows: tuple[int, ...],
    inner: int,
    features: int,
    lanes: int,
    columns: int,
    left: NumberFormat = ACT,
    weight: NumberFormat = WEIGHT,
    out: NumberFormat = ACT,
    mul_stages: int = 1,
) -> Dot:
    """relu(x @ W.T + bias) on the dot array; x of shape (*rows, inner)."""
    domain = (*rows, features)
    return Dot(
        padded((*rows, inner), left, lanes), weight, features, columns,
        epilogue(Dot.accumulator(left, weight, inner), out),
        (padded((features,), BIAS, lanes, domain),), padded(domain, out, lanes, exact=True), mul_stages,
    )  # fmt: skip


def matmul(
    batch: tuple[int, ...],
    m: int,
    n: int,
    inner: int,
    rows: int,
    lanes: int,
    feeds: str = "contracted free",
    left: NumberFormat = ACT,
    right: NumberFormat = WEIGHT,
    out: NumberFormat = ACT,
    mul_stages: int = 1,
    residual: bool = False,
    bias: bool = True,
) -> Systolic:
    """relu(a @ b + bias + residual) on the array; `feeds` names how a and b are stored."""
    domain = (*batch, m, n)
    a_feed, b_feed = feeds.split()
    a = (padded if a_feed == "contracted" else turned)((*batch, m, inner), left, lanes)
    b = (padded if b_feed == "free" else turned)((*batch, inner, n), right, lanes)
    extras = [padded((n,), BIAS, lanes, domain)] if bias else []
    extras += [padded(domain, BIAS, lanes)] if residual else []
    expr = epilogue(Systolic.accumulator(left, right, inner), out, len(extras))
    return systolic(a, b, rows, expr, tuple(extras), padded(domain, out, lanes, exact=True), mul_stages)


def multipliers(design: Design) -> int:
    """Multipliers in the whole hierarchy below `main`, counted in the program text."""
    bodies: dict[str, str] = {}
    for part in design.futil.split("component ")[1:]:
        bodies[part.split("(", 1)[0].split("<")[0].strip()] = part

    def count(name: str) -> int:
        own = 0
        for line in bodies[name].splitlines():
            if "=" not in line or line.strip().startswith("ref "):
                continue
            kind = line.split("=", 1)[1].strip().split("(")[0]
            own += 1 if kind == "tc_mul" else count(kind) if kind in bodies and kind != name else 0
        return own

    return count("main")


def with_stable_names(text: str) -> str:
    """Program text whose component names end in numbers, not in digests of the parameters' printed form."""
    names: dict[str, str] = {}
    return re.sub(r"_[0-9a-f]{8}(?![0-9a-f])", lambda m: names.setdefault(m[0], f"_n{len(names)}"), text)
