"""Many kernels in one program: a grid of parameters costs one simulator build."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests import tally
from tests.kernels.support import differing, inputs
from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.errors import ToolNotFound
from torchcalyx.kernels.contract import KernelSpec, Port, reads, writes
from torchcalyx.kernels.engine.engine import engine_component
from torchcalyx.kernels.engine.spec import merge
from torchcalyx.kernels.rtl import hw
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.tools.toolchain import compile_calyx, find_tool


def program(specs: Sequence[KernelSpec], rounds: int = 1) -> Design:
    """`main` calls the kernels in turn, `rounds` times, on one shared engine; memories are named
    m<kernel>_<port>.
    """
    prog = hw.Program()
    needs = tuple(n for n in (s.engine() for s in specs) if n is not None)
    engine = merge(needs) if needs else None
    main = prog.component("main")
    if engine is not None:
        main.instance(engine_component(prog, engine), "engine")
    bindings, memories = [], []
    for number, spec in enumerate(specs):
        words = {p.name: p.operand.layout.words for p in spec.ports()}
        bound = {"engine": "engine"} if spec.engine() else {}
        for port in spec.ports():
            bound[port.name] = f"m{number}_{port.name}"
            memories.append(memory(main, bound[port.name], port))
        cell = f"kernel{number}"
        main.instance(spec.build(prog, words, engine), cell)
        bindings.append((cell, bound))
    calls = [main.invoke(cell, bound) for _ in range(rounds) for cell, bound in bindings]
    main.control(hw.sequence(calls))
    return Design(prog.text(), tuple(memories), rounds * sum(s.cycles() for s in specs))


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
    specs: Sequence[KernelSpec],
    *,
    seed: int = 0,
    vectors: int = 2,
    rounds: int = 1,
    simulator: Simulator | None = None,
) -> Design:
    """Random vectors without a reset: RTL equals the software models, cycles add up to the declared ones.

    simulator: by default Icarus where it is installed, because it builds such wide programs ten times faster.
    Returns the program.
    """
    rng = np.random.default_rng(seed)
    data = [[inputs(spec, rng) for spec in specs] for _ in range(vectors)]
    images = [
        {
            f"m{n}_{p.name}": p.operand.layout.pack(p.operand.fmt.to_image(a))
            for n, (s, arrays) in enumerate(zip(specs, vector, strict=True))
            for p, a in zip(reads(s), arrays, strict=True)
        }
        for vector in data
    ]
    design = program(specs, rounds)
    chosen = simulator or quickest()
    result = simulate(design, compile_calyx(design.futil), images, simulator=chosen)
    assert set(result.cycles) == {design.cycles}
    for vector, outputs in zip(data, result.outputs, strict=True):
        for number, (spec, arrays) in enumerate(zip(specs, vector, strict=True)):
            found = [
                p.operand.fmt.from_image(p.operand.layout.unpack(outputs[f"m{number}_{p.name}"]))
                for p in writes(spec)
            ]
            problem = differing(spec, spec.emulate(*arrays).outputs, found)
            assert not problem, f"kernel {number}: {problem}"
    tally.count(vectors=vectors * len(specs), cycles=vectors)
    return design
