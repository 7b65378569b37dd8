"""Type rules of the operations at computed indices."""

from __future__ import annotations

import numpy as np

from torchcalyx.ir.typerules import DTYPES, INTS, Attrs, TensorType, need

PUT_MODES = ("set", "add", "max", "min")


def checked_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """An index of any integer dtype, as int64."""
    size = attrs["size"]
    need(types[0].dtype in INTS, f"an index of dtype {types[0].dtype}")
    need(type(size) is int and size > 0, f"size {size} must be a positive int")
    return TensorType(types[0].shape, "int64")


def take_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Table and index of one rank, broadcast but for the axis `dim`."""
    x, index = types
    dim = _axis(x, index, attrs)
    others = [t.shape[:dim] + t.shape[dim + 1 :] for t in types]
    shape = list(np.broadcast_shapes(*others))
    shape.insert(dim, index.shape[dim])
    need(x.dtype in DTYPES, f"dtype {x.dtype}")
    return TensorType(tuple(shape), x.dtype)


def put_rule(types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Index and source broadcast to one shape, which fits into the base but for the axis `dim`."""
    base, index, source = types
    dim = _axis(base, index, attrs)
    need(base.dtype == source.dtype, f"base and source differ in dtype: {base}, {source}")
    need(attrs["mode"] in PUT_MODES, f"mode {attrs['mode']!r} is not one of {', '.join(PUT_MODES)}")
    shape = np.broadcast_shapes(index.shape, source.shape)
    fits = len(shape) == len(base.shape) and all(
        n <= m for d, (n, m) in enumerate(zip(shape, base.shape, strict=True)) if d != dim
    )
    need(fits, f"{source} at {index} does not fit into {base}")
    return TensorType(base.shape, base.dtype)


def _axis(x: TensorType, index: TensorType, attrs: Attrs) -> int:
    dim, rank = attrs["dim"], len(x.shape)
    need(type(dim) is int and 0 <= dim < rank, f"dim {dim} is not an axis of a rank {rank} tensor")
    need(len(index.shape) == rank, f"{index} must have the rank of {x}")
    need(index.dtype in INTS, f"an index of dtype {index.dtype}")
    assert isinstance(dim, int)
    return dim
