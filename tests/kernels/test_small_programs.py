"""Golden programs of the smallest instances of the relayouts and folds, to be read in review."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels.gemm import with_stable_names
from tests.kernels.support import check, tensor
from torchcalyx.kernels.arith.expr import narrowing, value_of
from torchcalyx.kernels.arith.numerics import fixed, integer
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.kernels.folds.argreduce import arg_reduce
from torchcalyx.kernels.folds.fold import accumulator
from torchcalyx.kernels.folds.reduce import reduce
from torchcalyx.kernels.folds.scan import scan
from torchcalyx.kernels.moves.gather import GatherSource, gather
from torchcalyx.kernels.moves.splice import splice
from torchcalyx.kernels.moves.transpose import transpose

F4 = fixed(4, 1)
KEEP = narrowing(F4, F4)
X = tensor((2, 3), F4, 2)
SUM = narrowing(accumulator("add", value_of(F4), 2), F4)
PIECES = [GatherSource(tensor((2, 2), F4, 2), (0, 1), KEEP)]

SMALLEST: dict[str, KernelSpec] = {
    "gather": gather(PIECES, X, 1),
    "splice": splice(PIECES, X, 1),
    "transpose": transpose(replace(X, access=X.access.permute((1, 0))), KEEP, tensor((3, 2), F4, 2)),
    "reduce": reduce("add", KEEP, [X], (0,), SUM, tensor((3,), F4, 2)),
    "argreduce": arg_reduce("max", X, (1,), tensor((2,), integer(3), 2)),
    "scan": scan("add", KEEP, [X], 0, SUM, X),
}


@pytest.mark.parametrize("family", SMALLEST)
def test_the_smallest_program(family: str, golden: Callable[[str], None]) -> None:
    spec = SMALLEST[family]
    assert spec.family == family
    golden(with_stable_names(bench(spec).futil))
    check(spec, simulator="icarus")
