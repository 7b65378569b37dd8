"""Elementwise kernels: RTL equals the software model, which equals plain Python arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.kernels.support import check, random_array, tensor
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.elementwise import elementwise

F16 = fixed(16, 8)


def chain(fmt: NumberFormat = F16, out: NumberFormat = F16) -> Expr:
    """relu(x + y) * z * 77/8."""
    b = ExprBuilder()
    x, y, z = b.input(fmt), b.input(fmt), b.input(fmt)
    product = b.mul(b.maximum(b.add(x, y), b.const(0)), z)
    return b.build(b.scale_by(product, 77, 3), out)


@pytest.mark.parametrize("lanes", [1, 3, 8])
@pytest.mark.parametrize("domain", [(1,), (7,), (5, 11), (2, 3, 8), (4, 1)])
def test_chain_equals_its_model_over_shapes(domain: tuple[int, ...], lanes: int) -> None:
    last = (domain[-1],)
    ones = (*domain[:-1], 1)
    operands = [
        tensor(domain, F16, lanes),
        tensor(last, F16, lanes, domain),
        tensor(ones, F16, lanes, domain),
    ]
    check(elementwise(chain(), operands, tensor(domain, F16, lanes)))


def test_both_simulators_agree() -> None:
    domain = (3, 5)
    operands = [tensor(domain, F16, 4), tensor((5,), F16, 4, domain), tensor((3, 1), F16, 4, domain)]
    check(elementwise(chain(), operands, tensor(domain, F16, 4)), simulator="icarus")


def every_operation() -> Expr:
    """Each operation of the language in one expression."""
    b = ExprBuilder()
    x, y, c = b.input(fixed(9, 5)), b.input(fixed(12, 3)), b.input(BOOL)
    n = b.input(integer(7))
    terms = [
        b.add(x, y), b.sub(x, y), b.mul(x, y), b.neg(x), b.abs(y), b.minimum(x, y), b.maximum(x, y),
        b.less(x, y), b.equal(x, y), b.select(c, x, y), b.scale_by(x, -13, 2), b.scale_by(y, 1, -3),
        b.quant(x, fixed(4, 1)), b.quant(y, fixed(20, 9)), b.quant(x, fixed(6, 3, signed=False)),
        b.logic_not(c),
        b.bitwise("and", n, b.const(13)), b.bitwise("or", n, b.const(-6)), b.bitwise("xor", n, b.const(5)),
        b.bitwise_not(n),
    ]  # fmt: skip
    total = terms[0]
    for weight, term in enumerate(terms[1:], start=2):
        total = b.add(total, b.scale_by(term, weight, 0))
    return b.build(total, fixed(24, 6))


def exactly(x: int, y: int, c: int, n: int) -> int:
    """The same in rational arithmetic."""
    fx, fy = Fraction(x, 32), Fraction(y, 8)

    def quant(value: Fraction, width: int, frac: int, signed: bool = True) -> Fraction:
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        return Fraction(min(max(round(value * (1 << frac)), low), high), 1 << frac)

    terms = [
        fx + fy, fx - fy, fx * fy, -fx, abs(fy), min(fx, fy), max(fx, fy),
        Fraction(fx < fy), Fraction(fx == fy), fx if c else fy, fx * Fraction(-13, 4), fy * 8,
        quant(fx, 4, 1), quant(fy, 20, 9), quant(fx, 6, 3, False), Fraction(1 - c),
        Fraction(n & 13), Fraction(n | -6), Fraction(n ^ 5), Fraction(~n),
    ]  # fmt: skip
    total = terms[0] + sum(weight * term for weight, term in enumerate(terms[1:], start=2))
    return int(quant(total, 24, 6) * 64)


def test_every_operation_in_hardware_and_in_rational_arithmetic() -> None:
    expr = every_operation()
    shape = (50,)
    formats = [fixed(9, 5), fixed(12, 3), BOOL, integer(7)]
    spec = elementwise(expr, [tensor(shape, f, 4) for f in formats], tensor(shape, fixed(24, 6), 4))
    rng = np.random.default_rng(5)
    arrays = [random_array(rng, o) for o in spec.operands]
    model = spec.emulate(*arrays).outputs[0].ravel()
    for i, got in enumerate(model):
        assert got == exactly(*(int(a.ravel()[i]) for a in arrays))
    check(spec)
    check(spec, simulator="icarus")


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_multiplier_stages_lengthen_the_pipeline_only(stages: int) -> None:
    operands = [tensor((20,), F16, 4) for _ in range(3)]
    spec = elementwise(chain(), operands, tensor((20,), F16, 4), mul_stages=stages)
    base = elementwise(chain(), operands, tensor((20,), F16, 4))
    assert spec.cycles() == base.cycles() + stages - 1
    check(spec)


def test_wide_formats_do_not_wrap() -> None:
    fmt = fixed(32, 16)
    operands = [tensor((9,), fmt, 2) for _ in range(3)]
    check(elementwise(chain(fmt, fmt), operands, tensor((9,), fmt, 2)))


def test_1024_elements_on_8_lanes_take_at_most_140_cycles() -> None:
    b = ExprBuilder()
    x, y = b.input(F16), b.input(F16)
    expr = b.build(b.maximum(b.add(x, y), b.const(0)), F16)
    spec = elementwise(expr, [tensor((1024,), F16, 8), tensor((1024,), F16, 8)], tensor((1024,), F16, 8))
    assert spec.cycles() <= 128 + 12
    check(spec, vectors=1)


def test_a_transposed_operand_is_refused_with_the_reason() -> None:
    b = ExprBuilder()
    expr = b.build(b.input(F16), F16)
    source = tensor((8, 8), F16, 4)
    turned = type(source)(source.fmt, source.layout, source.access.permute((1, 0)))
    with pytest.raises(KernelParameterError, match="operand 0: neighbours of loop dimension 1 lie 8 columns"):
        elementwise(expr, [turned], tensor((8, 8), F16, 4))


def test_a_partial_word_is_never_written() -> None:
    b = ExprBuilder()
    expr = b.build(b.input(F16), F16)
    target = tensor((8,), F16, 4)
    part = type(target)(F16, target.layout, target.access.slice((0,), (1,), (6,)))
    with pytest.raises(KernelParameterError, match="rows of 6 elements end inside words of 4 lanes"):
        elementwise(expr, [tensor((6,), F16, 4)], part)
