"""A generator of the kernel library used alone, without PyTorch: a matrix product on a systolic array.

    python examples/kernel_library.py [N]

`bench` puts a program around one kernel. It is compiled by Calyx, simulated and compared with the kernel's
own software model (to the bit) and with numpy.
"""

from __future__ import annotations

import sys

import numpy as np

from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import IntArray, NumberFormat, fixed
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelSpec, reads, writes
from torchcalyx.kernels.ports.access import Layout, Operand, whole
from torchcalyx.kernels.products.systolic import Systolic, systolic
from torchcalyx.simulate import simulate
from torchcalyx.tools.toolchain import compile_calyx


def matrix(rows: int, cols: int, fmt: NumberFormat, lanes: int) -> Operand:
    """A row-major matrix in a memory of `lanes` elements a word, each row in words of its own."""
    layout = Layout(rows, cols, lanes)
    return Operand(fmt, layout, whole((rows, cols), layout))


def relu_of_product(size: int) -> Systolic:
    """relu(a @ b) of square matrices on a size x size array: the ReLU runs in the array's drain."""
    element = fixed(16, 12)  # 16 bits, 12 of them behind the binary point
    a, b, y = (matrix(size, size, element, lanes=size) for _ in range(3))
    e = ExprBuilder()
    total = e.input(Systolic.accumulator(a.fmt, b.fmt, size))  # as wide as the sum needs
    epilogue = e.build(e.maximum(total, e.const(0)), y.fmt)  # narrowing: half to even, saturating
    return systolic(a, b, size, epilogue, (), y)


def run(spec: KernelSpec, *operands: IntArray) -> tuple[IntArray, int]:
    """Stored integers of the result and the cycles of one simulated call."""
    program = bench(spec)
    memories = []
    for port in program.ports:
        layout, width = port.operand.layout, port.operand.fmt.width
        role: Role = "input" if port.access == "read" else "output"
        memories.append(DesignMemory(f"m_{port.name}", layout.words, layout.lanes, width, role))
    images = {
        f"m_{port.name}": port.operand.layout.pack(port.operand.fmt.to_image(values))
        for port, values in zip(reads(spec), operands, strict=True)
    }
    design = Design(program.futil, tuple(memories), program.cycles)
    result = simulate(design, compile_calyx(design.futil), [images])
    (y,) = writes(spec)
    return y.operand.fmt.from_image(y.operand.layout.unpack(result.outputs[0]["m_y"])), result.cycles[0]


def main(size: int = 8) -> None:
    """One product of random matrices."""
    spec = relu_of_product(size)
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, size, size))
    stored = spec.left.fmt.quantize(a), spec.right.fmt.quantize(b)
    got, cycles = run(spec, *stored)
    error = np.abs(spec.out.fmt.dequantize(got) - np.maximum(a @ b, 0)).max()
    assert np.array_equal(got, spec.emulate(*stored).outputs[0]), "RTL and software model differ"
    assert cycles == spec.cycles()
    assert error < 2.0**-10
    multipliers = spec.engine().multipliers
    use = spec.useful_operations() / (cycles * multipliers)
    print(f"{size}x{size}x{size} on {multipliers} multipliers: {cycles} cycles, multipliers {use:.0%} busy")
    print(f"RTL equals the software model to the bit, max error against numpy {error:.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
