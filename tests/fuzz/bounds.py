"""How far hardware may be from torch: an error bound for each element of each value, propagated through the
graph.

It covers rounding by the hardware (half a unit in the last place for each narrowing, amplified by what
follows) and by torch (its own floats), around the exact real value. A value that rounding cannot touch
keeps the bound zero, so integers, comparisons of exact numbers and moved data are held to equality. Where a
bound means nothing (a remainder of an inexact number) it is infinite. Saturation is not covered: the
formats are calibrated on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.reference import evaluate
from torchcalyx.kernels.arith.numerics import NumberFormat

Real: TypeAlias = "npt.NDArray[np.float64]"
Array: TypeAlias = "npt.NDArray[Any]"

EPS = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
MOVES = ("view", "permute", "slice", "expand", "amax", "amin", "pad", "max_pool", "upsample")
NONE = np.inf
FUNCTION_ERROR = 0.75
FUNCTIONS = ("sigmoid", "tanh", "erf", "exp", "exp2", "expm1", "gelu", "silu", "mish", "elu", "softplus",
             "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "div")  # fmt: skip


def error_bounds(
    graph: Graph, formats: Mapping[str, NumberFormat], inputs: Sequence[Array]
) -> list[tuple[Array, Real]]:
    """Exact value and error bound (same shape) of each output of the graph."""
    values: dict[str, Array] = {}
    errors: dict[str, Real] = {}
    for node in graph.nodes:
        if node.op in ("input", "constant"):
            given = dict(zip(graph.inputs, inputs, strict=True)) if node.op == "input" else graph.constants
            value = np.asarray(given[node.name])
            value = value.astype(np.float64) if value.dtype.kind == "f" else value
            error = _given(node, value)
        else:
            args = [values[a] for a in node.args]
            value = evaluate(node, args)
            with np.errstate(invalid="ignore", over="ignore"):
                error = _propagate(node, value, args, [errors[a] for a in node.args])
        if node.dtype.startswith("float"):
            error = error + _rounding(node, value, error, formats)
        values[node.name], errors[node.name] = value, np.where(np.isnan(error), NONE, error)
    return [(values[name], errors[name] + _stored(graph.node(name), values[name])) for name in graph.outputs]


def _given(node: Node, value: Array) -> Real:
    """Inputs are exact; a constant may have been folded from others in its own dtype."""
    if node.op == "input" or value.dtype.kind != "f" or _dyadic(value):
        return np.zeros(node.shape)
    return np.asarray(2 * EPS[node.dtype] * np.abs(value))


def _rounding(node: Node, value: Array, error: Real, formats: Mapping[str, NumberFormat]) -> Real:
    """New error of one rounding in hardware and one in torch's dtype."""
    fmt = formats[node.name]
    scaled = np.ldexp(value, fmt.frac)
    exact = np.abs(np.rint(scaled) - scaled) * 2.0**-fmt.frac
    hardware = np.where(error == 0, exact, 0.5 * 2.0**-fmt.frac)
    if node.op in MOVES and fmt == formats[node.args[0]]:
        hardware = np.where(error == 0, exact, 0.0)
    if node.op in FUNCTIONS:  # the accuracy that the library promises for an approximation
        hardware = np.full(node.shape, FUNCTION_ERROR * 2.0**-fmt.frac)
    if node.op == "div_const":  # the reciprocal is a constant of a few bits more than the result
        hardware = hardware + np.abs(value) * 2.0 ** -(fmt.width + 3)
    eps = EPS[node.dtype]
    torch = np.where(
        np.abs(value.astype(node.dtype).astype(np.float64) - value) + error == 0, 0.0, eps * np.abs(value)
    )
    return hardware + torch


def _stored(node: Node, value: Array) -> Real:
    """A result of the hardware is converted to the dtype of the tensor."""
    return EPS[node.dtype] * np.abs(value) if node.dtype.startswith("float") else np.zeros(node.shape)


def _propagate(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    """Error of a node by the errors of its operands, before its own rounding."""
    if node.op in _RULES:
        return np.broadcast_to(np.asarray(_RULES[node.op](node, value, args, errors), np.float64), node.shape)
    clean = all(not e.any() for e in errors)
    return np.zeros(node.shape) if clean and node.op in _EXACT else np.full(node.shape, NONE)


_EXACT = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "remainder_const")
"""Operations without a rule for inexact operands, exact for exact ones."""

