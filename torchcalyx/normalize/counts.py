"""Lowerings that count comparisons: membership, places in sorted sequences, histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.ir.typerules import FLOATS
from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value, dtype_name, torch_dtype
from torchcalyx.normalize.elementwise import as_value, common_dtype
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def _count_nonzero(b: Builder, a: Args) -> Result:
    x, dims = a.tensor("self"), a["dim"]
    return reduced(b, "sum", b.cast(b.cast(x, "bool"), "int64"), dims, False)


def _is_in(elements: str, tests: str) -> Lowering:
    def lower(b: Builder, a: Args) -> Result:
        a.ignore("assume_unique")
        dtype = common_dtype(a.operand(elements), a.operand(tests))
        x, y = (as_value(b, a.operand(name), dtype) for name in (elements, tests))
        if x.dtype == "bool":
            x, y = b.cast(x, "uint8"), b.cast(y, "uint8")
        flat = b.view(y, (math.prod(y.shape),))
        same = b.emit("eq", b.view(x, (*x.shape, 1)), flat)
        found = reduced(b, "any", same, len(x.shape), False)
        return b.emit("logical_not", found) if a["invert"] else found

    return lower


def _below(b: Builder, sequence: Value, x: Value, right: bool, dtype: str) -> Value:
    """For each element of x[..., K] how many of sequence[..., N] stand before it."""
    if x.dtype != sequence.dtype:
        common = torch.promote_types(torch_dtype(x.dtype), torch_dtype(sequence.dtype))
        x, sequence = (b.cast(v, dtype_name(common)) for v in (x, sequence))
    wide = b.view(sequence, (*sequence.shape[:-1], 1, sequence.shape[-1]))
    before = b.emit("le" if right else "lt", wide, b.view(x, (*x.shape, 1)))
    return reduced(b, "sum", b.cast(before, dtype), len(before.shape) - 1, False)


def _search(sequence: str, name: str) -> Lowering:
    """torch.searchsorted and torch.bucketize by counting: exact for any sorted sequence."""

    def lower(b: Builder, a: Args) -> Result:
        a.ignore("out_int32")  # the result's dtype says it
        right = a["right"] or (a.get("side", None) == "right")
        if a.get("side", None) == "left" and a["right"]:
            return Reject("side='left' contradicts right=True")
        if a.get("sorter", None) is not None:
            return Reject("no kernel yet for a sorter; sort the sequence before")
        ordered, x = a.tensor(sequence), a.operand(name)
        value = b.known(x, ordered.dtype) if isinstance(x, (bool, int, float)) else x
        flat = len(ordered.shape) == 1
        shaped = b.view(value, (math.prod(value.shape),)) if flat else value
        return b.view(_below(b, ordered, shaped, right, a.out.dtype), a.out.shape)

    return lower


def _own_range(b: Builder, flat: Value) -> tuple[Value, Value]:
    """Least and greatest value; where all are equal, half a unit below and above."""
    least, most = (reduced(b, op, flat, 1, True) for op in ("amin", "amax"))
    half = b.known(0.5, flat.dtype)
    same = b.emit("eq", least, most)
    low = b.emit("where", same, b.emit("sub", least, half), least)
    return low, b.emit("where", same, b.emit("add", most, half), most)


def _parts(b: Builder, flat: Value, bins: int, low: float, high: float) -> tuple[Value, Value, Value]:
    """Values [1, N], the edges [bins + 1, 1] to compare them with, and the edges as torch gives them.

    Equal parts of low .. high, or, where both are the same, of the range of the values: these are compared in
    whole multiples of it, so that a value on an edge lies exactly there.
    """
    dtype = torch_dtype(flat.dtype)
    numbers = torch.arange(bins + 1, dtype=torch.float64)[:, None]
    if low != high:
        edges = Known((low + numbers / bins * (high - low)).to(dtype))
        return flat, edges, edges
    least, most = _own_range(b, flat)
    span = b.emit("sub", most, least)
    values = b.emit("mul", b.emit("sub", flat, least), b.known(bins, flat.dtype))
    inner = Known((numbers[:bins] / bins).to(dtype))
    shown = b.cat([b.emit("add", least, b.emit("mul", span, inner)), b.view(most, (1, 1))], 0)
    return values, b.emit("mul", span, Known(numbers.to(dtype))), shown


def _inside(b: Builder, flat: Value, edges: Value) -> Value:
    """Which of the values [1, N] lie in which part between edges [bins + 1, 1]: bool[bins, N]."""
    bins = edges.shape[0] - 1
    above = b.emit("ge", flat, b.slice(edges, 0, 0, 1, bins))
    below = [b.emit("lt", flat, b.slice(edges, 0, 1, 1, bins - 1))] if bins > 1 else []
    last = b.emit("le", flat, b.slice(edges, 0, bins, 1, 1))
    return b.emit("logical_and", above, b.cat([*below, last], 0))


def _flat(b: Builder, x: Value) -> Value | Reject:
    if x.dtype not in FLOATS:
        return Reject(f"a histogram of {x.dtype}; convert it with .float()")
    if not math.prod(x.shape):
        return Reject("a histogram of no elements")
    return b.view(x, (1, math.prod(x.shape)))


def _counted(b: Builder, a: Args) -> Result:
    """torch.histc: elements of each of `bins` equal parts of min .. max, the last one with its end."""
    x, bins, low, high = a.tensor("self"), a["bins"], float(a["min"]), float(a["max"])
    if not math.prod(x.shape):
        return Known(torch.zeros(a.out.shape, dtype=torch_dtype(x.dtype)))
    flat = _flat(b, x)
    if isinstance(flat, Reject):
        return flat
    values, edges, _ = _parts(b, flat, bins, low, high)
    inside = _inside(b, values, edges)
    return reduced(b, "sum", b.cast(b.cast(inside, "int64"), x.dtype), 1, False)


def _histogram(b: Builder, a: Args) -> Result:
    """torch.histogram: the same with weights, as a density if asked, and the edges beside it."""
    x, bins = a.tensor("self"), a["bins"]
    flat = _flat(b, x)
    if isinstance(flat, Reject):
        return flat
    if isinstance(bins, int):
        low, high = a["range"] or (0.0, 0.0)
        if a["range"] and low == high:
            low, high = low - 0.5, high + 0.5
        values, edges, shown = _parts(b, flat, bins, low, high)
    else:
        values, edges = flat, b.view(a.tensor("bins"), (math.prod(a.tensor("bins").shape), 1))
        shown = edges
    bins = edges.shape[0] - 1
    inside = _inside(b, values, edges)
    if a["weight"] is None:
        found = reduced(b, "sum", b.cast(b.cast(inside, "int64"), x.dtype), 1, False)
    else:
        weight = b.view(a.tensor("weight"), flat.shape)
        found = reduced(b, "sum", b.emit("where", inside, weight, b.known(0, x.dtype)), 1, False)
    if a["density"]:
        width = b.emit("sub", b.slice(shown, 0, 1, 1, bins), b.slice(shown, 0, 0, 1, bins))
        area = b.emit("mul", b.view(width, (bins,)), reduced(b, "sum", found, 0, True))
        found = b.emit("div", found, area)
    return found, b.view(shown, (bins + 1,))


LOWERINGS: Mapping[Any, Lowering] = {
    **dict.fromkeys((aten.count_nonzero.default, aten.count_nonzero.dim_IntList), _count_nonzero),
    aten.isin.Tensor_Tensor: _is_in("elements", "test_elements"),
    aten.isin.Tensor_Scalar: _is_in("elements", "test_element"),
    aten.isin.Scalar_Tensor: _is_in("element", "test_elements"),
    **dict.fromkeys((aten.searchsorted.Tensor, aten.searchsorted.Scalar), _search("sorted_sequence", "self")),
    **dict.fromkeys((aten.bucketize.Tensor, aten.bucketize.Scalar), _search("boundaries", "self")),
    aten.histc.default: _counted,
    **dict.fromkeys((aten.histogram.bin_ct, aten.histogram.bins_tensor), _histogram),
}
