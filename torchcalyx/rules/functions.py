"""Nonlinear functions of the normal form as approximations of `torchcalyx.kernels.functions.function`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import ExprBuilder
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.functions.divide import divide
from torchcalyx.kernels.functions.function import Function, approximate
from torchcalyx.kernels.functions.real import Exponential, Power
from torchcalyx.kernels.functions.sampled import Sampled
from torchcalyx.match import Reject

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("sigmoid", "tanh", "erf", "exp", "exp2", "expm1", "silu", "mish", "log", "log2", "log10", "log1p",
         "sqrt", "rsqrt", "reciprocal", "sin", "cos"),
        (),
    ),
    "gelu": (),
    "function": (),
    "elu": ("alpha", "scale", "input_scale"),
    "softplus": ("beta", "threshold"),
}  # fmt: skip
"""Function operations and the attributes that are numbers, in the order of the function's parameters."""


MOST_SIGNIFICANT = 30
"""Leading bits to which a function is computed where it is only an intermediate."""

MOST_CUT = 8
"""Bits that a table of an intermediate may lose where a lane has too few multipliers for a better one: those
that intermediates have beyond stored values. The comparison with torch at compile time tells what it costs.
"""

FUNCTIONS = frozenset((*PARAMETERS, "div"))
"""All operations of this module."""


def function_of(node: Node) -> Function:
    """The function that a node applies to its operand."""
    name = node.op
    if name == "function":
        numbers = node.attr("params")
        assert isinstance(numbers, tuple)
        return Function(str(node.attr("name")), tuple(float(n) for n in numbers if isinstance(n, float)))
    if name == "gelu" and node.attr("approximate") == "tanh":
        name = "gelu_tanh"
    given = [node.attr(key) for key in PARAMETERS[node.op]]
    return Function(name, tuple(float(n) for n in given if isinstance(n, (int, float))))


def lane_multipliers(view: GraphView) -> int:
    """Multipliers that one lane may use."""
    return max(1, view.options.multipliers // view.lanes)


def function_multiplications(view: GraphView, node: Node) -> int:
    """Multiplications of the node's datapath; KernelParameterError when there is none."""
    b = ExprBuilder()
    y = emit_function(view, b, node, [b.input(view.formats[a]) for a in node.args])
    return b.build(y, view.formats[node.name]).multiplications


def function_refusal(view: GraphView, node: Node) -> Reject | None:
    """Why a function has no datapath (None: it has one)."""
    try:
        function_multiplications(view, node)
    except KernelParameterError as error:
        return Reject(f"{error}; raise multipliers, lower lanes or choose a narrower precision")
    return None


def emit_function(view: GraphView, b: ExprBuilder, node: Node, args: Sequence[int]) -> int:
    """The function of operations `args`, each first narrowed to the format of the value it stands for."""
    sources, target = [view.formats[a] for a in node.args], view.formats[node.name]
    operands = [b.quant(x, fmt) for x, fmt in zip(args, sources, strict=True)]
    bits = significant_bits(view, node)
    if node.op == "div":
        return divide(b, operands[0], operands[1], target, lane_multipliers(view), bits)
    function = function_of(node)
    if bits is not None and not isinstance(function.definition, (Power, Exponential, Sampled)):
        target, bits = coarser(target, target.width - MOST_SIGNIFICANT - 2), None  # one absolute error
    most = lane_multipliers(view)
    domain = sources[0] if node.args[0] in view.stored else None  # an intermediate may be known more closely
    for cut in range(0, MOST_CUT if node.name not in view.stored else 1, 2):
        try:
            kept = None if bits is None else max(bits - cut, 4)
            return approximate(b, operands[0], function, coarser(target, cut), most, domain, kept)
        except KernelParameterError as error:  # too few multipliers for so exact a table
            problem = error
    raise problem


def coarser(fmt: NumberFormat, cut: int) -> NumberFormat:
    """A format of the same range with `cut` bits less, but at least 4."""
    cut = max(0, min(cut, fmt.width - 4))
    return replace(fmt, width=fmt.width - cut, frac=fmt.frac - cut)


def significant_bits(view: GraphView, node: Node) -> int | None:
    """Leading bits of a function's result that its consumers can tell apart; None: all of its format."""
    need = view.needs.get(node.name)
    if node.name in view.stored or need is None:
        return None
    asked = math.ceil(-math.log2(need.relative)) + 1 if 0.0 < need.relative < 0.5 else MOST_SIGNIFICANT
    return min(asked, MOST_SIGNIFICANT)
