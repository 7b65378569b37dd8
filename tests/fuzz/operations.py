"""Everything a random graph is made of."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.elementwise import binary, cast, compare, logic, unary, where, with_scalar
from tests.fuzz.layers import einsum, function, image, linear, norm, product, special_product
from tests.fuzz.movement import along, index, join, rearranged, reduction, reorder, reshape, resized, slicing
from tests.fuzz.operands import number, partner, scalar
from tests.fuzz.sketch import Sketch, Value

Draw = Callable[[Sketch], "str | None"]

OPERATIONS: tuple[Draw, ...] = (
    unary, with_scalar, binary, compare, logic, where, cast, reduction, reduction, along, reshape, reorder,
    slicing, rearranged, resized, join, linear, product, einsum, special_product,
    function, image, image, norm,
)  # fmt: skip


def in_place(s: Sketch) -> None:
    """Changes a value (or a part of it through a view), after copying it where it is not the graph's own."""
    value = s.value(number)
    if value is None:
        return
    if not s.may_change(value):
        copy = s.define(f"{value.name}.clone()")
        if copy is None:
            return
        value = copy
    place = f"{value.name}[{index(s, value)}]" if value.rank and s.flag() else value.name
    there = Value(place, s.run(place))
    if there.tensor.numel() == 0:
        return
    kind = s.whole(0, 4)
    if kind == 0:
        operand = partner(s, there, lambda v: v.tensor.dtype == there.tensor.dtype).name
        s.change(value.name, f"{place}.{s.choose(('add_', 'sub_', 'mul_', 'copy_'))}({operand})")
    elif kind == 1:
        s.change(value.name, f"{place}.{s.choose(('add_', 'mul_', 'fill_'))}({scalar(s, there)})")
    elif kind == 2 and place != value.name:
        s.change(value.name, f"{place} = {scalar(s, there)}")
    elif kind == 3:
        s.change(value.name, f"{place}.masked_fill_({place} > {scalar(s, there)}, {scalar(s, there)})")
    else:
        s.change(
            value.name, f"{place}.{s.choose(('relu_()', 'neg_()', 'clamp_(-1, 2)', 'abs_()', 'zero_()'))}"
        )
