"""Lowerings of softmax attention: two matrix products with a softmax between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Known, Value
from torchcalyx.normalize.contraction import product
from torchcalyx.normalize.elementwise import scaled
from torchcalyx.normalize.reduction import reduced

aten = torch.ops.aten


def softmax(b: Builder, x: Value, dim: int) -> Value:
    """exp(x - max) / sum of it, along one axis."""
    shifted = b.emit("sub", x, reduced(b, "amax", x, dim, True))
    powers = b.emit("exp", shifted)
    return b.emit("div", powers, reduced(b, "sum", powers, dim, True))


def _attention(b: Builder, a: Args) -> Result:
    """softmax(query @ key.T * scale + mask) @ value; a bool mask leaves out where it is false."""
    query, key, value = (a.tensor(name) for name in ("query", "key", "value"))
    if a["dropout_p"]:
        return Reject("attention with dropout is random; call .eval() on the model")
    if a.get("enable_gqa", False):
        key, value = (_repeated(b, v, query) for v in (key, value))
    scale = a["scale"] if a["scale"] is not None else 1.0 / math.sqrt(query.shape[-1])
    scores = scaled(b, product(b, query, b.transpose(key)), scale)
    if a["is_causal"]:
        rows, columns = scores.shape[-2:]
        scores = _chosen(b, Known(torch.ones(rows, columns, dtype=torch.bool).tril()), scores)
    elif a["attn_mask"] is not None:
        mask = a.tensor("attn_mask")
        scores = _chosen(b, mask, scores) if mask.dtype == "bool" else b.emit("add", scores, mask)
    if a["is_causal"] and a["attn_mask"] is not None:
        return Reject("attention takes a mask or is_causal, not both")
    return product(b, softmax(b, scores, len(scores.shape) - 1), value)


def _chosen(b: Builder, mask: Value, scores: Value) -> Value:
    """Scores where the mask is true, minus infinity elsewhere."""
    return b.emit("where", mask, scores, b.known(-math.inf, scores.dtype))


def _repeated(b: Builder, x: Value, query: Value) -> Value:
    """Heads of keys or values, each for a group of neighbouring heads of the query."""
    *lead, heads, rows, width = x.shape
    groups = query.shape[-3] // heads
    if groups == 1:
        return x
    apart = b.view(x, (*lead, heads, 1, rows, width))
    return b.view(b.expand(apart, (*lead, heads, groups, rows, width)), (*lead, heads * groups, rows, width))


LOWERINGS: Mapping[Any, Lowering] = {aten.scaled_dot_product_attention.default: _attention}
