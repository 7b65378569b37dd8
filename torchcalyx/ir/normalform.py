"""The closed list of operations of the normal form, each with its meaning and type rule, and the verifier of
graphs.

Shapes are static, broadcasting is numpy's, operands of one operation have one dtype: promotion is explicit
by "cast".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchcalyx.ir.graph import Graph, Node
from torchcalyx.ir.typerules import (
    DTYPES,
    FLOATS,
    INTS,
    Attrs,
    Rule,
    TensorType,
    arg_reduce_rule,
    argsort_rule,
    by_constant_rule,
    cast_rule,
    cat_rule,
    clamp_rule,
    cumulative_rule,
    elementwise_rule,
    expand_rule,
    function_rule,
    gelu_rule,
    given_rule,
    linear_rule,
    matmul_rule,
    need,
    pad_rule,
    permute_rule,
    reduce_rule,
    scale_rule,
    slice_rule,
    view_rule,
    where_rule,
)
from torchcalyx.ir.typerules_lookups import checked_rule, put_rule, take_rule
from torchcalyx.ir.typerules_spatial import conv_rule, max_pool_rule, pool_rule, upsample_rule


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: doc, least and greatest number of operands (None: no limit), attribute names, type
    rule.
    """

    doc: str
    least: int
    most: int | None
    attrs: tuple[str, ...]
    rule: Rule


_NUMBERS = (*FLOATS, *INTS)
_NUMBER = elementwise_rule(_NUMBERS)
_COMPARE = elementwise_rule(DTYPES, "bool")
_LOGIC = elementwise_rule(("bool",))
_BITS = elementwise_rule((*INTS, "bool"))
_FUNCTION = elementwise_rule(FLOATS)
_FOLD = ("dims", "keepdim")
_PICK = ("dim", "keepdim")
_WINDOW = ("after", "before", "kernel", "stride")

