"""Sorting along the last dimension: RTL equals the software model, which equals numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.group import check_all
from tests.kernels.support import check, random_array, tensor
from torchcalyx.kernels.arith.numerics import BOOL, NumberFormat, fixed, integer
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.folds.sort import Sort
from torchcalyx.kernels.folds.sort_plan import network, passes, place_bits

FEW = fixed(5, 2)  # so few values that rows hold equal ones
SHAPES: list[tuple[int, ...]] = [(1,), (7,), (17,), (5, 11), (3, 8), (2, 2, 7), (33,), (64,)]


def sort(
    shape: Sequence[int],
    lanes: int,
    results: str = "yz",
    descending: bool = False,
    stages: int = 3,
    fmt: NumberFormat = FEW,
) -> Sort:
    values = tensor(shape, fmt, lanes) if "y" in results else None
    indices = tensor(shape, integer(12), lanes) if "z" in results else None
    return Sort(tensor(shape, fmt, lanes), values, indices, descending, stages)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8])
def test_equals_hardware(lanes: int) -> None:
    specs = []
    for number, shape in enumerate(SHAPES):
        results = ("yz", "y", "z")[(number + lanes) % 3]
        specs.append(sort(shape, lanes, results, number % 2 == lanes % 2, 1 + (number + lanes) % 3))
    check_all(specs)


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order(descending: bool) -> None:
    spec = sort((4, 50), 4, descending=descending)
    array = random_array(np.random.default_rng(1), spec.source)
    values, indices = spec.emulate(array).outputs
    for row, got, order in zip(array, values, indices, strict=True):
        want = sorted(range(50), key=lambda i: (-row[i] if descending else row[i], i))
        assert list(order) == want
        assert list(got) == [row[i] for i in want]


def test_every_format_and_both_simulators() -> None:
    specs = [
        sort((3, 13), 4, fmt=fmt) for fmt in (BOOL, integer(3, signed=False), fixed(40, 20), integer(64))
    ]
    check_all(specs)
    check(sort((2, 20), 4, descending=True), simulator="icarus")
    check(sort((2, 20), 4), calls=2)


def test_a_thousand_elements_take_thirteen_sweeps() -> None:
    spec = sort((1024,), 8, fmt=fixed(16, 8))
    assert len(spec.passes) == 12
    assert spec.cycles() == 13 * 128 + 7 + 1 + 12 * (1 + 10 + 3) - 1
    check(spec, vectors=1)


def test_one_word_rows_take_one_sweep() -> None:
    assert sort((20, 8), 8).cycles() == 20 + 1 + 6


def test_the_networks_sort_every_word_of_zeros_and_ones() -> None:
    """What sorts all words of zeros and ones sorts all words."""
    for lanes in (2, 4, 8):
        for bits in range(2**lanes):
            word = [bits >> i & 1 for i in range(lanes)]
            for level in network(lanes):
                for low, high, down in level:
                    if (word[high] < word[low]) != bool(down):
                        word[low], word[high] = word[high], word[low]
            assert word == sorted(word)


@pytest.mark.parametrize(("bits", "stages"), [(1, 1), (4, 1), (5, 2), (7, 3), (3, 3)])
def test_passes_compare_every_bit_of_every_phase_once(bits: int, stages: int) -> None:
    found: list[tuple[int, int]] = []
    for p in passes(bits, stages):
        order = place_bits(bits, stages, p.base)
        assert sorted(order) == list(range(bits))
        for stage in reversed(range(stages)):
            if p.active >> stage & 1:
                found.append((p.phase, order.index(stage)))
        assert p.merge == (found[-1][1] == 0)
    assert found == [(phase, bit) for phase in range(1, bits + 1) for bit in reversed(range(phase))]


def test_parameter_errors_say_what_is_wrong() -> None:
    good, x = sort((4, 6), 4), tensor((4, 6), FEW, 4)
    turned = replace(x, access=x.access.permute((1, 0)))
    other = tensor((6, 4), FEW, 4)
    where = r"^sort kernel over \(4, 6\): "
    with pytest.raises(KernelParameterError, match=where + "no result is asked for$"):
        replace(good, values=None, indices=None)
    with pytest.raises(KernelParameterError, match=where + "0 stages$"):
        replace(good, stages=0)
    with pytest.raises(KernelParameterError, match=where + r"y loops over \(6, 4\)$"):
        replace(good, values=other)
    with pytest.raises(KernelParameterError, match=where + "elements of fixed5.2 cannot be written as int9$"):
        replace(good, values=tensor((4, 6), integer(9), 4))
    with pytest.raises(KernelParameterError, match=where + "int3 does not hold the indices 0 to 5$"):
        replace(good, indices=tensor((4, 6), integer(3), 4))
    with pytest.raises(KernelParameterError, match=r"over \(6, 4\): operand 0: neighbours of loop"):
        Sort(turned, other, None, False)
