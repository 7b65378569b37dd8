"""Small recurrent models: layers and cells, with and without states, biases and projections."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.normalize.spatial_spellings import seeded
from tests.normalize.spellings import Case, t

STEPS, BATCH, FEATURES, WIDTH = 3, 2, 4, 5
SEQUENCE = (STEPS, BATCH, FEATURES)


class Stated(nn.Module):
    """A layer with its first states as one tensor a state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:
        return self.layer(x, (h, c))


def _layer(layer: nn.Module, *shapes: tuple[int, ...]) -> Case:
    return seeded(layer), tuple(t(*shape, seed=11 + i) for i, shape in enumerate(shapes))


def _lstm(states: int = 0, shape: tuple[int, ...] = SEQUENCE, **options: Any) -> Case:
    layer = nn.LSTM(FEATURES, WIDTH, **options)
    if not states:
        return _layer(layer, shape)
    hidden = options.get("proj_size", 0) or WIDTH
    return _layer(Stated(layer), shape, (states, BATCH, hidden), (states, BATCH, WIDTH))


RECURRENT: dict[str, Case] = {
    "lstm": _lstm(),
    "lstm_batch_first": _lstm(batch_first=True),
    "lstm_without_batch": _lstm(shape=(STEPS, FEATURES)),
    "lstm_without_bias": _lstm(bias=False),
    "lstm_deep_both_ways": _lstm(num_layers=2, bidirectional=True, dropout=0.5),
    "lstm_states": _lstm(2, num_layers=2),
    "lstm_states_both_ways": _lstm(2, bidirectional=True),
    "lstm_projected": _lstm(proj_size=3),
    "lstm_projected_states": _lstm(4, proj_size=3, num_layers=2, bidirectional=True),
    "gru": _layer(nn.GRU(FEATURES, WIDTH), SEQUENCE),
    "gru_deep_both_ways": _layer(
        nn.GRU(FEATURES, WIDTH, num_layers=2, bidirectional=True, batch_first=True),
        SEQUENCE,
        (4, STEPS, WIDTH),
    ),
    "gru_without_bias": _layer(nn.GRU(FEATURES, WIDTH, bias=False), SEQUENCE),
    "rnn": _layer(nn.RNN(FEATURES, WIDTH), SEQUENCE, (1, BATCH, WIDTH)),
    "rnn_relu_both_ways": _layer(nn.RNN(FEATURES, WIDTH, nonlinearity="relu", bidirectional=True), SEQUENCE),
    "lstm_cell": _layer(nn.LSTMCell(FEATURES, WIDTH), (BATCH, FEATURES)),
    "lstm_cell_states": _layer(
        Stated(nn.LSTMCell(FEATURES, WIDTH)), (BATCH, FEATURES), (BATCH, WIDTH), (BATCH, WIDTH)
    ),
    "gru_cell": _layer(nn.GRUCell(FEATURES, WIDTH), (BATCH, FEATURES)),
    "gru_cell_state": _layer(nn.GRUCell(FEATURES, WIDTH), (BATCH, FEATURES), (BATCH, WIDTH)),
    "rnn_cell": _layer(nn.RNNCell(FEATURES, WIDTH, nonlinearity="relu"), (BATCH, FEATURES), (BATCH, WIDTH)),
}

FAMILIES: dict[str, dict[str, Case]] = {"recurrent": RECURRENT}