OPS: Mapping[str, Op] = {
    "input": Op("a tensor of the caller", 0, 0, (), given_rule),
    "constant": Op("a value known at compile time (parameter, buffer, literal)", 0, 0, (), given_rule),
    "linear": Op("x[..., K] @ weight[N, K].T + bias[N]", 2, 3, (), linear_rule),
    "matmul": Op("a[..., M, K] @ b[..., K, N], leading axes broadcast", 2, 2, (), matmul_rule),
    "add": Op("a + b", 2, 2, (), _NUMBER),
    "sub": Op("a - b", 2, 2, (), _NUMBER),
    "mul": Op("a * b", 2, 2, (), _NUMBER),
    "minimum": Op("the smaller of a and b", 2, 2, (), _NUMBER),
    "maximum": Op("the greater of a and b", 2, 2, (), _NUMBER),
    "neg": Op("-x", 1, 1, (), _NUMBER),
    "abs": Op("|x|", 1, 1, (), _NUMBER),
    "sign": Op("-1, 0 or 1", 1, 1, (), _NUMBER),
    "relu": Op("max(x, 0)", 1, 1, (), _NUMBER),
    "clamp": Op("min(max(x, min), max); either bound may be None", 1, 1, ("max", "min"), clamp_rule),
    "sigmoid": Op("1 / (1 + exp(-x))", 1, 1, (), _FUNCTION),
    "tanh": Op("hyperbolic tangent", 1, 1, (), _FUNCTION),
    "erf": Op("error function", 1, 1, (), _FUNCTION),
    "exp": Op("e to the power x", 1, 1, (), _FUNCTION),
    "exp2": Op("2 to the power x", 1, 1, (), _FUNCTION),
    "expm1": Op("exp(x) - 1", 1, 1, (), _FUNCTION),
    "gelu": Op("x * cdf(x) of the normal distribution; approximate is none (erf) or tanh", 1, 1,
               ("approximate",), gelu_rule),
    "silu": Op("x * sigmoid(x)", 1, 1, (), _FUNCTION),
    "mish": Op("x * tanh(ln(1 + exp(x)))", 1, 1, (), _FUNCTION),
    "elu": Op("scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))", 1, 1,
              ("alpha", "input_scale", "scale"), _FUNCTION),
    "softplus": Op("ln(1 + exp(beta * x)) / beta, x itself where beta * x > threshold", 1, 1,
                   ("beta", "threshold"), _FUNCTION),
    "log": Op("natural logarithm", 1, 1, (), _FUNCTION),
    "log2": Op("logarithm to base 2", 1, 1, (), _FUNCTION),
    "log10": Op("logarithm to base 10", 1, 1, (), _FUNCTION),
    "log1p": Op("ln(1 + x)", 1, 1, (), _FUNCTION),
    "sqrt": Op("square root", 1, 1, (), _FUNCTION),
    "rsqrt": Op("1 / sqrt(x)", 1, 1, (), _FUNCTION),
    "reciprocal": Op("1 / x", 1, 1, (), _FUNCTION),
    "sin": Op("sine", 1, 1, (), _FUNCTION),
    "cos": Op("cosine", 1, 1, (), _FUNCTION),
    "function": Op("a function of the kernel library by name, with its numbers", 1, 1, ("name", "params"),
                   function_rule),
    "eq": Op("a == b", 2, 2, (), _COMPARE),
    "ne": Op("a != b", 2, 2, (), _COMPARE),
    "lt": Op("a < b", 2, 2, (), _COMPARE),
    "le": Op("a <= b", 2, 2, (), _COMPARE),
    "gt": Op("a > b", 2, 2, (), _COMPARE),
    "ge": Op("a >= b", 2, 2, (), _COMPARE),
    "logical_and": Op("a and b", 2, 2, (), _LOGIC),
    "logical_or": Op("a or b", 2, 2, (), _LOGIC),
    "logical_xor": Op("a != b", 2, 2, (), _LOGIC),
    "logical_not": Op("not x", 1, 1, (), _LOGIC),
    "bitwise_and": Op("a & b", 2, 2, (), _BITS),
    "bitwise_or": Op("a | b", 2, 2, (), _BITS),
    "bitwise_xor": Op("a ^ b", 2, 2, (), _BITS),
    "bitwise_not": Op("~x", 1, 1, (), _BITS),
    "where": Op("a where the condition holds, else b", 3, 3, (), where_rule),
    "cast": Op("x as dtype `to`; float to integer truncates, to bool is x != 0", 1, 1, ("to",), cast_rule),
    "div": Op("a / b", 2, 2, (), _FUNCTION),
    "div_const": Op("x / value", 1, 1, ("value",), by_constant_rule(FLOATS, float)),
    "floor_div_const": Op("floor(x / value)", 1, 1, ("value",), by_constant_rule(INTS, int)),
    "remainder_const": Op("x - value * floor(x / value)", 1, 1, ("value",), by_constant_rule(INTS, int)),
    "sum": Op("sum over dims", 1, 1, _FOLD, reduce_rule(_NUMBERS)),
    "mean": Op("mean over dims", 1, 1, _FOLD, reduce_rule(FLOATS)),
    "amax": Op("greatest over dims", 1, 1, _FOLD, reduce_rule(_NUMBERS)),
    "amin": Op("smallest over dims", 1, 1, _FOLD, reduce_rule(_NUMBERS)),
    "prod": Op("product over dims", 1, 1, _FOLD, reduce_rule(_NUMBERS)),
    "any": Op("true somewhere along dims", 1, 1, _FOLD, reduce_rule(("bool",))),
    "all": Op("true everywhere along dims", 1, 1, _FOLD, reduce_rule(("bool",))),
    "argmax": Op("index of the first greatest along dim", 1, 1, _PICK, arg_reduce_rule),
    "argmin": Op("index of the first smallest along dim", 1, 1, _PICK, arg_reduce_rule),
    "cumsum": Op("running sum along dim", 1, 1, ("dim",), cumulative_rule),
    "cummax": Op("greatest so far along dim", 1, 1, ("dim",), cumulative_rule),
    "cummin": Op("smallest so far along dim", 1, 1, ("dim",), cumulative_rule),
    "sort": Op("x in order along dim", 1, 1, ("descending", "dim"), cumulative_rule),
    "argsort": Op("indices that put x in order along dim, those of equal elements ascending", 1, 1,
                  ("descending", "dim"), argsort_rule),
    "view": Op("the same elements in row-major order with another shape", 1, 1, ("shape",), view_rule),
    "permute": Op("axis i of the result is axis dims[i] of x", 1, 1, ("dims",), permute_rule),
    "slice": Op("x[starts[i] + j * steps[i]] for j < sizes[i]; steps may be negative", 1, 1,
                ("sizes", "starts", "steps"), slice_rule),
    "expand": Op("x broadcast to shape", 1, 1, ("shape",), expand_rule),
    "cat": Op("operands joined along dim", 1, None, ("dim",), cat_rule),
    "conv": Op("zero-padded x[N, C, *S] correlated with weight[Co, C / groups, *K], + bias[Co]", 2, 3,
               ("after", "before", "dilation", "groups", "stride"), conv_rule),
    "max_pool": Op("greatest of each window of x[N, C, *S]; padding never wins", 1, 1,
                   ("after", "before", "dilation", "kernel", "stride"), max_pool_rule),
    "sum_pool": Op("sum of each window of x[N, C, *S]; padding is zero", 1, 1, _WINDOW, pool_rule),
    "upsample": Op("x[N, C, *S], each element repeated scales[i] times along spatial axis i", 1, 1,
                   ("scales",), upsample_rule),
    "scale": Op("x[..., i, ...] * 2 ** exponents[i] along axis; an output, scaled by whoever reads it", 1, 1,
                ("axis", "exponents"), scale_rule),
    "checked": Op("the index x, from the end where negative and `wrap`; outside the axis an error",
                  1, 1, ("size", "wrap"), checked_rule),
    "take": Op("x at index along dim, other axes broadcast; the index lies on the axis", 2, 2, ("dim",),
               take_rule),
    "put": Op("base, then source written to index along dim, in order; mode is set, add, max or min; nothing "
              "where the index leaves the axis", 3, 3, ("dim", "mode"), put_rule),
    "pad": Op("x with value before and after each axis", 1, 1, ("after", "before", "value"), pad_rule),
}  # fmt: skip


