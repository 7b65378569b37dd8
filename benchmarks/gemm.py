"""Cycles of the matrix kernels in simulation, beside their bounds and Calyx's own systolic generator.

    python benchmarks/gemm.py [--quick]

Prints, each with random int16 operands, requantised in the drain and checked against the software model:
- one N x N x N product on an N x N array, for one to three multiplier stages, and the generator's figure;
- streamed products, with the share of multiplier-cycles that do useful work;
- the linear layer 256 -> 256 at batch 1 on 64 multipliers, and elementwise work on 8 lanes.
--quick leaves out what takes more than a few seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import systolic_lang

from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.kernels.access import Operand, row_major, whole
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelSpec, reads, writes
from torchcalyx.kernels.contraction import accumulator
from torchcalyx.kernels.dot import Dot
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.expr import Expr, ExprBuilder
from torchcalyx.kernels.numerics import NumberFormat, fixed
from torchcalyx.kernels.systolic import Systolic
from torchcalyx.simulate import simulate
from torchcalyx.toolchain import compile_calyx

F16 = fixed(16, 8)
WEIGHT = fixed(16, 14)


def tensor(
    shape: Sequence[int], lanes: int, fmt: NumberFormat = F16, domain: Sequence[int] | None = None
) -> Operand:
    """A row-major tensor, broadcast to `domain` when given."""
    layout = row_major(shape, lanes)
    access = whole(shape, layout)
    return Operand(fmt, layout, access.expand(tuple(domain)) if domain else access)


def narrowed(inner: int, bias: bool) -> Expr:
    """Sum, or relu(sum + bias), rounded to 16 bits."""
    b = ExprBuilder()
    value = b.input(accumulator(F16, WEIGHT, inner))
    return b.build(b.maximum(b.add(value, b.input(F16)), b.const(0)) if bias else value, F16)


def product(size: int, array: int, stages: int = 1) -> Systolic:
    """A size x size x size product on an array x array engine."""
    left, right = tensor((size, size), array), tensor((size, size), array, WEIGHT)
    return Systolic(left, right, array, narrowed(size, False), (), tensor((size, size), array), stages)


def linear(inner: int, features: int, lanes: int) -> Dot:
    """relu(x @ W.T + bias) at batch 1 on lanes * lanes multipliers."""
    out, bias = tensor((1, features), lanes), tensor((features,), lanes, F16, (1, features))
    return Dot(tensor((1, inner), lanes), WEIGHT, features, lanes, narrowed(inner, True), (bias,), out)


def measured(spec: KernelSpec) -> int:
    """Simulated cycles of one call; asserts result and prediction."""
    rng = np.random.default_rng(0)
    arrays, images = [], {}
    for port in reads(spec):
        operand = port.operand
        shape = operand.layout.rows, operand.layout.cols
        arrays.append(rng.integers(operand.fmt.min, operand.fmt.max, shape, endpoint=True) >> 3)
        images[f"m_{port.name}"] = operand.layout.pack(arrays[-1])
    program = bench(spec)
    memories = []
    for port in program.ports:
        role: Role = "input" if port.access == "read" else "output"
        layout = port.operand.layout
        memories.append(
            DesignMemory(f"m_{port.name}", layout.words, layout.lanes, port.operand.fmt.width, role)
        )
    design = Design(program.futil, tuple(memories), program.cycles)
    result = simulate(design, compile_calyx(design.futil), [images])
    for port, want in zip(writes(spec), spec.emulate(*arrays).outputs, strict=True):
        assert np.array_equal(port.operand.layout.unpack(result.outputs[0][f"m_{port.name}"]), want)
    assert result.cycles == (spec.cycles(),), "predicted and simulated cycles differ"
    return result.cycles[0]


def square_products(quick: bool) -> None:
    """One tile, from go to done."""
    print("One N x N x N product on an N x N array, cycles from go to done (requantised in the drain)")
    print(
        f"{'N':>4} {'3N-2':>6} {'1 stage':>8} {'2 stages':>9} {'3 stages':>9}   systolic-lang (--fixed-dim)"
    )
    for size in (4, 8) if quick else (4, 8, 16):
        ours = [measured(product(size, size, stages)) for stages in (1, 2, 3)]
        try:
            dynamic, static = (
                systolic_lang.cycles(size, size, fixed=fixed_dim) for fixed_dim in (False, True)
            )
            rival = f"{dynamic} ({static})"
        except systolic_lang.Unavailable as reason:
            rival = f"not run: {reason}"
        print(f"{size:>4} {3 * size - 2:>6} {ours[0]:>8} {ours[1]:>9} {ours[2]:>9}   {rival}")


def streamed(quick: bool) -> None:
    """Many tiles without a bubble."""
    print("\nStreamed products, share of multiplier-cycles that do useful work")
    for size, array in ((64, 8),) if quick else ((64, 8), (128, 16)):
        spec = product(size, array)
        cycles = measured(spec)
        share = spec.useful_operations() / (cycles * array * array)
        shape, bound = f"{size}x{size}x{size} on {array}x{array}", size**3 // array**2
        print(f"{shape}: {cycles} cycles, {share:.2%} (bound {bound})")


def vectors() -> None:
    """Batch 1 and elementwise work."""
    cycles = measured(linear(256, 256, 8))
    share = cycles / 1024
    print(
        f"\nlinear 256 -> 256, batch 1, 64 multipliers, bias and ReLU: {cycles} cycles ({share:.3f} of 1024)"
    )
    b = ExprBuilder()
    x, y = b.input(F16), b.input(F16)
    expr = b.build(b.maximum(b.add(x, y), b.const(0)), F16)
    spec = elementwise(expr, [tensor((1024,), 8), tensor((1024,), 8)], tensor((1024,), 8))
    print(f"relu(x + y) of 1024 elements on 8 lanes: {measured(spec)} cycles (bound 128)")


def main(*arguments: str) -> None:
    """Print all tables."""
    if set(arguments) - {"--quick"}:
        sys.exit(f"usage: python benchmarks/gemm.py [--quick], not {' '.join(arguments)}")
    quick = "--quick" in arguments
    square_products(quick)
    streamed(quick)
    vectors()


if __name__ == "__main__":
    main(*sys.argv[1:])
