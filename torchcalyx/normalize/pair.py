"""`Pair`: a complex value of a walk as two real ones. Complex numbers exist nowhere behind `normalize`.

At the border of the graph a complex tensor is a real one with a first axis of 2, (real, imaginary).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from torchcalyx.ir.typerules import TensorType
from torchcalyx.normalize.builder import Builder, Known, Ref, Value, dtype_name, torch_dtype

REAL_OF = {"complex64": "float32", "complex128": "float64"}
"""Dtype of the halves of a complex dtype. Half precision (complex32) is read as complex64, like bfloat16."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Real and imaginary part, of one shape and dtype."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the complex tensor."""
        return self.re.shape

    @property
    def dtype(self) -> str:
        """numpy's name of the complex dtype."""
        return dtype_name(torch_dtype(self.re.dtype).to_complex())


AnyValue: TypeAlias = "Value | Pair"
VALUES = (Ref, Known, Pair)


def from_border(b: Builder, value: Ref) -> Pair:
    """The halves of an input of the graph; one without elements is refused later, by its name."""
    if 0 in value.shape:
        empty = Known(torch.empty(value.shape[1:], dtype=torch_dtype(value.dtype)))
        return Pair(empty, empty)
    re, im = (b.view(b.slice(value, 0, half, 1, 1), value.shape[1:]) for half in (0, 1))
    return Pair(re, im)


def to_border(b: Builder, value: AnyValue) -> Value:
    """An output of the graph; real values stay as they are."""
    if isinstance(value, Known) and value.tensor.is_complex():
        return value.to(torch.stack([value.tensor.real, value.tensor.imag]))
    if not isinstance(value, Pair):
        return value
    return b.cat([b.view(half, (1, *value.shape)) for half in (value.re, value.im)], 0)


def border_shape(shape: tuple[int, ...], dtype: str) -> TensorType:
    """Shape and dtype of an input of the graph for a tensor of the caller."""
    return TensorType((2, *shape), REAL_OF[dtype]) if dtype in REAL_OF else TensorType(shape, dtype)
