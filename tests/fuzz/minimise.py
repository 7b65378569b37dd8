"""Makes a failing program small: fewer results, lines, inputs and vectors, smaller shapes and plainer
options.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from tests.fuzz.program import Line, Program, load

Fails = Callable[[Program], bool]


def minimise(program: Program, fails: Fails, seconds: float = 60.0) -> Program:
    """The smallest program found within `seconds` for which `fails` still holds.

    fails: whether a program fails in the same way; it must be false for programs that torch does not run.
    """
    end = time.monotonic() + seconds
    tried: set[str] = set()
    while time.monotonic() < end:
        for candidate in _candidates(program):
            if time.monotonic() >= end:
                break
            text = candidate.source
            if text not in tried and (candidate.size, text) < (program.size, program.source):
                tried.add(text)
                if fails(candidate):
                    program = candidate
                    break
        else:
            break
    return program


def _candidates(program: Program) -> Iterator[Program]:
    """Simpler programs, the boldest steps first; some of them are no valid programs."""
    yield from _results(program)
    yield from _without_lines(program)
    yield from _cut_short(program)
    yield from _without_members(program)
    yield from _without_inputs(program)
    yield from _options(program)
    if program.calls > 1:
        yield replace(program, calls=1)
        yield replace(program, calls=program.calls - 1)
    yield from _numbers(program)


def _results(program: Program) -> Iterator[Program]:
    if len(program.result) > 1 or program.shape != "{}":
        for leaf in program.result:
            yield replace(program, result=(leaf,), shape="{}")
    if len(program.result) > 1:
        for i in range(len(program.result)):
            rest = program.result[:i] + program.result[i + 1 :]
            yield replace(program, result=rest, shape=f"({', '.join(['{}'] * len(rest))},)")
    if program.lines:
        yield replace(program, result=(program.lines[-1].target or program.result[0],), shape="{}")


def _without_lines(program: Program) -> Iterator[Program]:
    count = len(program.lines)
    for size in sorted({count // 2, 2, 1} - {0}, reverse=True):
        for start in reversed(range(count - size + 1)):
            yield replace(program, lines=program.lines[:start] + program.lines[start + size :])


def _cut_short(program: Program) -> Iterator[Program]:
    """A value becomes an input of its own, or the value it was made from."""
    try:
        made = _tensors(program)
    except Exception:  # a candidate that torch does not run has no values to take
        return
    for i in reversed(range(len(program.lines))):
        line = program.lines[i]
        if not line.target or line.target not in made:
            continue
        for name in dict.fromkeys(re.findall(r"self\.\w+|\b[vx]\d+\b", line.text)):
            yield _renamed(program, i, name)
        name = f"x{len(program.inputs)}"
        yield replace(_renamed(program, i, name), inputs=(*program.inputs, (name, _make(made[line.target]))))


def _renamed(program: Program, index: int, name: str) -> Program:
    """Without line `index`, whose value is `name` instead."""
    old = program.lines[index].target

    def new(text: str) -> str:
        return re.sub(rf"(?<![\w.]){old}(?!\w)", name, text)

    kept = [
        Line(new(line.target), new(line.text)) if i > index else line
        for i, line in enumerate(program.lines)
        if i != index
    ]
    return replace(program, lines=tuple(kept), result=tuple(map(new, program.result)))


def _make(tensor: torch.Tensor) -> str:
    shape, dtype = list(tensor.shape), str(tensor.dtype)
    if tensor.dtype == torch.bool:
        return f"torch.rand({shape}) > 0.5"
    if tensor.dtype.is_floating_point:
        suffix = "" if tensor.dtype == torch.float32 else f", dtype={dtype}"
        return f"torch.randn({shape}{suffix}).clamp(-3, 3)"
    low = 0 if tensor.dtype == torch.uint8 else -100
    suffix = "" if tensor.dtype == torch.int64 else f", dtype={dtype}"
    return f"torch.randint({low}, 100, {shape}{suffix})"


def _tensors(program: Program) -> dict[str, torch.Tensor]:
    """Value of every line by running a program that returns them all."""
    names = tuple(dict.fromkeys(line.target for line in program.lines if line.target))
    loaded = load(replace(program, result=names, shape=f"({', '.join(['{}'] * len(names))},)").source)
    with torch.no_grad():
        return dict(zip(names, loaded.make_model()(*loaded.make_vectors()[0]), strict=True))


def _without_members(program: Program) -> Iterator[Program]:
    used = " ".join([*map(str, program.lines), *program.result])
    kept = tuple(
        s
        for s in program.setup
        if (m := re.search(r"(?:member|buffer)\d+", s)) and re.search(rf"{m[0]}\b", used)
    )
    if kept != program.setup:
        yield replace(program, setup=kept)


def _without_inputs(program: Program) -> Iterator[Program]:
    for i in range(len(program.inputs)):
        if len(program.inputs) > 1:
            yield replace(program, inputs=program.inputs[:i] + program.inputs[i + 1 :])


def _options(program: Program) -> Iterator[Program]:
    for key in program.options:
        yield replace(
            program, options={k: v for k, v in program.options.items() if k != key or k == "simulator"}
        )
        if key in ("multipliers", "lanes"):
            for value in range(1, program.options[key]):
                yield replace(program, options={**program.options, key: value})


def _numbers(program: Program) -> Iterator[Program]:
    """One size (everywhere), or one number in a line, less."""
    text = "\n".join([*(make for _, make in program.inputs), *program.setup, *map(str, program.lines)])
    sizes = sorted(
        {int(n) for part in re.findall(r"\[([\d, ]+)\]", text) for n in part.split(",") if n.strip()}
    )
    for old in reversed(sizes):
        for new in range(1, old):
            yield _resized(program, old, new)
    for i, line in enumerate(program.lines):
        for match in re.finditer(r"(?<![\w.])\d+(?![\w.])", line.text):
            for smaller in range(int(match[0])):
                changed = line.text[: match.start()] + str(smaller) + line.text[match.end() :]
                yield replace(
                    program, lines=(*program.lines[:i], Line(line.target, changed), *program.lines[i + 1 :])
                )
    for i, (name, make) in enumerate(program.inputs):
        for match in re.finditer(r"(?<=[\[ ])\d+(?=[,\]])", make):
            for smaller in range(1, int(match[0])):
                changed = make[: match.start()] + str(smaller) + make[match.end() :]
                yield replace(
                    program, inputs=(*program.inputs[:i], (name, changed), *program.inputs[i + 1 :])
                )


def _resized(program: Program, old: int, new: int) -> Program:
    def change(text: str) -> str:
        return re.sub(rf"(?<![\w.]){old}(?![\w.*])", str(new), text)

    return replace(
        program,
        inputs=tuple((name, change(make)) for name, make in program.inputs),
        setup=tuple(map(change, program.setup)),
        lines=tuple(Line(line.target, change(line.text)) for line in program.lines),
    )
