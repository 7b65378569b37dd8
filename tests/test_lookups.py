"""Reads and writes at computed indices, from torch to RTL, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torchcalyx
from torchcalyx.errors import CaptureError, IndexRangeError, UnsupportedOpError


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def run(function: Callable[..., Any], *tensors: Tensor, rtl: bool = False, **options: Any) -> Any:
    """The hardware (or its model) of a function of tensors, judged against torch."""
    hw = torchcalyx.compile(Call(function), tensors, **options)
    found = hw.emulate(*tensors)
    wide = [t.double() if t.is_floating_point() else t for t in tensors]
    for have, want in zip(_leaves(found), _leaves(function(*wide)), strict=True):
        assert have.shape == want.shape
        if not have.is_floating_point():
            assert torch.equal(have, want)
        else:
            assert (have - want).abs().max() <= 2**-9 * want.abs().max()
    if rtl:
        result = hw.simulate(*tensors)
        for have, want in zip(_leaves(result.outputs), _leaves(found), strict=True):
            assert torch.equal(have, want)
        assert result.cycles == hw.cycles
    return hw


def _leaves(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def data(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def places(size: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, size, shape, generator=torch.Generator().manual_seed(seed))


X, PLACES, ROWS = data(5, 6), places(5, 4), data(4, 6, seed=1)
EACH = places(5, 4, 6, seed=2)
ONCE = torch.stack([(torch.arange(4) + n) % 5 for n in range(6)], 1)
MAXIMA = F.max_pool2d(data(1, 2, 6, 6), 2, return_indices=True)[1]

READS: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [
    (lambda x, i: x[i], (X, PLACES)),
    (lambda x, i: x[i - 5], (X, PLACES)),
    (lambda x, i: x[:, i], (X, PLACES)),
    (lambda x, i, j: x[i, j], (X, PLACES, places(6, 4))),
    (lambda x, i, j: x[i[:, None], j], (X, PLACES, places(6, 3))),
    (lambda x, i, j: x[i, :, j], (data(5, 2, 6), PLACES, places(6, 4))),
    (lambda x, i: x[1:4, i.clamp(0, 2)], (data(5, 3, 7), PLACES)),
    (lambda x, i: torch.gather(x, 0, i), (X, EACH)),
    (lambda x, i: torch.gather(x, 1, i), (X, places(6, 3, 9))),
    (lambda x, i: torch.take(x, i), (X, places(30, 2, 3))),
    (lambda x, i: torch.take_along_dim(x, i, 0), (X, EACH)),
    (lambda x, i: x.index_select(1, i), (X, PLACES.int())),
    (lambda x, i: x[i] & True, (X > 0, PLACES)),
    (lambda i: F.one_hot(i, 7), (PLACES,)),
    (lambda x, i: F.embedding_bag(i, x, mode="max"), (X, places(5, 3, 4))),
    (lambda x, i: F.embedding_bag(i, x, mode="mean", padding_idx=2), (X, places(5, 3, 4))),
    (lambda x, i, o: F.embedding_bag(i, x, o, mode="sum"), (X, PLACES, torch.tensor([0, 0, 3]))),
    (lambda x, m, s: x.masked_scatter(m, s), (X, X > 0, data(30, seed=3))),
    (lambda x: F.max_pool2d(x, 2, padding=1, return_indices=True), (data(2, 3, 5, 6),)),
    (lambda x: F.max_pool1d(x, 3, 2, return_indices=True), (data(2, 3, 9),)),
    (lambda x: F.max_pool3d(x, 2, return_indices=True), (data(1, 2, 4, 4, 4),)),
    (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), (data(2, 3, 5, 6),)),
    (lambda x: torch.as_strided(x, (2, 3), (1, 7), 2), (X,)),
]  # fmt: skip

WRITES: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [
    (lambda x, i, s: x.index_put((i,), s, accumulate=True), (X, PLACES, ROWS)),
    (lambda x, i, s: x.index_put((i,), s), (X, torch.tensor([3, 0, 4, 1]), ROWS)),
    (lambda x, i, j, s: x.index_put((i, j), s, accumulate=True), (X, PLACES, places(6, 4), data(4))),
    (lambda x, m: x.index_put((m,), torch.tensor(1.5)), (X, X > 0)),
    (lambda x, i, s: x.scatter(0, i, s), (X, ONCE, ROWS)),
    (lambda x, i: x.scatter(0, i, 2.5), (X, EACH)),
    (lambda x, i, s: x.scatter_add(0, i, s), (X, EACH, ROWS)),
    (lambda x, i, s: x.scatter_add(1, i, s), (X, places(6, 3, 4), data(5, 7))),
    (lambda x, i, s: x.index_add(0, i, s, alpha=2), (X, PLACES, ROWS)),
    (lambda x, i, s: x.index_copy(0, i, s), (X, torch.tensor([3, 0, 4, 1]), ROWS)),
    (lambda x, i: x.index_fill(1, i, -0.5), (X, PLACES)),
    (lambda x, i, s: x.put(i, s, accumulate=True), (X, places(30, 8), data(8))),
    (lambda x, i, s: x.as_strided_scatter(s, (2, 3), (1, 7), 2), (X, PLACES, data(2, 3))),
    (lambda x, i: F.max_unpool2d(x, i, 2), (data(1, 2, 3, 3), MAXIMA)),
    *[(lambda x, i, s, how=how, own=own: x.scatter_reduce(0, i, s, how, include_self=own), (X, EACH, ROWS))
      for how in ("sum", "prod", "mean", "amax", "amin") for own in (True, False)],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(READS)))
def test_reads(number: int) -> None:
    function, tensors = READS[number]
    run(function, *tensors)


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_writes(number: int) -> None:
    function, tensors = WRITES[number]
    run(function, *tensors)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample(mode: str, padding: str, corners: bool) -> None:
    grid = 1.3 * data(1, 3, 4, 2).clamp(-1, 1)
    grid += 0.013  # no coordinate lies in the middle of two elements
    hw = torchcalyx.compile(
        Call(lambda x, g: F.grid_sample(x, g, mode, padding, corners)), (data(1, 2, 5, 6), grid)
    )
    want = F.grid_sample(data(1, 2, 5, 6).double(), grid.double(), mode, padding, corners)
    assert (hw.emulate(data(1, 2, 5, 6), grid) - want).abs().max() <= 2**-7 * want.abs().max()


class Tokens(nn.Module):
    """Token ids to scores, as small language models begin and end."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(50, 16, padding_idx=0)
        self.head = nn.Linear(16, 3)

    def forward(self, ids: Tensor) -> Any:
        rows = self.table(ids)
        return rows, self.head(rows.mean(1))


