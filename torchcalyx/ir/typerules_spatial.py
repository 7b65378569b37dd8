"""Type rules of operations over spatial axes: x is [N, C, *S] with one to three axes in S.

A window of `kernel` taps, `dilation` apart, moves by `stride` over an axis with `before` and `after`
elements of padding; windows that would leave the padded axis do not exist. Each attribute has one int for
each spatial axis.
"""

from __future__ import annotations

from torchcalyx.ir.graph import Attr
from torchcalyx.ir.typerules import FLOATS, INTS, Attrs, TensorType, need

MOST_AXES = 3


def _spatial(x: TensorType) -> tuple[int, ...]:
    axes = len(x.shape) - 2
    need(1 <= axes <= MOST_AXES, f"{x} has not the axes [N, C, *S] with one to {MOST_AXES} spatial ones")
    return x.shape[2:]


def _counts(value: Attr, key: str, axes: int, least: int) -> tuple[int, ...]:
    one_each = isinstance(value, tuple) and len(value) == axes
    need(one_each, f"{key} = {value} needs one int for each of {axes} axes")
    assert isinstance(value, tuple)
    counts = tuple(v for v in value if type(v) is int)
    need(len(counts) == axes and min(counts) >= least, f"{key} = {value} must hold ints of at least {least}")
    return counts


def _positions(spatial: tuple[int, ...], kernel: tuple[int, ...], attrs: Attrs) -> tuple[int, ...]:
    """Number of windows along each axis; at least one."""
    axes = len(spatial)
    stride = _counts(attrs["stride"], "stride", axes, 1)
    before, after = (_counts(attrs[k], k, axes, 0) for k in ("before", "after"))
    dilation = _counts(attrs.get("dilation", (1,) * axes), "dilation", axes, 1)
    found = []
    for n, k, s, b, a, d in zip(spatial, kernel, stride, before, after, dilation, strict=True):
        room = b + n + a - (d * (k - 1) + 1)
        need(room >= 0, f"a window of {k} taps, {d} apart, is longer than the padded axis of {b + n + a}")
        found.append(room // s + 1)
    return tuple(found)


def _number(types: tuple[TensorType, ...]) -> str:
    dtype = types[0].dtype
    need(all(t.dtype == dtype for t in types), f"operands differ in dtype: {', '.join(map(str, types))}")
    need(dtype in (*FLOATS, *INTS), f"dtype {dtype} is not a number")
    return dtype


def conv_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """x[N, C, *S], weight[Co, C / groups, *K], bias[Co] -> [N, Co, *O]; `groups` divides C and Co."""
    dtype, (x, weight), groups = _number(types), types[:2], attrs["groups"]
    spatial = _spatial(x)
    need(len(weight.shape) == len(x.shape) and min(weight.shape) > 0, f"weight {weight} does not fit {x}")
    need(type(groups) is int and groups >= 1, f"groups = {groups} must be a positive int")
    assert isinstance(groups, int)
    features, part = weight.shape[:2]
    fits = part * groups == x.shape[1] and features % groups == 0
    text = f"{groups} groups do not split {x.shape[1]} channels into {part} each, or {features} results"
    need(fits, text)
    need(len(types) == 2 or types[2].shape == (features,), f"bias must have shape [{features}]")
    return TensorType((x.shape[0], features, *_positions(spatial, weight.shape[2:], attrs)), dtype)


def pool_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """x[N, C, *S] -> [N, C, *O], one result a window of `kernel` taps."""
    (x,), spatial = types, _spatial(types[0])
    kernel = _counts(attrs["kernel"], "kernel", len(spatial), 1)
    return TensorType((*x.shape[:2], *_positions(spatial, kernel, attrs)), _number(types))


def max_pool_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """As `pool_rule`; every window holds an element of x, since the greatest of padding alone is minus
    infinity.
    """
    result = pool_rule(types, attrs)
    keys = ("kernel", "stride", "before", "dilation")
    kernel, stride, before, dilation = (_counts(attrs[k], k, len(result.shape) - 2, 0) for k in keys)
    spatial = zip(types[0].shape[2:], kernel, stride, before, dilation, strict=True)
    for axis, (n, k, s, b, d) in enumerate(spatial):
        windows = (range(i * s - b, i * s - b + d * k, d) for i in range(result.shape[2 + axis]))
        full = all(any(0 <= place < n for place in window) for window in windows)
        need(full, f"a window of spatial axis {axis} holds nothing but padding")
    return result


def upsample_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """x[N, C, *S] -> spatial sizes times `scales`."""
    (x,), spatial = types, _spatial(types[0])
    scales = _counts(attrs["scales"], "scales", len(spatial), 1)
    return TensorType((*x.shape[:2], *(n * s for n, s in zip(spatial, scales, strict=True))), x.dtype)
