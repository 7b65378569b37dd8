"""Hypothesis strategies for the inputs of a call: each row of a tensor has a kind, a scale over six decades
below the calibrated range, and numbers from a seed. With calibrations over twelve decades, so are the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.rowwise import Op, into_domain

Kind: TypeAlias = Literal["normal", "outlier", "multiples", "alternating", "one-sided", "constant", "zeros"]
KINDS: tuple[Kind, ...] = ("normal", "outlier", "multiples", "alternating", "one-sided", "constant", "zeros")
FINEST = 600
"""Row scales are 10^(-step/100) of the calibrated range, step up to this: 1e-6."""


@dataclass(frozen=True)
class Row:
    """One row. step: its scale is 10^(-step/100) of the calibrated range."""

    kind: Kind
    step: int
    seed: int

    def values(self, count: int, largest: float, unit: float) -> Tensor:
        """`count` numbers, none above `largest`. unit: of the last place in the input's memory."""
        generator = torch.Generator().manual_seed(self.seed)
        top = largest * 10 ** (-self.step / 100)
        normal = torch.randn(count, generator=generator, dtype=torch.float64)
        sign = 1.0 if normal[0] > 0 else -1.0
        if self.kind == "zeros":
            return torch.zeros(count, dtype=torch.float64)
        if self.kind == "constant":
            return torch.full((count,), sign * top, dtype=torch.float64)
        if self.kind == "alternating":
            return top * sign * (1 - 2 * (torch.arange(count) % 2)).double()
        if self.kind == "one-sided":
            return top * sign * (0.5 + 0.5 * torch.rand(count, generator=generator, dtype=torch.float64))
        if self.kind == "multiples":
            least = 2.0 ** math.ceil(math.log2(max(unit, largest * 10 ** (-FINEST / 100))))  # not below 1e-6
            return (least * torch.randint(-4, 5, (count,), generator=generator)).clamp(-largest, largest)
        row = top * normal / normal.abs().max()
        if self.kind == "outlier":
            row = row * 1e-3
            row[self.seed % count] = sign * top
        return row


def rows(op: Op) -> st.SearchStrategy[list[list[Row]]]:
    """For each input of an operation its rows."""
    row = st.builds(Row, st.sampled_from(KINDS), st.integers(0, FINEST), st.integers(0, 2**20))
    one = st.lists(row, min_size=op.rows, max_size=op.rows)
    return st.lists(one, min_size=len(op.domains), max_size=len(op.domains))


def corners(op: Op) -> list[list[list[Row]]]:
    """For each kind a call whose rows are all of it, from the calibrated range down to 1e-3 of it: what a few
    draws may miss.
    """
    return [
        [[Row(kind, 300 * row // op.rows, 31 * number + row) for row in range(op.rows)]] * len(op.domains)
        for number, kind in enumerate(KINDS)
    ]


def tensors(
    op: Op, drawn: Sequence[Sequence[Row]], samples: Sequence[Tensor], units: Sequence[float]
) -> tuple[Tensor, ...]:
    """The inputs that drawn rows mean. samples: a calibration input, between whose extremes (and zero) they
    stay. units: of the last place in the memory of each input.
    """
    made = []
    for one, domain, sample, unit in zip(drawn, op.domains, samples, units, strict=True):
        low, high = min(float(sample.min()), 0.0), max(float(sample.max()), 0.0)
        largest = max(-low, high)
        values = torch.stack([row.values(op.shape[-1], largest, unit) for row in one]).clamp(low, high)
        made.append(into_domain(values, domain, largest).clamp(low, high).reshape(op.shape).float())
    return tuple(made)
