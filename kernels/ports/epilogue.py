"""The writing end behind an accumulator: checks and software model of an epilogue with memory operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arith.expr import Expr, Value, value_of
from ..arith.numerics import IntArray
from .access import Operand
from .stage import reading_mode, writing_refusal


def epilogue_problem(total: Value, epilogue: Expr, extras: Sequence[Operand], out: Operand) -> str | None:
    """Why `epilogue` cannot end a kernel with accumulators in range `total` (None: it can)."""
    if len(epilogue.inputs) != 1 + len(extras):
        return f"the epilogue has {len(epilogue.inputs)} inputs for the sums and {len(extras)} memories"
    if epilogue.out != out.fmt:
        return f"the epilogue gives {epilogue.out}, the output holds {out.fmt}"
    for number, (want, have) in enumerate(
        zip(epilogue.inputs, (total, *(value_of(e.fmt) for e in extras)), strict=True)
    ):
        if want.frac != have.frac or want.low > have.low or want.high < have.high:
            return f"epilogue input {number} takes {want}, but is given {have}"
    lane_dim = len(out.access.sizes) - 1
    problem = writing_refusal(out, lane_dim)
    if problem:
        return f"output: {problem}"
    for number, extra in enumerate(extras):
        if extra.access.sizes != out.access.sizes:
            return f"epilogue memory {number} loops over {extra.access.sizes}, not {out.access.sizes}"
        if extra.layout.lanes != out.layout.lanes:
            return f"epilogue memory {number} has {extra.layout.lanes} lanes, the output {out.layout.lanes}"
        mode = reading_mode(extra, lane_dim)
        if mode.startswith("no: "):
            return f"epilogue memory {number}: {mode.removeprefix('no: ')}"
    return None


def written(
    epilogue: Expr, sums: IntArray, extras: Sequence[Operand], arrays: Sequence[IntArray], out: Operand
) -> tuple[IntArray, int]:
    """The written (rows, cols) array and the saturations, from accumulators over the output's domain."""
    values = [extra.access.read(array) for extra, array in zip(extras, arrays, strict=True)]
    result, saturated = epilogue.emulate([sums, *values])
    array = np.zeros((out.layout.rows, out.layout.cols), dtype=np.int64)
    out.access.write(array, np.broadcast_to(result, out.access.sizes))
    return array, saturated
