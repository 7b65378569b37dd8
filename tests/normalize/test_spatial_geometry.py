"""Random geometries of windows: the lowering of one operation alone against torch, exact where sums are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcalyx.ir.graph import Graph
from torchcalyx.ir.normalform import verify
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import LOWERINGS
from torchcalyx.normalize.args import Reject, bind
from torchcalyx.normalize.builder import Builder, Known, Ref, type_of

aten = torch.ops.aten
MANY = settings(max_examples=60, deadline=None, derandomize=True)


def numbers(*shape: int, seed: int) -> Tensor:
    """Multiples of 1/8 in double precision: sums of their products are exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-16, 17, shape, generator=generator).double() / 8


def lowered(target: Any, x: Tensor, *args: Any) -> tuple[Tensor, np.ndarray[Any, Any]]:
    """(torch's result, the reference interpreter's) of target(x, *args)."""
    with torch.no_grad():
        results = target(x, *args)
    results = results if isinstance(results, tuple) else (results,)
    b = Builder()
    values = [Known(v) if isinstance(v, Tensor) else v for v in args]
    outs = tuple(type_of(Known(r)) for r in results)
    bound = bind(target, (b.input("x", tuple(x.shape), x.dtype), *values), {}, outs)
    result = LOWERINGS[target](b, bound)
    result = result[0] if isinstance(result, tuple) else result
    assert not isinstance(result, Reject) and result is not None, result
    assert bound.unread() == ()
    made: Ref = b.ref(result)
    graph = Graph(tuple(b.nodes), ("x",), (made.name,), b.constants, b.parameter_names)
    assert verify(graph) == ()
    return results[0], reference(graph, [x.numpy()])[0]


def each(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=2, max_size=2)


@MANY
@given(each(1, 9), each(1, 4), each(1, 4), each(0, 4), each(1, 4), st.sampled_from([1, 2, 4]), st.booleans())
def test_convolution(
    size: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    bias: bool,
) -> None:
    reach = [n + 2 * p - d * (k - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
    assume(min(reach) >= 1)
    weight = numbers(8, 4 // groups, *kernel, seed=1)
    offset = numbers(8, seed=2) if bias else None
    x = numbers(2, 4, *size, seed=0)
    expected, got = lowered(aten.conv2d.default, x, weight, offset, stride, padding, dilation, groups)
    np.testing.assert_array_equal(got, expected.numpy())


@MANY
@given(
    each(1, 7),
    each(1, 5),
    each(1, 5),
    each(0, 4),
    each(1, 5),
    st.sampled_from([1, 2]),
    each(0, 4),
    st.booleans(),
)
def test_transposed_convolution(
    size: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    more: list[int],
    bias: bool,
) -> None:
    output_padding = [m % max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)]
    zipped = zip(size, stride, padding, dilation, kernel, output_padding, strict=True)
    assume(min((n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, s, p, d, k, o in zipped) >= 1)
    weight = numbers(4, 6 // groups, *kernel, seed=1)
    offset = numbers(6, seed=2) if bias else None
    args = (weight, offset, stride, padding, output_padding, groups, dilation)
    expected, got = lowered(aten.conv_transpose2d.input, numbers(2, 4, *size, seed=0), *args)
    np.testing.assert_array_equal(got, expected.numpy())


@MANY
@given(each(2, 9), each(1, 4), each(1, 4), each(0, 2), each(1, 3), st.booleans())
def test_max_pool(
    size: list[int], kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
) -> None:
    padding = [min(p, k // 2) for p, k in zip(padding, kernel, strict=True)]
    reach = [n + 2 * p - d * (k - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
    assume(min(reach) >= 1)
    x = -numbers(2, 3, *size, seed=0).abs() - 1
    assume(aten.max_pool2d(x, kernel, stride, padding, dilation, ceil).isfinite().all())
    expected, got = lowered(aten.max_pool2d.default, x, kernel, stride, padding, dilation, ceil)
    np.testing.assert_array_equal(got, expected.numpy())


@MANY
@given(
    each(2, 9),
    each(1, 4),
    each(1, 4),
    each(0, 2),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, None, 3, -2]),
)
def test_avg_pool(
    size: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil: bool,
    include: bool,
    divisor: int | None,
) -> None:
    padding = [min(p, k // 2) for p, k in zip(padding, kernel, strict=True)]
    assume(min(n + 2 * p - k for n, p, k in zip(size, padding, kernel, strict=True)) >= 0)
    args = (kernel, stride, padding, ceil, include, divisor)
    expected, got = lowered(aten.avg_pool2d.default, numbers(2, 3, *size, seed=0), *args)
    np.testing.assert_allclose(got, expected.numpy(), 1e-14, 1e-14)


@MANY
@given(each(1, 12), each(1, 12), st.booleans())
def test_adaptive_pool(size: list[int], count: list[int], largest: bool) -> None:
    target = aten.adaptive_max_pool2d.default if largest else aten.adaptive_avg_pool2d.default
    expected, got = lowered(target, numbers(2, 3, *size, seed=0) - 3, count)
    np.testing.assert_allclose(got, expected.numpy(), 1e-14, 1e-14)


@MANY
@given(each(1, 12), each(1, 24), st.sampled_from(["nearest", "exact", "bilinear", "corners"]))
def test_resize(size: list[int], count: list[int], kind: str) -> None:
    x = numbers(2, 3, *size, seed=0)
    if kind in ("bilinear", "corners"):
        expected, got = lowered(aten.upsample_bilinear2d.vec, x, count, kind == "corners", None)
    else:
        target = aten.upsample_nearest2d.vec if kind == "nearest" else aten._upsample_nearest_exact2d.vec
        expected, got = lowered(target, x, count, None)
    np.testing.assert_allclose(got, expected.numpy(), 1e-13, 1e-13)


@MANY
@given(each(2, 12), st.floats(0.4, 3.5), st.booleans())
def test_nearest_by_factor_in_single_precision(size: list[int], factor: float, exact: bool) -> None:
    x = numbers(2, 3, *size, seed=0).float()
    target = aten._upsample_nearest_exact2d.vec if exact else aten.upsample_nearest2d.vec
    assume(min(int(n * factor) for n in size) >= 1)
    expected, got = lowered(target, x, None, [factor, factor])
    np.testing.assert_array_equal(got, expected.numpy())
