"""Type rules of the normal form: result shape and dtype of each operation from its operands and attributes.

A rule raises `ValueError` with the reason when they do not fit. It knows nothing of torch and of how a graph
was made, so it checks both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from torchcalyx.ir.graph import Attr
from torchcalyx.kernels.functions.known import KNOWN

FLOATS = ("float16", "float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
DTYPES = (*FLOATS, *INTS, "bool")


@dataclass(frozen=True, slots=True)
class TensorType:
    """Static shape and numpy dtype name of a value."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


Attrs: TypeAlias = "Mapping[str, Attr]"
Rule: TypeAlias = Callable[[tuple[TensorType, ...], Attrs], TensorType]


def need(condition: bool, text: str) -> None:
    """Raise ValueError(text) unless the condition holds."""
    if not condition:
        raise ValueError(text)


def _one_dtype(types: tuple[TensorType, ...], allowed: tuple[str, ...] = DTYPES) -> str:
    dtype = types[0].dtype
    need(all(t.dtype == dtype for t in types), f"operands differ in dtype: {', '.join(map(str, types))}")
    need(dtype in allowed, f"dtype {dtype} is not one of {', '.join(allowed)}")
    return dtype


def _ints(value: Attr, text: str) -> tuple[int, ...]:
    need(isinstance(value, tuple) and all(type(v) is int for v in value), f"{text} must be a tuple of ints")
    assert isinstance(value, tuple)
    return tuple(v for v in value if isinstance(v, int))


def _dim(value: Attr, rank: int) -> int:
    need(type(value) is int and 0 <= value < rank, f"dim {value} is not an axis of a rank {rank} tensor")
    assert isinstance(value, int)
    return value


def elementwise_rule(allowed: tuple[str, ...], result: str | None = None) -> Rule:
    """Rule of elementwise operations on the `allowed` dtypes; `result` is the dtype of the result if it
    differs.
    """

    def rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        dtype = _one_dtype(types, allowed)
        return TensorType(np.broadcast_shapes(*(t.shape for t in types)), result or dtype)

    return rule


def gelu_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """`approximate` is "none" or "tanh"."""
    need(attrs["approximate"] in ("none", "tanh"), f"approximate is {attrs['approximate']!r}")
    return elementwise_rule(FLOATS)(types, attrs)


def function_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """`name` is one of the kernel library's functions, `params` are its numbers."""
    need(attrs["name"] in KNOWN, f"{attrs['name']!r} is no known function")
    params = attrs["params"]
    need(
        isinstance(params, tuple) and all(type(v) is float for v in params),
        f"params {params!r} must be a tuple of floats",
    )
    return elementwise_rule(FLOATS)(types, attrs)


def linear_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """x[..., K], weight[N, K], bias[N] -> [..., N]."""
    dtype, (x, weight) = _one_dtype(types, (*FLOATS, *INTS)), types[:2]
    need(len(weight.shape) == 2 and len(x.shape) >= 1, "needs x of rank >= 1 and a weight of rank 2")
    need(x.shape[-1] == weight.shape[1], f"inner sizes differ: {x.shape[-1]} and {weight.shape[1]}")
    need(len(types) == 2 or types[2].shape == weight.shape[:1], f"bias must have shape {weight.shape[:1]}")
    return TensorType((*x.shape[:-1], weight.shape[0]), dtype)


def matmul_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """a[..., M, K], b[..., K, N] -> [..., M, N]."""
    dtype, (a, b) = _one_dtype(types, (*FLOATS, *INTS)), types
    need(min(len(a.shape), len(b.shape)) >= 2, "needs operands of rank >= 2")
    need(a.shape[-1] == b.shape[-2], f"inner sizes differ: {a.shape[-1]} and {b.shape[-2]}")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return TensorType((*batch, a.shape[-2], b.shape[-1]), dtype)


def where_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """bool condition and two values of one dtype, broadcast."""
    need(types[0].dtype == "bool", "the condition must be bool")
    return TensorType(np.broadcast_shapes(*(t.shape for t in types)), _one_dtype(types[1:]))


def cast_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """The operand with dtype `to`."""
    need(attrs["to"] in DTYPES, f"dtype {attrs['to']} is not one of {', '.join(DTYPES)}")
    return TensorType(types[0].shape, str(attrs["to"]))


