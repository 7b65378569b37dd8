"""Hypothesis strategies of random programs."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from tests.fuzz.operations import OPERATIONS, in_place
from tests.fuzz.program import Line, Program
from tests.fuzz.sketch import Sketch

MOST_OPERATIONS = 8
MOST_INPUT_ELEMENTS = 200

REAL_INPUTS = (
    "torch.randn({}).clamp(-3, 3)", "torch.randint(-12, 13, {}) / 4", "torch.rand({})",
    "torch.rand({}) * 30",
    "torch.randn({}).clamp(-3, 3) / 100", "torch.randn({}, dtype=torch.float64).clamp(-3, 3)",
)  # fmt: skip
WHOLE_INPUTS = (
    "torch.randint(-100, 100, {})", "torch.randint(-128, 128, {}, dtype=torch.int8)",
    "torch.randint(0, 256, {}, dtype=torch.uint8)", "torch.randint(-2**15, 2**15, {}, dtype=torch.int16)",
    "torch.randint(-2**31, 2**31, {}, dtype=torch.int32)",
)  # fmt: skip
BOOL_INPUT = "torch.rand({}) > 0.5"


PRECISIONS = ("fixed16", "fixed16", "fixed8", "fixed32", "fixed16.6", "fixed24.12")


@st.composite
def graphs(draw: st.DrawFn) -> Program:
    """A module of 1 to 8 operations, now and then up to 16, on 1 to 3 inputs.

    One random generator makes all choices evenly: hypothesis' own draws prefer repetitions and small numbers,
    and its shrinking is not needed, because a failing program is made small as a text (`minimise`).
    """
    return program(draw(st.randoms(use_true_random=True)))


def program(random: Random) -> Program:
    """A random program."""
    s = Sketch(random)
    seed = s.whole(0, 2**16)
    torch.manual_seed(seed)
    for _ in range(s.whole(1, 3)):
        shape = [s.choose((1, 2, 3, 4, 5, 6, 7, 8, 9)) for _ in range(s.choose((0, 1, 1, 2, 2, 2, 3, 3, 4)))]
        while torch.Size(shape).numel() > MOST_INPUT_ELEMENTS:
            shape.pop(0)
        kinds = (*REAL_INPUTS, *REAL_INPUTS, *WHOLE_INPUTS, BOOL_INPUT)
        s.input(s.choose(kinds).format(shape))
    _grow(s, s.whole(1, s.choose((MOST_OPERATIONS, MOST_OPERATIONS, 2 * MOST_OPERATIONS))))
    result, shape_text = returned(s)
    return Program(
        inputs=tuple(s.inputs),
        setup=tuple(s.setup),
        lines=tuple(s.lines),
        result=result,
        shape=shape_text,
        options=options(s),
        seed=seed,
    )


def _grow(s: Sketch, wanted: int) -> None:
    """Lines until there are enough of them, or nothing fits any more."""
    for _ in range(6 * MOST_OPERATIONS):
        if len(s.lines) >= wanted:
            return
        if s.whole(1, 12) == 1:
            in_place(s)
            continue
        text = s.choose(OPERATIONS)(s)
        if text is not None:
            s.define(text)


def options(s: Sketch) -> dict[str, Any]:
    """Random options of `torchcalyx.compile`; most programs run in Icarus, which needs no C++ build."""
    lanes = s.choose([None, None, 1, 2, 3, 4, 5, 6, 7, 8])
    chosen: dict[str, Any] = {
        "simulator": s.choose(["icarus"] * 15 + ["verilator"]),
        "precision": s.choose(PRECISIONS),
        "multipliers": s.whole(lanes or 1, 64),
        "share": s.flag(),
        "multiplier_stages": s.choose([1, 1, 2, 3]),
    }
    return chosen if lanes is None else {**chosen, "lanes": lanes}


def returned(s: Sketch) -> tuple[tuple[str, ...], str]:
    """What the module returns: the values nothing reads, now and then an earlier one, an input, a
    parameter, a number.
    """
    made = [line.target for line in s.lines if line.target]
    leaves = [m for m in made if not any(_reads(line, m) for line in s.lines)] or made[-1:]
    result = leaves or [s.inputs[0][0]]
    for extra in (made, [n for n, _ in s.inputs], [n for n in s.names if n.startswith("self.")], result):
        if extra and s.whole(0, 4) == 0:
            result = [*result, s.choose(extra)]
    if s.whole(0, 9) == 0:
        result = [*result, s.choose(("4", "torch.ones(3)", "None"))]
    places = ["{}"] * len(result)
    if len(result) == 1:
        return tuple(result), s.choose(("{}", "({},)", "[{}]"))
    form = s.whole(0, 3)
    if form == 0:
        return tuple(result), "{{" + ", ".join(f'"key{i}": {p}' for i, p in enumerate(places)) + "}}"
    if form == 1:
        return tuple(result), f"({places[0]}, [{', '.join(places[1:])}])"
    return tuple(result), f"({', '.join(places)})"


def _reads(line: Line, name: str) -> bool:
    """Whether a line uses a value for another one; changing it in place is no use."""
    text = line.text if line.target else line.text.replace(name, "", 1)
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None
