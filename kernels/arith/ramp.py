"""A ReLU in front of the last narrowing becomes part of it: the lower limit is 0 instead of the format's."""

from __future__ import annotations

from dataclasses import replace

from .ops import Expr, Op


def fuse_ramp(expr: Expr) -> Expr:
    """The same expression with max(x, 0), then narrowed, as one operation; unchanged when it does not end so.

    A level of logic less: the narrowing compares with a lower limit anyway.
    """
    last = expr.ops[-1]
    if last.name != "quant":
        return expr
    place = last.args[0]
    inner = expr.ops[place]
    others = [a for o in expr.ops[:-1] for a in o.args]
    if inner.name != "max" or place in others:
        return expr
    zero = next((a for a in inner.args if expr.ops[a].name == "const" and expr.ops[a].param == 0), None)
    if zero is None:
        return expr
    source = next(a for a in inner.args if a != zero)
    kept = [
        i for i in range(len(expr.ops) - 1) if i != place and (i != zero or zero in _without(expr, place))
    ]
    places = {old: new for new, old in enumerate(kept)}
    ops = [replace(expr.ops[i], args=tuple(places[a] for a in expr.ops[i].args)) for i in kept]
    ramp = Op("ramp", (places[source],), last.value, last.param, last.fmt)
    return Expr(expr.inputs, (*ops, ramp), expr.out)


def _without(expr: Expr, place: int) -> list[int]:
    """Operations that others than number `place` read."""
    return [a for i, o in enumerate(expr.ops[:-1]) if i != place for a in o.args]
