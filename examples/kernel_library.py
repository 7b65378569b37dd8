"""A generator of the kernel library used alone, without PyTorch: a matrix product on a systolic array.

    python examples/kernel_library.py [N]

`bench` puts a program around one kernel; the program is compiled by Calyx, simulated and compared with the kernel's
own software model (to the bit) and with numpy.
"""

from __future__ import annotations

import sys

import numpy as np

from torchcalyx.design import Design, DesignMemory
from torchcalyx.kernels.access import Operand, row_major, whole
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.expr import ExprBuilder
from torchcalyx.kernels.numerics import NumberFormat, fixed
from torchcalyx.kernels.systolic import Systolic, systolic
from torchcalyx.simulate import simulate
from torchcalyx.toolchain import compile_calyx


def matrix(rows: int, cols: int, fmt: NumberFormat, lanes: int) -> Operand:
    """A row-major matrix in a memory of `lanes` elements a word."""
    layout = row_major((rows, cols), lanes)
    return Operand(fmt, layout, whole((rows, cols), layout))


def relu_of_product(size: int) -> Systolic:
    """relu(a @ b) of square matrices on a size x size array: the ReLU runs in the array's drain."""
    element = fixed(16, 12)  # 16 bits, 12 of them behind the binary point
    a, b, y = (matrix(size, size, element, lanes=size) for _ in range(3))
    e = ExprBuilder()
    total = e.input(Systolic.accumulator(a.fmt, b.fmt, size))  # as wide as the sum needs
    epilogue = e.build(e.maximum(total, e.const(0)), y.fmt)  # narrowing: half to even, saturating
    return systolic(a, b, size, epilogue, (), y)


def run(spec: KernelSpec, *operands: np.ndarray) -> tuple[np.ndarray, int]:
    """Stored integers of the result and the cycles of one simulated call."""
    program = bench(spec)
    memories, images = [], {}
    for port in program.ports:
        layout, fmt, name = port.operand.layout, port.operand.fmt, f"m_{port.name}"
        role = "input" if port.access == "read" else "output"
        memories.append(DesignMemory(name, layout.words, layout.lanes, fmt.width, role))
        if port.access == "read":
            images[name] = layout.pack(fmt.to_image(operands[len(images)]))
    design = Design(program.futil, tuple(memories), program.cycles)
    result = simulate(design, compile_calyx(design.futil), [images])
    image = result.outputs[0][memories[-1].name]
    return port.operand.fmt.from_image(port.operand.layout.unpack(image)), result.cycles[0]


def main(size: int = 8) -> None:
    """One product of random matrices."""
    spec = relu_of_product(size)
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, size, size))
    stored = [spec.left.fmt.quantize(a), spec.right.fmt.quantize(b)]
    got, cycles = run(spec, *stored)
    model = spec.emulate(*stored).outputs[0]
    error = np.abs(spec.out.fmt.dequantize(got).reshape(size, size) - np.maximum(a @ b, 0)).max()
    assert np.array_equal(got.reshape(model.shape), model), "RTL and software model differ"
    assert cycles == spec.cycles()
    assert error < 2.0**-10
    assert "torch" not in sys.modules
    use = spec.useful_operations() / (cycles * spec.engine().multipliers)
    print(f"{size}x{size}x{size} on {spec.engine().multipliers} multipliers: {cycles} cycles ({use:.0%} useful)")
    print(f"RTL = software model to the bit, max error against numpy {error:.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