def infer(op: str, types: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    """Result type of an operation; ValueError with the reason when operands or attributes do not fit."""
    need(op in OPS, f"{op!r} is not an operation of the normal form")
    spec = OPS[op]
    need(
        spec.least <= len(types) and (spec.most is None or len(types) <= spec.most), f"{len(types)} operands"
    )
    need(sorted(attrs) == sorted(spec.attrs), f"attributes {sorted(attrs)} instead of {sorted(spec.attrs)}")
    return spec.rule(types, attrs)


def verify(graph: Graph) -> tuple[str, ...]:
    """All violations of the normal form, () for a correct graph."""
    found: list[str] = []
    types: dict[str, TensorType] = {}
    for node in graph.nodes:
        found += [f"{node}: {text}" for text in _violations(node, graph, types)]
        types[node.name] = TensorType(node.shape, node.dtype)
    declared = [n.name for n in graph.nodes if n.op == "input"]
    if sorted(declared) != sorted(graph.inputs):
        found.append(f"input nodes {declared} are not the graph's inputs {list(graph.inputs)}")
    found += [f"output {name!r} is not made by any node" for name in graph.outputs if name not in types]
    constants = {n.name for n in graph.nodes if n.op == "constant"}
    found += [f"constant value {name!r} has no node" for name in graph.constants if name not in constants]
    return tuple(found)


def _violations(node: Node, graph: Graph, types: Mapping[str, TensorType]) -> list[str]:
    found = [f"reads {a!r} before it is made" for a in node.args if a not in types]
    if node.name in types:
        found.append("the name is taken by an earlier node")
    if list(node.attrs) != sorted(node.attrs, key=lambda pair: pair[0]):
        found.append("attributes are not sorted")
    if node.dtype not in DTYPES:
        found.append(f"dtype {node.dtype} is not one of {', '.join(DTYPES)}")
    if node.op == "constant":
        value = graph.constants.get(node.name)
        if value is None or value.shape != node.shape or str(value.dtype) != node.dtype:
            found.append("has no value of its shape and dtype")
    elif node.op != "input" and not found:
        try:
            expected = infer(node.op, tuple(types[a] for a in node.args), dict(node.attrs))
        except ValueError as error:
            return [str(error)]
        if expected != TensorType(node.shape, node.dtype):
            found.append(f"should be {expected}")
    return found
