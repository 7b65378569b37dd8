"""Inside is exact enough: every operation on rows, at every precision, on inputs with rows of any scale
inside the calibrated range, keeps the inequality of tests/accuracy.py.
"""

from __future__ import annotations

import functools
import math
import zlib

import hypothesis
import pytest
from hypothesis import given

from tests.accuracy import BITS, Subject, subject
from tests.drawn_rows import Row, corners, rows, tensors
from tests.rowwise import OPS, Op, Scales, calibration, module

QUICK, RELEASE = 200, 10_000
"""Draws of a default run and of a release, over all operations and precisions together."""
CASES = [(op, precision) for op in OPS for precision in BITS]
each_case = pytest.mark.parametrize(("op", "precision"), CASES, ids=[f"{op.name}-{p}" for op, p in CASES])


def seed_of(*words: str) -> int:
    """The same number in every run and on every machine."""
    return zlib.crc32(" ".join(words).encode())


@functools.cache
def compiled(op: Op, precision: str, scales: Scales) -> Subject:
    seed = seed_of(op.name, scales)
    what = f"{op.name} ({scales} scales)"
    return subject(what, module(op, scales, seed), [calibration(op, scales, seed)], precision)


def judge_draws(op: Op, precision: str, scales: Scales, count: int) -> None:
    """Judge the corners and `count` drawn calls of one compiled module."""
    judged = compiled(op, precision, scales)
    units = [fmt.resolution for fmt in judged.memories.inputs]

    for corner in corners(op):
        judged.judge(*tensors(op, corner, judged.samples[0], units)).check()

    # Not shrunk: the message tells the row, and the first failing draw is as good as any.
    @hypothesis.settings(
        max_examples=count, derandomize=False, database=None, phases=[hypothesis.Phase.generate]
    )
    @hypothesis.seed(seed_of(op.name, precision, scales))
    @given(rows(op))
    def draw(drawn: list[list[Row]]) -> None:
        judged.judge(*tensors(op, drawn, judged.samples[0], units)).check()

    draw()


@each_case
def test_rows_of_unlike_scale(op: Op, precision: str) -> None:
    judged = compiled(op, precision, "unlike")
    assert not judged.coarse(), "\n".join(judged.coarse())
    found = judged.judge(*judged.samples[0])
    found.check()
    assert found.telling > 0, f"{op.name} at {precision}: every element may err by as much as it likes"
    judge_draws(op, precision, "unlike", math.ceil(QUICK / len(CASES)))


@pytest.mark.slow
@pytest.mark.parametrize("scales", ["unlike", "decades"])
@each_case
def test_a_release_of_draws(op: Op, precision: str, scales: Scales) -> None:
    judged = compiled(op, precision, scales)
    assert not judged.coarse(), "\n".join(judged.coarse())
    found = judged.judge(*judged.samples[0])
    found.check()
    judge_draws(op, precision, scales, math.ceil(RELEASE / (2 * len(CASES))))
