"""Reference interpreter of the normal form: plain numpy, no torch, no number formats.

Floating-point values are computed in float64, integers in their own dtype (two's complement, wrapping). It
says what a graph means; speed does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.lookups import EVALUATORS as LOOKUPS
from torchcalyx.ir.lookups import check_index
from torchcalyx.ir.reference_spatial import EVALUATORS as SPATIAL
from torchcalyx.kernels.functions.known import definition
from torchcalyx.kernels.functions.real import FUNCTIONS
from torchcalyx.kernels.functions.sampled import Sampled

Tensor: TypeAlias = "npt.NDArray[Any]"
Evaluator: TypeAlias = "Callable[..., Tensor]"


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype("float64" if name.startswith("float") else name)


def reference(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The graph's outputs for `inputs` (one array for each of `graph.inputs`), float results as float64."""
    if len(inputs) != len(graph.inputs):
        raise ValueError(f"the graph has {len(graph.inputs)} inputs, got {len(inputs)} arrays")
    values: dict[str, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        if node.op == "input":
            values[node.name] = np.asarray(values[node.name], _dtype(node.dtype))
        elif node.op == "constant":
            values[node.name] = np.asarray(graph.constants[node.name], _dtype(node.dtype))
        else:
            values[node.name] = evaluate(node, [values[a] for a in node.args])
    return [values[name] for name in graph.outputs]


def evaluate(node: Node, args: Sequence[Tensor]) -> Tensor:
    """Value of one node (neither input nor constant) from the values it reads."""
    if node.op == "checked":
        check_index(node.source, node.name, args[0], node.whole("size"), bool(node.attr("wrap")))
    with np.errstate(all="ignore"):
        result = np.asarray(_EVALUATORS[node.op](*args, **dict(node.attrs)), _dtype(node.dtype))
    assert result.shape == node.shape, f"{node} gave shape {result.shape}"
    return result


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = np.tensordot(x, weight, axes=(-1, 1))
    return y if bias is None else y + bias


def _clamp(x: Tensor, min: float | None, max: float | None) -> Tensor:
    x = x if min is None else np.maximum(x, np.asarray(min, x.dtype))
    return x if max is None else np.minimum(x, np.asarray(max, x.dtype))


def _cast(x: Tensor, to: str) -> Tensor:
    return x != 0 if to == "bool" else x.astype(_dtype(to))


def _slice(x: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> Tensor:
    for axis, (start, step, size) in enumerate(zip(starts, steps, sizes, strict=True)):
        x = np.take(x, start + step * np.arange(size), axis)
    return x


def _scale(x: Tensor, axis: int, exponents: Sequence[int]) -> Tensor:
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    return np.asarray(np.ldexp(x, np.reshape(exponents, shape)))


def _pad(x: Tensor, before: Sequence[int], after: Sequence[int], value: float) -> Tensor:
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=value)


def _exact(name: str) -> Evaluator:
    """A nonlinear function with its attributes as keywords, in float64."""
    return lambda x, **params: FUNCTIONS[name](**params).exact(np.asarray(x, np.float64))


def _gelu(x: Tensor, approximate: str) -> Tensor:
    return _exact("gelu_tanh" if approximate == "tanh" else "gelu")(x)


def _sampled(x: Tensor, name: str, params: tuple[float, ...]) -> Tensor:
    found = definition(name, params)
    return (found.meaning if isinstance(found, Sampled) else found.exact)(np.asarray(x, np.float64))


def _over_dims(function: Callable[..., Any]) -> Evaluator:
    def evaluator(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
        return np.asarray(function(x, axis=dims, keepdims=keepdim))

    return evaluator


def _along_dim(function: Callable[..., Any]) -> Evaluator:
    def evaluator(x: Tensor, dim: int, keepdim: bool) -> Tensor:
        return np.asarray(function(x, axis=dim, keepdims=keepdim))

    return evaluator


def _argsort(x: Tensor, dim: int, descending: bool) -> Tensor:
    if descending:  # the stable order of the flipped row, backwards
        order = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
        return np.asarray(x.shape[dim] - 1 - order)
    return np.argsort(x, axis=dim, kind="stable")


def _sort(x: Tensor, dim: int, descending: bool) -> Tensor:
    return np.take_along_axis(x, _argsort(x, dim, descending), dim)


_EVALUATORS: Mapping[str, Evaluator] = {
    "linear": _linear,
    "matmul": np.matmul,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "clamp": _clamp,
    **{k: _exact(k) for k in ("sigmoid", "erf", "silu", "mish", "elu", "softplus")},
    "gelu": _gelu,
    "function": _sampled,
    "tanh": np.tanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.invert,
    "where": np.where,
    "cast": _cast,
    "div": np.divide,
    "div_const": lambda x, value: x / value,
    "floor_div_const": lambda x, value: np.floor_divide(x, np.asarray(value, x.dtype)),
    "remainder_const": lambda x, value: np.remainder(x, np.asarray(value, x.dtype)),
    "sum": _over_dims(np.sum),
    "mean": _over_dims(np.mean),
    "amax": _over_dims(np.amax),
    "amin": _over_dims(np.amin),
    "prod": _over_dims(np.prod),
    "any": _over_dims(np.any),
    "all": _over_dims(np.all),
    "argmax": _along_dim(np.argmax),
    "argmin": _along_dim(np.argmin),
    "cumsum": lambda x, dim: np.cumsum(x, axis=dim),
    "cummax": lambda x, dim: np.maximum.accumulate(x, axis=dim),
    "cummin": lambda x, dim: np.minimum.accumulate(x, axis=dim),
    "sort": _sort,
    "argsort": _argsort,
    "view": lambda x, shape: x.reshape(shape),
    "scale": _scale,
    "permute": lambda x, dims: np.transpose(x, dims),
    "slice": _slice,
    "expand": lambda x, shape: np.broadcast_to(x, shape),
    "cat": lambda *xs, dim: np.concatenate(xs, axis=dim),
    "pad": _pad,
    **SPATIAL,
    **LOOKUPS,
}
