"""Random legal selections of elementwise calls."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.selections import F16, OPERATIONS, Sketch, Value, ramp
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.selection import Selection

SHAPES = ((8,), (3, 8), (2, 5), (11,))
FORMATS = (F16, F16, fixed(8, 4))


@st.composite
def selections(draw: st.DrawFn, most_calls: int = 10) -> Selection:
    """Inputs, weights, calls on earlier values, buffers filled by two calls, several results."""
    sketch = Sketch()
    pools = {shape: [sketch.input(f"in.{i}", shape)] for i, shape in enumerate(SHAPES)}
    pools[(8,)].append(sketch.weight("in_0", ramp(8)))
    results: list[Value] = []
    for number in range(draw(st.integers(0, most_calls))):
        shape = draw(st.sampled_from(SHAPES))
        if draw(st.integers(0, 5)) == 0:
            made = _filled_by_two(draw, sketch, number, pools[(3, 8)])
            shape = (3, 8)
        else:
            made = _call(draw, sketch, f"c{number}", pools[shape])
        pools[shape].append(made)
        if draw(st.integers(0, 3)) == 0:
            results.append(made)
    pool = pools[draw(st.sampled_from(SHAPES))]
    results.append(draw(st.sampled_from(pool)))
    return sketch.build(*results)


def _call(draw: st.DrawFn, sketch: Sketch, name: str, pool: list[Value]) -> Value:
    different = list({v.buffer: v for v in pool}.values())
    known = [k for k, (arity, _) in OPERATIONS.items() if arity <= len(different)]
    operation = draw(st.sampled_from(known))
    arity = OPERATIONS[operation][0]
    operands = draw(st.permutations(different))[:arity]
    out = sketch.temp(name, operands[0].shape, draw(st.sampled_from(FORMATS)))
    return sketch.call(operation, name, *operands, out=out)


def _filled_by_two(draw: st.DrawFn, sketch: Sketch, number: int, pool: list[Value]) -> Value:
    """Rows 0 and 1 from one value, row 2 from another."""
    target = sketch.temp(f"j.{number}", (3, 8))
    for part, (start, rows) in enumerate(((0, 2), (2, 1))):
        source = draw(st.sampled_from(pool))
        taken = source.operand.access.slice((draw(st.integers(0, 3 - rows)), 0), (1, 1), (rows, 8))
        place = target.operand.access.slice((start, 0), (1, 1), (rows, 8))
        operation = draw(st.sampled_from(["double", "relu", "square"]))
        sketch.call(operation, f"j{number}.{part}", source.at(taken), out=target.at(place))
    return target
