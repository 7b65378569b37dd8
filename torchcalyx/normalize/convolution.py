"""Lowerings of convolutions: padding in words and numbers become zeros counted before and after each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchcalyx.normalize.args import Args, Lowering, Reject, Result
from torchcalyx.normalize.builder import Builder, Value
from torchcalyx.normalize.spatial import batched, each_axis
from torchcalyx.normalize.transposed import Geometry, transposed_convolution

aten = torch.ops.aten


def _padding(
    padding: str | int | Sequence[int], kernel: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each axis; "same" puts the odd one after."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"padding {padding!r} is neither 'same' nor 'valid'")
        same = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        return tuple(n // 2 for n in same), tuple(n - n // 2 for n in same)
    both = each_axis(padding, len(kernel))
    return both, both


def _conv(b: Builder, a: Args) -> Result:
    weight = a.tensor("weight")
    axes = len(weight.shape) - 2
    stride, dilation = each_axis(a["stride"], axes), each_axis(a["dilation"], axes)
    before, after = _padding(a["padding"], weight.shape[2:], dilation)
    attrs = {"stride": stride, "before": before, "after": after, "dilation": dilation, "groups": a["groups"]}
    rest = _weight_and_bias(a, weight)
    return batched(b, a, "input", axes, lambda x: b.emit("conv", x, *rest, **attrs))


def _weight_and_bias(a: Args, weight: Value) -> list[Value]:
    return [weight] if a["bias"] is None else [weight, a.tensor("bias")]


def _conv_transpose(b: Builder, a: Args) -> Result:
    weight = a.tensor("weight")
    axes = len(weight.shape) - 2
    bias = None if a["bias"] is None else a.tensor("bias")
    names = ("stride", "padding", "output_padding", "dilation")
    stride, padding, output_padding, dilation = (each_axis(a[name], axes) for name in names)
    geometry = Geometry(stride, padding, output_padding, dilation, a["groups"])
    return batched(b, a, "input", axes, lambda x: transposed_convolution(b, x, weight, bias, geometry))


def _convolution(b: Builder, a: Args) -> Result:
    """The general form, in which one flag says which of the two it is."""
    a.ignore("benchmark", "deterministic", "cudnn_enabled", "allow_tf32")
    if a["transposed"]:
        return _conv_transpose(b, a)
    if any(a["output_padding"]):
        return Reject("output_padding of a convolution that is not transposed")
    return _conv(b, a)


def _table(lowering: Lowering, *targets: Any) -> dict[Any, Lowering]:
    return dict.fromkeys(targets, lowering)


LOWERINGS: Mapping[Any, Lowering] = {
    **_table(_conv, aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    **_table(_conv, aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding),
    **_table(_conv_transpose, aten.conv_transpose1d.default),
    **_table(_conv_transpose, aten.conv_transpose2d.input, aten.conv_transpose3d.input),
    **_table(_convolution, aten.convolution.default, aten._convolution.default),
}
