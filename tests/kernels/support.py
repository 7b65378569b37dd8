"""Runs one kernel through the compiler and a simulator and compares it with its software model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tests import tally
from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelSpec, reads, writes
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.kernels.products.dot import Dot
from torchcalyx.kernels.products.window import WindowDot
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.tools.toolchain import compile_calyx

Array = npt.NDArray[np.int64]


def tensor(
    shape: Sequence[int], fmt: NumberFormat, lanes: int, domain: Sequence[int] | None = None
) -> Operand:
    """A row-major operand, broadcast to `domain` when given."""
    layout = row_major(shape, lanes)
    access = whole(shape, layout)
    return Operand(fmt, layout, access if domain is None else access.expand(tuple(domain)))


def random_array(rng: np.random.Generator, operand: Operand) -> Array:
    """Stored integers over the whole range of the format, ends included."""
    fmt, layout = operand.fmt, operand.layout
    values = rng.integers(fmt.min, fmt.max, size=(layout.rows, layout.cols), endpoint=True, dtype=np.int64)
    ends = rng.random(values.shape)
    return np.where(ends < 0.1, fmt.min, np.where(ends > 0.9, fmt.max, values))


def inputs(spec: KernelSpec, rng: np.random.Generator) -> list[Array]:
    """Random stored integers of every memory read; constant weights are packed, and small enough that few
    results saturate.
    """
    arrays = [random_array(rng, p.operand) for p in reads(spec)]
    if isinstance(spec, Dot | WindowDot):
        fmt, shape = spec.weight_fmt, (spec.features, spec.inner)
        weights = rng.integers(fmt.min, fmt.max, shape, endpoint=True, dtype=np.int64)
        narrowing = min(spec.inner.bit_length() - 1, fmt.width - 2)
        arrays[1] = spec.pack(weights >> max(0, narrowing))
    return arrays


def differing(spec: KernelSpec, wanted: Sequence[Array], found: Sequence[Array]) -> str:
    """Where written elements differ, port by port; "" when they agree."""
    for port, want, have in zip(writes(spec), wanted, found, strict=True):
        written = np.zeros(want.shape, dtype=bool)
        port.operand.access.write(written, np.ones(port.operand.access.sizes, dtype=bool))
        if not np.array_equal(want[written], have[written]):
            return f"port {port.name} of {spec}\n{want}\n{have}"
    return ""


def design_of(spec: KernelSpec, calls: int = 1) -> Design:
    """The bench program as a design; every memory's element keeps the port's format."""
    program = bench(spec, calls)
    memories = []
    for port in program.ports:
        role: Role = "input" if port.access == "read" else "output"
        layout = port.operand.layout
        memories.append(
            DesignMemory(f"m_{port.name}", layout.words, layout.lanes, port.operand.fmt.width, role)
        )
    return Design(program.futil, tuple(memories), program.cycles)


def run(
    spec: KernelSpec, vectors: Sequence[Sequence[Array]], simulator: Simulator = "verilator", calls: int = 1
) -> list[list[Array]]:
    """Outputs of the simulated kernel for each vector; asserts that the declared cycles are the simulated
    ones.
    """
    design = design_of(spec, calls)
    ports = reads(spec)
    images = [
        {
            f"m_{p.name}": p.operand.layout.pack(p.operand.fmt.to_image(a))
            for p, a in zip(ports, vector, strict=True)
        }
        for vector in vectors
    ]
    result = simulate(design, compile_calyx(design.futil), images, simulator=simulator)
    assert set(result.cycles) == {design.cycles}, (
        f"declared {design.cycles} cycles, simulated {set(result.cycles)}"
    )
    found = []
    for outputs in result.outputs:
        arrays = []
        for port in writes(spec):
            fmt = port.operand.fmt
            arrays.append(fmt.from_image(port.operand.layout.unpack(outputs[f"m_{port.name}"])))
        found.append(arrays)
    return found


def check(
    spec: KernelSpec, *, seed: int = 0, vectors: int = 3, simulator: Simulator = "verilator", calls: int = 1
) -> None:
    """Random vectors (no reset between them): RTL equals the software model, cycles as declared."""
    rng = np.random.default_rng(seed)
    data = [inputs(spec, rng) for _ in range(vectors)]
    for vector, got in zip(data, run(spec, data, simulator, calls), strict=True):
        problem = differing(spec, spec.emulate(*vector).outputs, got)
        assert not problem, problem
    tally.count(vectors=vectors, cycles=vectors)
