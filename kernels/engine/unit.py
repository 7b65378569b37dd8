"""The multipliers of the engine: one signed multiplier, and a bank of them fed from words."""

from __future__ import annotations

from ..rtl.hw import Component, Program
from .spec import EngineSpec


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


def bank(prog: Program, spec: EngineSpec, count: int) -> Component:
    """`count` multipliers side by side: words a, b of `count` lanes in, the word p of their products out."""
    name = f"bank{count}_{spec.left}x{spec.right}_{spec.stages}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    a, b = c.split(c.input("a", count * spec.left), count), c.split(c.input("b", count * spec.right), count)
    unit = multiplier(prog, spec)
    c.output("p", c.concat([c.instance(unit).drive(a=x, b=y).get("p") for x, y in zip(a, b, strict=True)]))
    return c
