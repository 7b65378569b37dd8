"""The multiplier engine of a program: every multiplier there is, offered in three ways of use.

The component has no control: kernels take it by reference and drive its ports in their own cycles. Ports
that a kernel does not use must be driven with zero (`Instance.idle`). Vector use: `a<i>`, `b<i>` in,
product `p<i>` out `stages` cycles later. Dot use: see `engine_dot`. Systolic use: see `engine_array`. The
multipliers stand in banks; where a bank serves several uses, a multiplexer in front of it follows
`array_on` and `dot_on`, which the kernels of the arrays hold at 1 (with neither, the vector ports reach
it).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..rtl.hw import Component, Instance, Program, Signal, digest
from .array import OtherUse, array_rows
from .dot import dot_sums
from .spec import EngineSpec
from .unit import bank


def engine_component(prog: Program, spec: EngineSpec) -> Component:
    """The engine component, made once per program."""
    name = f"engine_{digest(spec)}"
    found = prog.find(name)
    if found is not None:
        return found
    c = prog.component(name)
    pairs = [(c.input(f"a{i}", spec.left), c.input(f"b{i}", spec.right)) for i in range(spec.vector)]
    dot = _dot_inputs(c, spec)
    dot_on = c.input("dot_on", 1) if spec.dot_switch else None
    array_on = c.input("array_on", 1) if spec.array_switch else None
    uses = [_other_use(c, spec, number, dot, dot_on, pairs) for number in range(spec.banks)]
    rows = spec.array.rows if spec.array else 0
    products = array_rows(c, spec, array_on, uses[:rows]) if rows else []
    for number, use in enumerate(uses[rows:], start=rows):
        assert use is not None
        unit = bank(prog, spec, _bank_size(spec, number))
        products.append(c.instance(unit).drive(a=use.a, b=use.b).get("p"))
    _outputs(c, spec, dot, products)
    return c


def engine_ref(c: Component, prog: Program, spec: EngineSpec | None) -> Instance:
    """The program's engine as a `ref` cell named "engine"."""
    if spec is None:
        raise ValueError(f"{c.name} multiplies, but the program has no engine")
    return c.instance(engine_component(prog, spec), "engine", is_ref=True)


def _bank_size(spec: EngineSpec, number: int) -> int:
    return min(spec.bank, spec.multipliers - number * spec.bank)


def _dot_inputs(c: Component, spec: EngineSpec) -> tuple[Signal, Signal, Signal] | None:
    """Ports dot_a, dot_b, dot_first."""
    if spec.dot is None:
        return None
    a = c.input("dot_a", spec.dot.depth * spec.left)
    b = c.input("dot_b", spec.dot.multipliers * spec.right)
    return a, b, c.input("dot_first", 1)


def _other_use(
    c: Component,
    spec: EngineSpec,
    number: int,
    dot: tuple[Signal, Signal, Signal] | None,
    dot_on: Signal | None,
    pairs: Sequence[tuple[Signal, Signal]],
) -> OtherUse | None:
    """Operand words of one bank for the uses besides the systolic array; None when it has no other."""
    first, size = number * spec.bank, _bank_size(spec, number)
    vector = None
    if first < spec.vector:
        chosen = pairs[first : first + size]
        vector = OtherUse(_filled(c, [a for a, _ in chosen], size), _filled(c, [b for _, b in chosen], size))
    if dot is None or spec.dot is None or first >= spec.dot.multipliers:
        return vector
    use = _dot_words(c, spec, dot[0], dot[1], first, size)
    if vector is None or dot_on is None:
        return use
    return OtherUse(c.mux(dot_on, use.a, vector.a), c.mux(dot_on, use.b, vector.b))


def _dot_words(c: Component, spec: EngineSpec, a: Signal, b: Signal, first: int, size: int) -> OtherUse:
    """The dot array's operands for multipliers first .. first + size - 1."""
    assert spec.dot is not None
    depth, total = spec.dot.depth, spec.dot.multipliers
    if size == depth and first % depth == 0:  # one bank is one column: whole words
        return OtherUse(a, c.slice(b, first * spec.right, size * spec.right))
    used = range(first, min(first + size, total))
    lanes_a = [c.slice(a, (i % depth) * spec.left, spec.left) for i in used]
    lanes_b = [c.slice(b, i * spec.right, spec.right) for i in used]
    return OtherUse(_filled(c, lanes_a, size), _filled(c, lanes_b, size))


def _filled(c: Component, lanes: Sequence[Signal], size: int) -> Signal:
    """A word of `size` lanes, zero behind the given ones."""
    zero = c.const(0, lanes[0].width)
    return c.concat([*lanes, *[zero] * (size - len(lanes))])


def _outputs(
    c: Component,
    spec: EngineSpec,
    dot: tuple[Signal, Signal, Signal] | None,
    products: Sequence[Signal | None],
) -> None:
    """Ports p<i> and dot_sum from the banks' product words."""
    width = spec.left + spec.right

    def lane(i: int) -> Signal:
        word = products[i // spec.bank]
        assert word is not None
        return c.slice(word, (i % spec.bank) * width, width)

    for i in range(spec.vector):
        c.output(f"p{i}", lane(i))
    if dot is None or spec.dot is None:
        return
    depth = spec.dot.depth
    columns: list[list[Signal]] = []
    for column in range(spec.dot.columns):
        whole = products[column] if depth == spec.bank else None
        columns.append([whole] if whole else [lane(column * depth + d) for d in range(depth)])
    c.output("dot_sum", dot_sums(c, spec, dot[2], columns))
