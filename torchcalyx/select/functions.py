"""Nonlinear functions of the normal form as approximations of `torchcalyx.kernels.functions`."""

from __future__ import annotations

from collections.abc import Mapping

from torchcalyx.graph import Node
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.expr import ExprBuilder
from torchcalyx.kernels.functions import Accuracy, Function, accuracy, approximate
from torchcalyx.match import Reject
from torchcalyx.select.view import GraphView

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("sigmoid", "tanh", "erf", "exp", "exp2", "expm1", "silu", "mish", "log", "log2", "log10", "log1p",
         "sqrt", "rsqrt", "reciprocal", "sin", "cos"),
        (),
    ),
    "gelu": (),
    "elu": ("alpha", "scale", "input_scale"),
    "softplus": ("beta", "threshold"),
}  # fmt: skip
"""Function operations and the attributes that are numbers, in the order of the function's parameters."""


def function_of(node: Node) -> Function:
    """The function that a node applies to its operand."""
    name = node.op
    if name == "gelu" and node.attr("approximate") == "tanh":
        name = "gelu_tanh"
    numbers = [node.attr(key) for key in PARAMETERS[node.op]]
    return Function(name, tuple(float(n) for n in numbers if isinstance(n, (int, float))))


def lane_multipliers(view: GraphView) -> int:
    """Multipliers that one lane may use."""
    return max(1, view.options.multipliers // view.lanes)


def function_accuracy(view: GraphView, node: Node) -> Accuracy:
    """What the node's datapath reaches and costs; KernelParameterError when there is none."""
    source, target = view.formats[node.args[0]], view.formats[node.name]
    return accuracy(function_of(node), source, target, lane_multipliers(view))


def function_refusal(view: GraphView, node: Node) -> Reject | None:
    """Why a function has no datapath (None: it has one)."""
    try:
        function_accuracy(view, node)
    except KernelParameterError as error:
        return Reject(f"{error}; raise multipliers, lower lanes or choose a narrower precision")
    return None


def emit_function(view: GraphView, b: ExprBuilder, node: Node, x: int) -> int:
    """The function of operation x, which is first narrowed to the format of the value it stands for."""
    source, target = view.formats[node.args[0]], view.formats[node.name]
    x = b.quant(x, source)
    return approximate(b, x, function_of(node), target, lane_multipliers(view), source)
