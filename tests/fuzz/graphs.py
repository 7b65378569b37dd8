"""Hypothesis strategies of random programs."""

from __future__ import annotations

import re
from typing import Any

import torch
from hypothesis import strategies as st

from tests.fuzz.operations import OPERATIONS, in_place
from tests.fuzz.program import Line, Program
from tests.fuzz.sketch import Sketch

MOST_OPERATIONS = 8

REAL_INPUTS = (
    "torch.randn({}).clamp(-3, 3)", "torch.randint(-12, 13, {}) / 4", "torch.rand({}) * 30",
    "torch.randn({}).clamp(-3, 3) / 100", "torch.randn({}, dtype=torch.float64).clamp(-3, 3)",
)  # fmt: skip
WHOLE_INPUTS = (
    "torch.randint(-100, 100, {})", "torch.randint(-128, 128, {}, dtype=torch.int8)",
    "torch.randint(0, 256, {}, dtype=torch.uint8)", "torch.randint(-2**15, 2**15, {}, dtype=torch.int16)",
    "torch.randint(-2**31, 2**31, {}, dtype=torch.int32)",
)  # fmt: skip
BOOL_INPUT = "torch.rand({}) > 0.5"


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Random options of `torchcalyx.compile`; most programs run in Icarus, which needs no C++ build."""
    chosen: dict[str, Any] = {"simulator": draw(st.sampled_from(["icarus"] * 9 + ["verilator"]))}
    precisions = ["fixed16", "fixed16", "fixed8", "fixed32", "fixed16.6", "fixed24.12"]
    chosen["precision"] = draw(st.sampled_from(precisions))
    lanes = draw(st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8]))
    chosen["multipliers"] = draw(st.integers(lanes or 1, 64))
    if lanes is not None:
        chosen["lanes"] = lanes
    chosen["share"] = draw(st.booleans())
    chosen["multiplier_stages"] = draw(st.sampled_from([1, 1, 2, 3]))
    return chosen


@st.composite
def graphs(draw: st.DrawFn) -> Program:
    """A module of 1 to 8 operations on 1 to 3 inputs."""
    s = Sketch(draw)
    seed = draw(st.integers(0, 2**16))
    torch.manual_seed(seed)
    for _ in range(s.whole(1, 3)):
        shape = [s.choose((1, 2, 3, 4, 5, 6, 7, 8, 9)) for _ in range(s.choose((2, 1, 3, 0, 4)))]
        while torch.Size(shape).numel() > 200:
            shape.pop(0)
        kinds = (*REAL_INPUTS, *REAL_INPUTS, *WHOLE_INPUTS, BOOL_INPUT)
        s.input(s.choose(kinds).format(shape))
    wanted = len(s.lines) + s.whole(1, MOST_OPERATIONS)
    tries = 0
    while len(s.lines) < wanted and tries < 3 * MOST_OPERATIONS:
        tries += 1
        if s.whole(0, 9) == 0:
            in_place(s)
        else:
            text = s.choose(OPERATIONS)(s)
            if text is not None:
                s.define(text)
    result, shape_text = returned(s)
    return Program(
        inputs=tuple(s.inputs),
        setup=tuple(s.setup),
        lines=tuple(s.lines),
        result=result,
        shape=shape_text,
        options=draw(options()),
        seed=seed,
    )


def returned(s: Sketch) -> tuple[tuple[str, ...], str]:
    """What the module returns: the values nothing reads, now and then an earlier one, an input, a parameter, a number."""
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
