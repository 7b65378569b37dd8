"""`aten.lstm` as products, gates and states, step by step: torch's own decomposition ends in one opaque layer
of a CPU library.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def lstm(
    x: Tensor,
    states: Sequence[Tensor],
    parameters: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Arguments and results of `aten.lstm.input`: outputs of every step, last hidden and last cell states.

    Shapes: x (steps, batch, features), batch and steps exchanged with `batch_first`; states (layers *
    directions, batch, width). Dropout acts in training alone, which the capture refuses.
    """
    del dropout, train
    first, cells = states
    ways = 2 if bidirectional else 1
    projected = first.shape[2] != cells.shape[2]
    each = 2 + 2 * has_biases + projected
    x = x.transpose(0, 1) if batch_first else x
    hidden, cell = [], []
    for layer in range(layers):
        found = []
        for way in range(ways):
            at = layer * ways + way
            found.append(
                _layer(x, first[at], cells[at], parameters[each * at : each * (at + 1)], has_biases, way == 1)
            )
        x = torch.cat([outputs for outputs, _, _ in found], -1)
        hidden += [h for _, h, _ in found]
        cell += [c for _, _, c in found]
    return x.transpose(0, 1) if batch_first else x, torch.stack(hidden), torch.stack(cell)


def _layer(
    x: Tensor, h: Tensor, c: Tensor, parameters: Sequence[Tensor], has_biases: bool, backward: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer in one direction. The products with the inputs do not wait for states: one for all steps."""
    of_input, of_state, *rest = parameters
    bias_input, bias_state = (rest.pop(0), rest.pop(0)) if has_biases else (None, None)
    given = F.linear(x, of_input, bias_input)
    outputs = []
    steps = range(len(x) - 1, -1, -1) if backward else range(len(x))
    for step in steps:
        gates = given[step] + F.linear(h, of_state, bias_state)
        opened, kept, new, shown = gates.chunk(4, 1)
        c = kept.sigmoid() * c + opened.sigmoid() * new.tanh()
        h = shown.sigmoid() * c.tanh()
        h = F.linear(h, rest[0]) if rest else h
        outputs.append(h)
    return torch.stack(outputs[::-1] if backward else outputs), h, c


DECOMPOSITIONS = {torch.ops.aten.lstm.input: lstm}
