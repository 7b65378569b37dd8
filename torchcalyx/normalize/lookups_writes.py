"""Lowerings that write at computed indices: in order, a later write after an earlier one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.elementwise import as_value, scaled
from torchcalyx.normalize.indexing import overwritten
from torchcalyx.normalize.lookups import strided
from torchcalyx.normalize.places import DATA, addressed, along, everywhere, limited, on_axis, written
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten

_MODES = {"sum": "add", "add": "add", "amax": "max", "amin": "min"}
_MOST_PRODUCTS = 1 << 16


def _combined(
    b: Builder, base: Value, index: Value, source: Value, dim: int, how: str, include_self: bool = True
) -> Value | Reject:
    """base reduced with what is written to each element. index: on its axis; source: of its shape."""
    source = b.cast(source, base.dtype)
    if base.dtype == "bool":
        return Reject(f"{how} of bools at an index: compute with integers")
    if how in ("multiply", "prod"):
        return _products(b, base, index, source, dim, include_self)
    if not include_self:  # a first write takes away what was there
        neutral = source if how in ("amax", "amin") else b.known(0, base.dtype)
        neutral = neutral if neutral.shape else everywhere(b, 0, source.shape, base.dtype)
        base = written(b, base, index, neutral, dim, "set")
    if how != "mean":
        return written(b, base, index, source, dim, _MODES[how])
    total = written(b, base, index, source, dim, "add")
    ones = everywhere(b, 1, source.shape, "int64")
    start = everywhere(b, int(include_self), base.shape, "int64")
    count = b.emit("clamp", written(b, start, index, ones, dim, "add"), min=1, max=None)
    if base.dtype not in FLOATS:
        return Reject("a mean of integers at an index: compute with floats")
    return b.emit("div", total, b.cast(count, base.dtype))


def _products(
    b: Builder, base: Value, index: Value, source: Value, dim: int, include_self: bool
) -> Value | Reject:
    """Every element times all sources whose index it is: the others count as 1."""
    size, count = base.shape[dim], source.shape[dim]
    shape = (*source.shape[:dim], size, *source.shape[dim:])
    if math.prod(shape) > _MOST_PRODUCTS:
        return Reject(f"products at an index of {math.prod(shape)} pairs; at most {_MOST_PRODUCTS}")
    numbers = Known(torch.arange(size).reshape(-1, *[1] * (len(shape) - dim - 1)))
    wide = [b.view(v, (*v.shape[:dim], 1, *v.shape[dim:])) for v in (index, source)]
    here = b.emit("eq", b.expand(wide[0], (*shape[:dim], 1, *shape[dim + 1 :])), numbers)
    factors = b.emit("where", here, wide[1], b.known(1, base.dtype))
    result = reduced(b, "prod", factors, dim + 1, False)
    behind = tuple(n - m for n, m in zip(base.shape, result.shape, strict=True))
    if any(behind):
        none = (0,) * len(behind)
        one = 1.0 if base.dtype in FLOATS else 1
        result = b.emit("pad", result, before=none, after=behind, value=one)
    if include_self:
        return b.emit("mul", base, result)
    touched = reduced(b, "any", here, dim + 1, False)
    if any(behind):
        touched = b.cast(b.emit("pad", b.cast(touched, "int8"), before=none, after=behind, value=0), "bool")
    assert count
    return b.emit("where", touched, result, base)


def _index_put(b: Builder, a: Args) -> Result:
    x, values, adds = a.tensor("self"), b.cast(a.tensor("values"), a.out.dtype), a["accumulate"]
    given = a["indices"]
    a.ignore("unsafe")
    if any(i is not None and i.dtype in ("bool", "uint8") and not isinstance(i, Known) for i in given):
        return _masked_put(b, x, given, values, adds)
    found = addressed(b, x, given)
    if isinstance(found, Reject):
        return found
    flat, place = found.merged(b, x), found.place
    before, after = found.shape[:place], found.shape[place + 1 :]
    source = b.expand(values, (*before, *found.index.shape, *after))
    source = b.view(source, (*before, math.prod(found.index.shape), *after))
    index = b.view(found.index, found.listed)
    if adds:
        result = written(b, flat, index, source, place, "add")
    else:
        result = _replaced(b, flat, index, source, place)
    return found.apart(b, result, x.shape)


def _replaced(b: Builder, base: Value, index: Value, source: Value, dim: int) -> Value:
    """base with source in place of its elements: by slices where all places are known and differ."""
    if isinstance(index, Known):
        places = index.tensor.reshape(-1).tolist()
        if len(set(places)) == len(places):
            found = overwritten(b, base, source, dim, places)
            if not isinstance(found, Reject):
                return found
    return written(b, base, index, source, dim, "set")


def _masked_put(b: Builder, x: Value, given: Any, values: Value, adds: bool) -> Result:
    """One value for all elements that a mask names."""
    mask = given[0]
    covered = len(mask.shape)
    if len(given) != 1 or (len(values.shape) > len(x.shape) - covered and values.shape[0] != 1):
        return DATA
    rest = len(x.shape) - covered
    shape = values.shape[len(values.shape) - rest :] if len(values.shape) > rest else values.shape
    mask = b.view(b.cast(mask, "bool"), (*mask.shape, *[1] * rest))
    one = b.view(values, shape)
    new = b.emit("add", x, one) if adds else one
    return b.emit("where", mask, new, x)


def _flat_put(b: Builder, a: Args) -> Result:
    x, size = a.tensor("self"), math.prod(a.out.shape)
    index = on_axis(b, a.tensor("index"), size, wrap=True)
    count = (math.prod(index.shape),)
    source = b.view(b.cast(a.tensor("source"), x.dtype), count)
    mode = "add" if a["accumulate"] else "set"
    result = written(b, b.view(x, (size,)), b.view(index, count), source, 0, mode)
    return b.view(result, a.out.shape)


def _laid(b: Builder, a: Args) -> tuple[Value, int, Value]:
    """Base and axis of `index_*`, and its index as a list along it."""
    x, index = a.tensor("self"), a.tensor("index")
    base = b.view(x, x.shape or (1,))
    dim = a["dim"] % len(base.shape)
    place = on_axis(b, index, base.shape[dim], wrap=False)
    return base, dim, b.view(place, along(place, len(base.shape), dim))


def _source(b: Builder, base: Value, dim: int, index: Value, source: Value) -> Value:
    shape = [index.shape[dim] if d == dim else n for d, n in enumerate(base.shape)]
    return b.view(source, shape)


def _index_copy(b: Builder, a: Args) -> Result:
    base, dim, index = _laid(b, a)
    source = _source(b, base, dim, index, a.tensor("source"))
    return b.view(written(b, base, index, source, dim, "set"), a.out.shape)


def _index_fill(b: Builder, a: Args) -> Result:
    base, dim, index = _laid(b, a)
    value = as_value(b, a["value"], base.dtype)
    shape = [index.shape[dim] if d == dim else n for d, n in enumerate(base.shape)]
    if isinstance(value, Known):
        source: Value = everywhere(b, value.tensor.reshape(()).item(), shape, base.dtype)
    else:
        source = b.expand(value, shape)
    return b.view(written(b, base, index, source, dim, "set"), a.out.shape)


def _index_add(b: Builder, a: Args) -> Result:
    base, dim, index = _laid(b, a)
    source = scaled(b, b.cast(a.tensor("source"), base.dtype), a["alpha"])
    result = _combined(b, base, index, _source(b, base, dim, index, source), dim, "sum")
    return result if isinstance(result, Reject) else b.view(result, a.out.shape)


def _index_reduce(b: Builder, a: Args) -> Result:
    base, dim, index = _laid(b, a)
    source = _source(b, base, dim, index, a.tensor("source"))
    wide = b.expand(index, source.shape)
    result = _combined(b, base, wide, source, dim, a["reduce"], a["include_self"])
    return result if isinstance(result, Reject) else b.view(result, a.out.shape)


def _scatter(source: str, how: str | None) -> Lowering:
    """source: name of the argument; how: the mode, or None for the argument that names it."""

    def lower(b: Builder, a: Args) -> Result:
        x, index = a.tensor("self"), a.tensor("index")
        base, index = (b.view(v, v.shape or (1,)) for v in (x, index))
        dim = a["dim"] % len(base.shape)
        if not math.prod(index.shape):
            a.ignore(*a.named)
            return x
        index = on_axis(b, index, base.shape[dim], wrap=False)
        given = as_value(b, a.operand(source), base.dtype)
        if not given.shape and isinstance(given, Known):
            given = everywhere(b, given.tensor.item(), index.shape, base.dtype)
        elif not given.shape:
            given = b.expand(given, index.shape)
        for axis, size in enumerate(index.shape):
            given = b.slice(given, axis, 0, 1, size)
        mode = a["reduce"] if how is None else how
        if mode == "set":
            result: Value | Reject = written(b, base, index, given, dim, "set")
        else:
            result = _combined(b, base, index, given, dim, mode, a.get("include_self", True))
        return result if isinstance(result, Reject) else b.view(result, a.out.shape)

    return lower


def _diagonal_scatter(b: Builder, a: Args) -> Result:
    x = a.tensor("self")
    numbers = torch.arange(math.prod(x.shape)).reshape(x.shape)
    places = numbers.diagonal(a["offset"], a["dim1"], a["dim2"]).reshape(-1)
    source = b.view(b.cast(a.tensor("src"), x.dtype), tuple(places.shape))
    flat = b.view(x, (math.prod(x.shape),))
    return b.view(written(b, flat, Known(places), source, 0, "set"), a.out.shape)


def _masked_index_put(b: Builder, a: Args) -> Result:
    """Sums of the values whose mask holds; the others' indices may lie anywhere."""
    x, mask = a.tensor("self"), a.tensor("mask")
    given = a["indices"]
    found = addressed(b, x, limited(b, x, given))
    if isinstance(found, Reject):
        return found
    values = b.cast(a.tensor("values"), x.dtype)
    shape, place = found.shape, found.place
    rest = (*shape[:place], *shape[place + 1 :])
    if rest and place:
        return Reject("a mask of indices behind other axes")
    counted = b.view(mask, (*mask.shape, *[1] * len(rest)))
    summands = b.emit("where", counted, values, b.known(0, x.dtype))
    source = b.view(b.expand(summands, (*found.index.shape, *rest)), (math.prod(found.index.shape), *rest))
    index = b.view(found.index, found.listed)
    return found.apart(b, written(b, found.merged(b, x), index, source, place, "add"), x.shape)


def _as_strided_scatter(b: Builder, a: Args) -> Result:
    x, size = a.tensor("self"), math.prod(a.out.shape)
    places = strided(a["size"], a["stride"], a["storage_offset"] or 0).reshape(-1)
    if places.numel() and int(places.max()) >= size:
        return Reject("it writes memory behind the tensor's own elements, which only its storage holds")
    source = b.view(b.cast(a.tensor("src"), x.dtype), tuple(places.shape))
    return b.view(written(b, b.view(x, (size,)), Known(places), source, 0, "set"), a.out.shape)


LOWERINGS: Mapping[Any, Lowering] = {
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.put.default: _flat_put,
    aten.index_copy.default: _index_copy,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.index_add.default: _index_add,
    aten.index_reduce.default: _index_reduce,
    aten.scatter.src: _scatter("src", "set"),
    aten.scatter.value: _scatter("value", "set"),
    aten.scatter.reduce: _scatter("src", None),
    aten.scatter.value_reduce: _scatter("value", None),
    aten.scatter_add.default: _scatter("src", "add"),
    aten.scatter_reduce.two: _scatter("src", None),
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten._unsafe_masked_index_put_accumulate.default: _masked_index_put,
    aten.as_strided_scatter.default: _as_strided_scatter,
}
