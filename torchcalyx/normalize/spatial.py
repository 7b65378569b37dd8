"""What lowerings over spatial axes share: arguments for each axis, and a batch axis where the caller has
none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchcalyx.normalize.args import Args
from torchcalyx.normalize.builder import Builder, Value


def each_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """An argument that torch takes as one number for all axes or as one for each."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) not in (1, axes):
        raise ValueError(f"{list(values)} needs one number for each of {axes} axes")
    return values * axes if len(values) == 1 else values


def batched(b: Builder, a: Args, name: str, axes: int, compute: Callable[[Value], Value]) -> Value:
    """`compute` of x[N, C, *S]; an argument without N gets one for the computation."""
    x = a.tensor(name)
    if len(x.shape) == axes + 2:
        return compute(x)
    if len(x.shape) != axes + 1:
        raise ValueError(f"needs {axes} spatial axes, got the shape {list(x.shape)}")
    result = compute(b.view(x, (1, *x.shape)))
    return b.view(result, result.shape[1:])
