"""The multiplier engine of a program: every multiplier there is, offered in three ways of use.

The component has no control: kernels take it by reference and drive its ports in their own cycles. Ports that a kernel does
not use must be driven with zero (`Instance.idle`).
Vector use: `a<i>`, `b<i>` in, product `p<i>` out `stages` cycles later.
"""

from __future__ import annotations

from .engine_spec import EngineSpec
from .hw import Component, Instance, Program, Signal, digest


def multiplier(prog: Program, spec: EngineSpec) -> Component:
    """One signed multiplier with `stages` registers behind it: a * b -> p."""
    name = f"multiplier_{spec.left}x{spec.right}_{spec.stages}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    a, b = c.input("a", spec.left), c.input("b", spec.right)
    c.output("p", c.delay(c.multiply(a, b), spec.stages))
    return c


def engine_component(prog: Program, spec: EngineSpec) -> Component:
    """The engine component, made once per program."""
    name = f"engine_{digest(spec)}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    unit = multiplier(prog, spec)
    for i in range(spec.vector):
        a, b = c.input(f"a{i}", spec.left), c.input(f"b{i}", spec.right)
        c.output(f"p{i}", c.instance(unit).drive(a=a, b=b).get("p"))
    return c


def engine_ref(c: Component, prog: Program, spec: EngineSpec | None) -> Instance:
    """The program's engine as a `ref` cell named "engine"."""
    if spec is None:
        raise ValueError(f"{c.name} multiplies, but the program has no engine")
    return c.instance(engine_component(prog, spec), "engine", is_ref=True)


__all__ = ["Signal", "engine_component", "engine_ref", "multiplier"]
