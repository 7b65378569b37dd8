"""The host's side of a call: the arrays of the user's tensors to stored integers and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchcalyx.errors import InputError
from torchcalyx.ir.graph import Array
from torchcalyx.ir.lookups import check_index
from torchcalyx.kernels.arith.numerics import IntArray, NumberFormat
from torchcalyx.kernels.arith.saturation import Saturation, store_measured
from torchcalyx.selection import InputBinding, OutputBinding, Selection


@dataclass(frozen=True)
class Stored:
    """The inputs of one call: stored integers in each tensor's own shape, one for each of `Selection.inputs`.

    paths: how the user names each. saturated: elements that did not fit their format, by the path of each
    float input.
    """

    arrays: tuple[IntArray, ...]
    paths: tuple[str, ...]
    saturated: dict[str, Saturation]


def store_inputs(selection: Selection, paths: Sequence[str], arrays: Sequence[Array]) -> Stored:
    """Quantise the inputs of a call. paths: how the user names each.

    Float values are rounded half to even and saturated (infinities too); masks have a floor. Raises
    InputError for NaN, and for an integer outside the range that its format holds.
    """
    stored: list[IntArray] = []
    saturated: dict[str, Saturation] = {}
    for binding, path, array in zip(selection.inputs, paths, arrays, strict=True):
        if array.dtype.kind == "f":
            if np.isnan(array).any():
                index = _where(np.isnan(array))
                raise InputError(f"argument {path} is NaN at index {index}: fixed-point hardware has no NaN")
            limited = array if binding.floor is None else np.maximum(array, binding.floor)
            integers, saturated[path] = store_measured(limited, binding.fmt)
            stored.append(integers)
        else:
            for check in selection.checks:
                if check.buffer == binding.buffer and check.access.sizes == array.shape:
                    check_index(check.source, check.node, array, check.size, check.wrap)
            _check_range(binding, path, array)
            stored.append(array.astype(np.int64))
    return Stored(tuple(stored), tuple(paths), saturated)


def real_values(fmt: NumberFormat, stored: IntArray) -> Array:
    """Values of stored integers: float64, or the integers themselves for an integer format."""
    return np.asarray(stored) if fmt.kind == "int" else fmt.dequantize(stored)


def output_reals(binding: OutputBinding, stored: IntArray) -> Array:
    """Values of an output in its shape: float64, or integers."""
    values = real_values(binding.fmt, stored).reshape(binding.shape)
    if not binding.exponents:
        return values
    shape = [-1 if d == binding.axis else 1 for d in range(len(binding.shape))]
    return np.asarray(np.ldexp(values.astype(np.float64), np.reshape(binding.exponents, shape)))


def output_value(binding: OutputBinding, stored: IntArray) -> Array:
    """The result of an output in its torch dtype, a fresh array."""
    values = output_reals(binding, stored)
    with np.errstate(over="ignore"):  # float16 overflows to infinity, as in torch
        return np.array(values != 0 if binding.dtype == "bool" else values, dtype=binding.dtype)


def _check_range(binding: InputBinding, path: str, array: Array) -> None:
    fmt = binding.fmt
    if not array.size or (int(array.min()) >= fmt.min and int(array.max()) <= fmt.max):
        return
    wide = array.astype(object)
    index = _where((wide < fmt.min) | (wide > fmt.max))
    raise InputError(
        f"argument {path} is {array[index]} at index {index}: the hardware's {fmt} holds "
        f"{fmt.min} to {fmt.max}"
    )


def _where(mask: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
