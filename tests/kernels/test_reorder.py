"""Reshape copies: RTL equals numpy's row-major reshape."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.support import check, tensor
from torchcalyx.kernels.access import Operand
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.expr import narrowing
from torchcalyx.kernels.numerics import fixed
from torchcalyx.kernels.reorder import Reorder

F = fixed(12, 4)


def reorder(source: Operand, out: Operand) -> Reorder:
    return Reorder(source, narrowing(source.fmt, out.fmt), out)


@pytest.mark.parametrize("lanes", [1, 3, 4, 8])
@pytest.mark.parametrize(
    ("have", "want"), [((2, 3, 5), (30,)), ((2, 3), (3, 2)), ((7, 5), (5, 7)), ((1,), (1,)), ((4, 3), (2, 6))]
)
def test_reshape_equals_numpy(have: tuple[int, ...], want: tuple[int, ...], lanes: int) -> None:
    spec = reorder(tensor(have, F, lanes), tensor(want, fixed(10, 3), lanes))
    source = np.arange(np.prod(have), dtype=np.int64) * 2
    layout = spec.source.layout
    out = spec.emulate(source.reshape(layout.rows, layout.cols)).outputs[0]
    assert np.array_equal(out.ravel(), np.arange(np.prod(have)))
    check(spec)


def test_a_permuted_source_is_read_in_its_loop_order() -> None:
    source = tensor((3, 5), F, 4)
    turned = Operand(F, source.layout, source.access.permute((1, 0)))
    spec = reorder(turned, tensor((15,), F, 4))
    values = np.arange(15, dtype=np.int64).reshape(3, 5)
    assert np.array_equal(spec.emulate(values).outputs[0].ravel(), values.T.ravel())
    check(spec, simulator="icarus")


def test_element_counts_must_agree() -> None:
    with pytest.raises(KernelParameterError, match=r"6 elements of \(2, 3\) do not fill \(7,\)"):
        reorder(tensor((2, 3), F, 4), tensor((7,), F, 4))