def clamp_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Bounds are numbers that the dtype can hold, at most one is None."""
    bounds = (attrs["min"], attrs["max"])
    need(bounds != (None, None), "min and max are both None")
    number = (int, float) if types[0].dtype in FLOATS else int
    need(
        all(b is None or isinstance(b, number) for b in bounds),
        f"bounds {bounds} do not fit {types[0].dtype}",
    )
    return elementwise_rule((*FLOATS, *INTS))(types, attrs)


def by_constant_rule(allowed: tuple[str, ...], kind: type) -> Rule:
    """Rule of division-like operations by a nonzero number of Python type `kind`."""

    def rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        value = attrs["value"]
        need(type(value) is kind and value != 0, f"value must be a nonzero {kind.__name__}, got {value!r}")
        return elementwise_rule(allowed)(types, attrs)

    return rule


def reduce_rule(allowed: tuple[str, ...]) -> Rule:
    """Rule of reductions over sorted, distinct `dims`."""

    def rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        (x,), dims = types, _ints(attrs["dims"], "dims")
        need(
            bool(dims) and list(dims) == sorted(set(dims)), f"dims {dims} must be sorted, distinct, not empty"
        )
        need(all(0 <= d < len(x.shape) for d in dims), f"dims {dims} are not axes of {x}")
        kept = tuple(1 if i in dims else n for i, n in enumerate(x.shape))
        dropped = tuple(n for i, n in enumerate(x.shape) if i not in dims)
        return TensorType(kept if attrs["keepdim"] else dropped, _one_dtype(types, allowed))

    return rule


def arg_reduce_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Index along one axis, int64."""
    dim = _dim(attrs["dim"], len(types[0].shape))
    reduced = reduce_rule((*FLOATS, *INTS))(types, {"dims": (dim,), "keepdim": attrs["keepdim"]})
    return TensorType(reduced.shape, "int64")


def cumulative_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Same type; `dim` is an axis."""
    _dim(attrs["dim"], len(types[0].shape))
    return TensorType(types[0].shape, _one_dtype(types, (*FLOATS, *INTS)))


def argsort_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Indices of the same shape, int64."""
    return TensorType(cumulative_rule(types, attrs).shape, "int64")


def view_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Another shape of the same size."""
    shape = _ints(attrs["shape"], "shape")
    need(math.prod(shape) == math.prod(types[0].shape), f"{types[0]} has not the size of {shape}")
    return TensorType(shape, types[0].dtype)


def permute_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """`dims` names each axis once."""
    dims = _ints(attrs["dims"], "dims")
    need(sorted(dims) == list(range(len(types[0].shape))), f"dims {dims} is no permutation of the axes")
    return TensorType(tuple(types[0].shape[d] for d in dims), types[0].dtype)


def scale_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """One exponent for each place along `axis`."""
    (x,) = types
    axis, exponents = attrs["axis"], _ints(attrs["exponents"], "exponents")
    need(x.dtype in FLOATS, f"{x.dtype} has no exponents")
    need(isinstance(axis, int) and 0 <= axis < len(x.shape), f"axis {axis} is none of the operand")
    need(isinstance(axis, int) and len(exponents) == x.shape[axis], f"{len(exponents)} exponents")
    return x


def slice_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """One (start, step, size) an axis, inside the operand, not empty."""
    (x,) = types
    starts, steps, sizes = (_ints(attrs[k], k) for k in ("starts", "steps", "sizes"))
    need(len(starts) == len(steps) == len(sizes) == len(x.shape), "needs one entry an axis")
    for axis, (n, start, step, size) in enumerate(zip(x.shape, starts, steps, sizes, strict=True)):
        last = start + (size - 1) * step
        need(step != 0 and size >= 1 and 0 <= start < n and 0 <= last < n, f"leaves axis {axis} of size {n}")
    return TensorType(sizes, x.dtype)


def expand_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """A shape to which the operand broadcasts."""
    shape = _ints(attrs["shape"], "shape")
    need(np.broadcast_shapes(types[0].shape, shape) == shape, f"{types[0]} does not expand to {shape}")
    return TensorType(shape, types[0].dtype)


def cat_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Operands equal outside axis `dim`."""
    dim = _dim(attrs["dim"], len(types[0].shape))
    others = {t.shape[:dim] + t.shape[dim + 1 :] for t in types}
    need(
        len(others) == 1 and len({len(t.shape) for t in types}) == 1,
        "operands differ outside the joined axis",
    )
    shape = list(types[0].shape)
    shape[dim] = sum(t.shape[dim] for t in types)
    return TensorType(tuple(shape), _one_dtype(types))


def pad_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Non-negative counts before and after each axis."""
    before, after = _ints(attrs["before"], "before"), _ints(attrs["after"], "after")
    need(len(before) == len(after) == len(types[0].shape), "needs one entry an axis")
    need(min((*before, *after), default=0) >= 0, "padding must not be negative")
    need(isinstance(attrs["value"], (int, float)), "value must be a number")
    sizes = zip(before, types[0].shape, after, strict=True)
    return TensorType(tuple(b + n + a for b, n, a in sizes), types[0].dtype)


def given_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Inputs and constants state their own type; there is nothing to infer."""
    raise ValueError("inputs and constants have no operands to infer from")
