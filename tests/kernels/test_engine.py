"""One engine, several kernels: the multipliers are shared, counted, and never used by two at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.gemm import linear, matmul, multipliers
from tests.kernels.group import check_all, program
from tests.kernels.support import tensor
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.engine.spec import ArrayShape, DotShape, EngineSpec, merge

F16 = fixed(16, 8)


def products(shape: tuple[int, ...], lanes: int) -> KernelSpec:
    """x * y + x, a vector kernel with one multiplier per lane."""
    b = ExprBuilder()
    x, y = b.input(F16), b.input(F16)
    expr = b.build(b.add(b.mul(x, y), x), F16)
    return elementwise(expr, [tensor(shape, F16, lanes)] * 2, tensor(shape, F16, lanes))


MIXES: dict[str, tuple[list[KernelSpec], int]] = {
    "dot and vector": ([linear((2,), 9, 7, 4, 2), products((5, 6), 4)], 8),
    "array and vector": ([matmul((), 7, 9, 5, 3, 4), products((9,), 4)], 12),
    "array and dot": ([matmul((), 5, 6, 7, 4, 4), linear((2,), 9, 7, 4, 4)], 16),
    "small array and dot": ([matmul((), 5, 6, 7, 1, 4), linear((2,), 9, 7, 4, 4)], 16),
    "small dot and array": ([matmul((), 5, 6, 7, 4, 4), linear((2,), 9, 7, 4, 1)], 16),
    "wide vector": ([linear((2,), 4, 3, 4, 1), products((9,), 8)], 8),
    "all": ([matmul((2,), 5, 6, 7, 3, 4), products((7,), 4), linear((2,), 9, 7, 4, 2),
             matmul((), 3, 5, 9, 3, 4)], 12),
    "all feeds": ([matmul((), 5, 6, 7, 2, 4, f) for f in ("free free", "free contracted", "contracted free")]
                  + [linear((1,), 5, 6, 4, 4)], 16),
}  # fmt: skip


@pytest.mark.parametrize("mix", MIXES)
def test_kernels_of_one_program_share_the_multipliers(mix: str) -> None:
    specs, expected = MIXES[mix]
    design = check_all(specs, rounds=2, simulator="verilator")
    assert multipliers(design) == expected


def test_a_shared_engine_in_both_simulators() -> None:
    check_all(MIXES["all"][0], simulator="icarus", vectors=1)


def test_operand_widths_may_differ_between_kernels() -> None:
    narrow = linear((2,), 9, 7, 4, 2, fixed(8, 4), fixed(8, 6), fixed(8, 4))
    unsigned = linear((1,), 5, 6, 4, 2, fixed(12, 4, signed=False), fixed(20, 18), fixed(16, 4))
    design = check_all([narrow, unsigned, linear((2,), 6, 5, 4, 2)], rounds=2, simulator="verilator")
    assert multipliers(design) == 8


def test_a_program_with_one_use_has_no_multiplexer_in_front_of_the_multipliers() -> None:
    for spec in (linear((2,), 9, 7, 4, 2), matmul((), 7, 9, 5, 3, 4)):
        text = program([spec]).futil
        assert "array_on" not in text and "dot_on" not in text


def test_engines_merge_to_the_least_that_serves_all() -> None:
    a = EngineSpec(8, 16, vector=4, dot=DotShape(8, 2, 30))
    b = EngineSpec(12, 9, dot=DotShape(8, 2, 34), array=ArrayShape(4, 8, 40, ("free",), ("free",)))
    c = EngineSpec(4, 4, vector=2, array=ArrayShape(4, 8, 33, ("contracted",), ("free",)))
    assert merge((a, b, c)) == EngineSpec(
        12, 16, 1, 4, DotShape(8, 2, 34), ArrayShape(4, 8, 40, ("contracted", "free"), ("free",))
    )
    assert merge((a, b, c)).multipliers == 32


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (EngineSpec(8, 8, 2), "multipliers with 1 and 2 stages in one program"),
        (EngineSpec(8, 8, dot=DotShape(4, 4, 30)), "dot arrays .* in one program"),
        (
            EngineSpec(8, 8, array=ArrayShape(2, 8, 30, ("free",), ("free",))),
            "systolic arrays .* in one program",
        ),
    ],
)
def test_engines_of_different_shapes_do_not_merge(other: EngineSpec, reason: str) -> None:
    shape = ArrayShape(4, 8, 30, ("free",), ("free",))
    with pytest.raises(ValueError, match=reason):
        merge((EngineSpec(8, 8, dot=DotShape(8, 2, 30), array=shape), other))


def test_the_program_text_does_not_depend_on_the_order_of_feeds() -> None:
    spec = matmul((), 3, 3, 3, 3, 3)
    assert program([spec]).futil == program([replace(spec)]).futil
