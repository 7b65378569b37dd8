"""Meaning of the operations at computed indices, in numpy, and the error of an index that leaves its axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.errors import IndexRangeError
from torchcalyx.ir.graph import Source

Tensor: TypeAlias = "npt.NDArray[Any]"

_AT: Mapping[str, Any] = {"add": np.add.at, "max": np.maximum.at, "min": np.minimum.at}


def check_index(source: Source, node: str, values: Tensor, size: int, wrap: bool) -> None:
    """Raise IndexRangeError for the first index that does not lie on an axis of `size` elements."""
    bad = (values < (-size if wrap else 0)) | (values >= size)
    if not bad.any():
        return
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    low = -size if wrap else 0
    raise IndexRangeError(
        f"{source.op or 'an operation'} (node {node!r}) at {source}: the index is {int(values[place])} at "
        f"{list(place)}, but the axis has {size} element{'s' if size > 1 else ''}: {low} to {size - 1} are "
        "allowed; correct the index, or clamp it in the model"
    )


def _checked(x: Tensor, size: int, wrap: bool) -> Tensor:
    wide = x.astype(np.int64)
    return np.where(wide < 0, wide + size, wide) if wrap else wide


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    shape = list(np.broadcast_shapes(*(a.shape[:dim] + a.shape[dim + 1 :] for a in (x, index))))
    wide = [np.broadcast_to(a, (*shape[:dim], a.shape[dim], *shape[dim:])) for a in (x, index)]
    inside = (wide[1] >= 0) & (wide[1] < x.shape[dim])
    found = np.take_along_axis(wide[0], np.where(inside, wide[1], 0).astype(np.int64), dim)
    return np.where(inside, found, np.zeros((), x.dtype))


def _put(base: Tensor, index: Tensor, source: Tensor, dim: int, mode: str) -> Tensor:
    index, source = np.broadcast_arrays(index, source)
    inside = (index >= 0) & (index < base.shape[dim])
    places = list(np.nonzero(inside))
    places[dim] = index[inside].astype(np.int64)
    result = np.array(base)
    if mode == "set":
        for place, value in zip(zip(*places, strict=True), source[inside], strict=True):
            result[place] = value  # one by one: the last of equal places stays
    else:
        _AT[mode](result, tuple(places), source[inside])
    return result


EVALUATORS: Mapping[str, Callable[..., Tensor]] = {"checked": _checked, "take": _take, "put": _put}
