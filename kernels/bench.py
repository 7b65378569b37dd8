"""A complete program around one kernel: what the unit tests simulate and what a user of the library starts
from.
"""

from __future__ import annotations

from dataclasses import dataclass

from .contract import KernelSpec, Port
from .engine.engine import engine_component
from .rtl import hw


@dataclass(frozen=True)
class Bench:
    """Program text whose `main` invokes the kernel once; its @external memories carry the ports' names
    prefixed "m_".
    """

    futil: str
    ports: tuple[Port, ...]
    cycles: int


def bench(spec: KernelSpec, calls: int = 1) -> Bench:
    """`main` with one memory per port, sized as the layout says, calling the kernel `calls` times in
    sequence.
    """
    prog = hw.Program()
    need = spec.engine()
    words = {p.name: p.operand.layout.words for p in spec.ports()}
    kernel = spec.build(prog, words, need)
    main = prog.component("main")
    bound = {}
    for port in spec.ports():
        main.memory_external(f"m_{port.name}", port.operand.width, words[port.name])
        bound[port.name] = f"m_{port.name}"
    if need is not None:
        main.instance(engine_component(prog, need), "engine")
        bound["engine"] = "engine"
    main.instance(kernel, "kernel")
    main.control(hw.sequence([main.invoke("kernel", bound) for _ in range(calls)]))
    return Bench(prog.text(), spec.ports(), spec.cycles() * calls)