Rule: TypeAlias = Callable[[Node, Array, "list[Array]", "list[Real]"], Any]


def _sums(node: Node, count: int, magnitude: Real, error: Real) -> Real:
    """Torch rounds each of `count` partial sums, unless all of them are small dyadic numbers."""
    eps = EPS.get(node.dtype, 0.0)
    return error + count * eps * magnitude


def _dyadic(*arrays: Array) -> bool:
    """Whether sums of products of these numbers are exact in a float: multiples of 1/64 of at most 64."""
    return all(bool(np.all(np.rint(a * 64) == a * 64) and np.all(np.abs(a) <= 64)) for a in arrays)


def _matmul(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    a, b = (np.abs(np.asarray(x, np.float64)) for x in args[:2])
    ea, eb = errors[:2]
    if node.op == "linear":
        b, eb = b.T, eb.T
    error = _product(a, eb) + _product(ea, b) + _product(ea, eb)
    exact = _dyadic(*args) and not any(e.any() for e in errors)
    error = error if exact else _sums(node, a.shape[-1] + 1, a @ b, error)
    return error + errors[2] if len(args) == 3 else error


def _product(a: Real, b: Real) -> Real:
    """A matrix product in which nothing times an infinite bound is nothing."""
    if np.isfinite(a).all() and np.isfinite(b).all():
        return np.asarray(a @ b)
    return np.asarray(np.where(np.isfinite(a), a, 1e300) @ np.where(np.isfinite(b), b, 1e300))


def _mul(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    a, b = (np.abs(np.asarray(x, np.float64)) for x in args)
    return np.asarray(a * errors[1] + b * errors[0] + errors[0] * errors[1])


def _fold(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    dims, keep = tuple(node.attr("dims")), bool(node.attr("keepdim"))  # type: ignore[arg-type]
    total = errors[0].sum(axis=dims, keepdims=keep)
    count = args[0].size // max(1, value.size)
    if node.dtype.startswith("float") and not (_dyadic(args[0]) and not errors[0].any()):
        total = _sums(node, count, np.abs(args[0]).sum(axis=dims, keepdims=keep), total)
    return total / count if node.op == "mean" else total


def _extreme(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    dims, keep = tuple(node.attr("dims")), bool(node.attr("keepdim"))  # type: ignore[arg-type]
    return np.asarray(errors[0].max(axis=dims, keepdims=keep))


def _prod(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    dims, keep = tuple(node.attr("dims")), bool(node.attr("keepdim"))  # type: ignore[arg-type]
    size = np.abs(np.asarray(args[0], np.float64))
    grown = (size + errors[0]).prod(axis=dims, keepdims=keep) - size.prod(axis=dims, keepdims=keep)
    # every partial product is narrowed in hardware: no bound without knowing in which format
    return np.where(
        errors[0].any(), NONE, np.full(node.shape, NONE) if node.dtype.startswith("float") else grown
    )


def _cumsum(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    dim = int(node.attr("dim"))  # type: ignore[arg-type]
    error = errors[0].cumsum(axis=dim)
    if _dyadic(args[0]) and not errors[0].any():
        return np.asarray(error)
    return _sums(node, args[0].shape[dim], np.abs(np.asarray(args[0], np.float64)).cumsum(axis=dim), error)


def _pick(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    """An index is certain when no other element comes near the extreme (exact ties: the first)."""
    dim, keep = int(node.attr("dim")), bool(node.attr("keepdim"))  # type: ignore[arg-type]
    x = np.asarray(args[0], np.float64)
    best = x.max(axis=dim, keepdims=True) if node.op == "argmax" else x.min(axis=dim, keepdims=True)
    reach = errors[0].max(axis=dim, keepdims=True)
    near = (np.abs(x - best) <= 2 * reach).sum(axis=dim, keepdims=True)
    doubt = (near > 1) & (reach > 0)
    result = np.where(doubt, NONE, 0.0)
    return result if keep else np.asarray(result.squeeze(dim))


def _order(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    a, b = (np.asarray(x, np.float64) for x in args)
    reach = errors[0] + errors[1]
    return np.where((reach > 0) & (np.abs(a - b) <= reach), 1.0, 0.0)


def _truth(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    """Monotone in its operands: the doubtful ones once false and once true."""
    low = evaluate(node, [np.where(e > 0, False, a) for a, e in zip(args, errors, strict=True)])
    high = evaluate(node, [np.where(e > 0, True, a) for a, e in zip(args, errors, strict=True)])
    return np.where(low != high, 1.0, 0.0)


def _sign(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    return np.where((errors[0] > 0) & (np.abs(args[0]) <= errors[0]), 2.0, 0.0)


def _where(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    condition, a, b = args
    apart = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)) + np.maximum(errors[1], errors[2])
    return np.where(errors[0] > 0, apart, np.where(condition, errors[1], errors[2]))


def _cast(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    x, error = args[0], errors[0]
    if node.dtype == "bool":
        return np.where((error > 0) & (np.abs(x) <= error), 1.0, 0.0)
    if node.dtype.startswith("float") or x.dtype.kind != "f":
        return error
    ends = [np.trunc(x + error), np.trunc(x - error)]
    return np.maximum(*(np.abs(e - np.trunc(x)) for e in ends))


def _floor_div(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    divisor = float(node.attr("value"))  # type: ignore[arg-type]
    x = np.asarray(args[0], np.float64)
    ends = [np.floor((x + sign * errors[0]) / divisor) for sign in (1, -1)]
    return np.where(errors[0] > 0, np.maximum(*(np.abs(e - np.floor(x / divisor)) for e in ends)), 0.0)


def _div(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    return errors[0] / abs(float(node.attr("value")))  # type: ignore[arg-type]


def _quotient(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    room = np.abs(args[1]) - errors[1]
    return np.where(room > 0, (errors[0] + np.abs(value) * errors[1]) / np.where(room > 0, room, 1), NONE)


def _function(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    """The farthest value on a sample of the operand's interval, and the error of torch's own function."""
    worst = np.zeros(node.shape)
    for part in np.linspace(-1, 1, 21):
        there = evaluate(node, [args[0] + part * errors[0]])
        worst = np.maximum(worst, np.abs(there - value))
    return worst * 1.05 + 4 * EPS[node.dtype] * (1 + np.abs(args[0]))


def _window(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    """Correlation, pooling and repetition of the bounds: linear, and monotone where they choose."""
    if node.op != "conv":
        error = np.asarray(evaluate(_as_float64(node), errors), np.float64)
        if node.op != "sum_pool" or (_dyadic(*args) and not errors[0].any()):
            return error
        count = math.prod(node.attr("kernel"))  # type: ignore[arg-type]
        return _sums(node, count, evaluate(_as_float64(node), [np.abs(args[0])]), error)
    x, weight = (np.abs(np.asarray(a, np.float64)) for a in args[:2])
    one = replace(_as_float64(node), args=node.args[:2])
    error = sum(evaluate(one, pair) for pair in ((x, errors[1]), (errors[0], weight), (errors[0], errors[1])))
    error = error + (errors[2].reshape(-1, *(1,) * (len(node.shape) - 2)) if len(args) == 3 else 0)
    if _dyadic(*args) and not any(e.any() for e in errors):
        return np.asarray(error)
    return _sums(node, weight[0].size + 1, evaluate(one, [x, weight]), np.asarray(error))


def _as_float64(node: Node) -> Node:
    return replace(node, dtype="float64")


def _moved(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    attrs = tuple((k, 0 if k == "value" else v) for k, v in node.attrs)
    return np.asarray(evaluate(replace(_as_float64(node), attrs=attrs), errors), np.float64)


def _same(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    return errors[0]


def _added(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    return errors[0] + errors[1]


def _larger(node: Node, value: Array, args: list[Array], errors: list[Real]) -> Real:
    return np.maximum(errors[0], errors[1])


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("linear", "matmul"), _matmul),
    **dict.fromkeys(("add", "sub"), _added),
    **dict.fromkeys(("minimum", "maximum", "logical_xor"), _larger),
    **dict.fromkeys(("neg", "abs", "relu", "clamp", "logical_not"), _same),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), _order),
    **dict.fromkeys(("logical_and", "logical_or", "any", "all"), _truth),
    **dict.fromkeys(("sum", "mean"), _fold),
    **dict.fromkeys(("amax", "amin"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _pick),
    **dict.fromkeys(("view", "permute", "slice", "expand", "cat", "pad"), _moved),
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(("conv", "max_pool", "sum_pool", "upsample"), _window),
    "div": _quotient,
    "mul": _mul,
    "prod": _prod,
    "cumsum": _cumsum,
    "sign": _sign,
    "where": _where,
    "cast": _cast,
    "floor_div_const": _floor_div,
    "div_const": _div,
}
