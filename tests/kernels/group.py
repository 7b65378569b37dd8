"""Many kernels in one program: a grid of parameters costs one simulator build."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests import tally
from tests.kernels.support import Array, random_array
from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.errors import ToolNotFound
from torchcalyx.kernels import hw
from torchcalyx.kernels.contract import KernelSpec, Port, reads, writes
from torchcalyx.kernels.engine import engine_component
from torchcalyx.kernels.engine_spec import merge
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.toolchain import compile_calyx, find_tool


def program(specs: Sequence[KernelSpec]) -> Design:
    """`main` calls each kernel once; memories are named m<kernel>_<port>."""
    prog = hw.Program()
    needs = tuple(n for n in (s.engine() for s in specs) if n is not None)
    engine = merge(needs) if needs else None
    main = prog.component("main")
    if engine is not None:
        main.instance(engine_component(prog, engine), "engine")
    calls, memories = [], []
    for number, spec in enumerate(specs):
        words = {p.name: p.operand.layout.words for p in spec.ports()}
        bound = {"engine": "engine"} if spec.engine() else {}
        for port in spec.ports():
            bound[port.name] = f"m{number}_{port.name}"
            memories.append(memory(main, bound[port.name], port))
        cell = f"kernel{number}"
        main.instance(spec.build(prog, words, engine), cell)
        calls.append(main.invoke(cell, bound))
    main.control(hw.sequence(calls))
    return Design(prog.text(), tuple(memories), sum(s.cycles() for s in specs))


def memory(main: hw.Component, name: str, port: Port) -> DesignMemory:
    layout = port.operand.layout
    main.memory_external(name, port.operand.width, layout.words)
    role: Role = "input" if port.access == "read" else "output"
    return DesignMemory(name, layout.words, layout.lanes, port.operand.fmt.width, role)


def quickest() -> Simulator:
    """Icarus, or Verilator where Icarus is missing."""
    try:
        find_tool("icarus")
    except ToolNotFound:
        return "verilator"
    return "icarus"


def check_all(
    specs: Sequence[KernelSpec], *, seed: int = 0, vectors: int = 2, simulator: Simulator | None = None
) -> None:
    """Random vectors without a reset: RTL equals the software model, cycles add up to the declared ones.

    simulator: by default Icarus where it is installed, because it builds such wide programs ten times faster.
    """
    rng = np.random.default_rng(seed)
    data: list[list[list[Array]]] = [
        [[random_array(rng, p.operand) for p in reads(s)] for s in specs] for _ in range(vectors)
    ]
    images = [
        {
            f"m{n}_{p.name}": p.operand.layout.pack(p.operand.fmt.to_image(a))
            for n, (s, arrays) in enumerate(zip(specs, vector, strict=True))
            for p, a in zip(reads(s), arrays, strict=True)
        }
        for vector in data
    ]
    design = program(specs)
    chosen = simulator or quickest()
    result = simulate(design, compile_calyx(design.futil), images, simulator=chosen)
    assert set(result.cycles) == {design.cycles}
    for vector, outputs in zip(data, result.outputs, strict=True):
        for number, (spec, arrays) in enumerate(zip(specs, vector, strict=True)):
            for port, want in zip(writes(spec), spec.emulate(*arrays).outputs, strict=True):
                layout, fmt = port.operand.layout, port.operand.fmt
                have = fmt.from_image(layout.unpack(outputs[f"m{number}_{port.name}"]))
                written = np.zeros(want.shape, dtype=bool)
                port.operand.access.write(written, np.ones(port.operand.access.sizes, dtype=bool))
                assert np.array_equal(want[written], have[written]), f"{port.name} of {spec}\n{want}\n{have}"
    tally.count(vectors=vectors * len(specs), cycles=vectors * len(specs))