@pytest.mark.needs("calyx", "calyx-py", "verilator")
def test_token_ids_to_scores_in_hardware() -> None:
    net, ids = Tokens().eval(), places(50, 2, 7)
    hw = torchcalyx.compile(net, ids)
    lookup = next(c.spec for c in hw.stages.selection.calls if c.spec.family == "take")
    assert lookup.cycles() == 2 * 7 * 16 // hw.stages.selection.buffers[0].layout.lanes + 3
    for seed in range(3):
        other = places(50, 2, 7, seed=seed)
        result = hw.simulate(other)
        for have, model, want in zip(result.outputs, hw.emulate(other), net(other), strict=True):
            assert torch.equal(have, model)
            assert (have - want).abs().max() < 2**-9
        assert result.cycles == hw.cycles


@pytest.mark.needs("calyx", "calyx-py", "verilator")
def test_reads_and_writes_in_hardware() -> None:
    def several(x: Tensor, i: Tensor, each: Tensor, rows: Tensor) -> Any:
        return (
            x[i], x.gather(0, each), x.index_put((i,), rows, accumulate=True), x.scatter(0, each, 2.0),
            x.scatter_reduce(0, each, rows, "amax"), x.T[:, i], (x > 0)[i],
        )  # fmt: skip

    run(several, X, PLACES, EACH, ROWS * 30, rtl=True, multipliers=24)


def test_an_index_of_a_call_outside_its_axis_is_an_error() -> None:
    for options in ({}, {"on_saturation": "ignore"}):
        hw = torchcalyx.compile(Call(lambda x, i: x[i]), (X, PLACES), **options)
        for bad in (5, -6, 2**40):
            index = PLACES.clone()
            index[2] = bad
            for call in (hw.emulate, hw.simulate, hw):
                with pytest.raises(IndexRangeError) as error:
                    call(X, index)
                text = str(error.value)
                assert text.startswith("aten.index (node 'index"), text
                assert "test_lookups.py" in text
                assert f"the index is {bad} at [2], but the axis has 5 elements: -5 to 4 are allowed" in text
        assert torch.equal(hw.emulate(X, PLACES - 5), hw.emulate(X, PLACES))


def test_an_index_that_is_computed_is_checked_where_it_is_used() -> None:
    hw = torchcalyx.compile(Call(lambda x, i: x.index_select(0, i * 2 - 4)), (X, torch.tensor([2, 3, 4])))
    with pytest.raises(
        IndexRangeError, match=r"the index is 6 at \[1\], but the axis has 5 elements: 0 to 4"
    ):
        hw.emulate(X, torch.tensor([2, 5, 4]))


def test_a_constant_index_outside_its_axis_is_an_error_of_compilation() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("index", torch.tensor([[0, 7]]))

        def forward(self, x: Tensor) -> Tensor:
            return x.gather(1, self.index)

    with pytest.raises((IndexRangeError, UnsupportedOpError), match="the index is 7 at"):
        torchcalyx.compile(Fixed().eval(), data(1, 6))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x > 0],
        lambda x: torch.masked_select(x, x > 0),
        lambda x: torch.nonzero(x),
    ],
)
def test_what_depends_on_data_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(torchcalyx.TorchCalyxError, match=r"depends? on") as error:
        torchcalyx.compile(Call(function), (X,))
    assert "test_lookups.py" in str(error.value)


def test_the_format_of_an_index_input_holds_its_axis() -> None:
    hw = torchcalyx.compile(Call(lambda x, i: x[i]), (X, PLACES))
    assert str(hw.stages.selection.inputs[1].fmt) == "int4"


def test_a_table_that_is_rescaled_in_place_is_refused() -> None:
    with pytest.raises(CaptureError, match="is mutated in place by the model"):
        torchcalyx.compile(Call(lambda x: F.embedding((x > 0).long(), x, max_norm=1.0)), (X,))
