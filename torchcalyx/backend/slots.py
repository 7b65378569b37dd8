"""What each input of a Dynamo graph is: a tensor of the call, a weight, or a Python number.

A weight is a parameter, or a tensor that the model finds somewhere else than in its arguments (buffer,
attribute, global, closure). Weights are constants of the hardware; whoever calls it checks that they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx, nn
from torch._dynamo.source import LocalSource
from torch.utils import _pytree as pytree

from torchcalyx.backend.frame import Frame, bases, is_module_source, resolve, source_name

Kind: TypeAlias = Literal["input", "weight", "integer", "number"]


@dataclass(frozen=True)
class Slot:
    """One placeholder of the graph.

    kind: "input", "weight", "integer" (arrives as an int) or "number" (arrives as a tensor of one element of
    which the graph takes `.item()`). path: how the user names it. source: Dynamo's expression, "" unknown.
    order: place among the user's arguments. of_module: a weight that belongs to a module.
    """

    node: str
    kind: Kind
    path: str
    source: str
    order: int
    of_module: bool

    def value_in(self, scope: Mapping[str, Any]) -> Any:
        """The value for other arguments, see `Frame.bind`; LookupError when they do not hold it."""
        return resolve(self.source, scope)


def slots_of(gm: fx.GraphModule, examples: Sequence[Any], frame: Frame | None) -> tuple[Slot, ...]:
    """The slot of each placeholder. frame: None when the graph does not come from Dynamo."""
    leaves = pytree.tree_leaves(list(frame.arguments.values())) if frame is not None else []
    order = {id(leaf): i for i, leaf in reversed(list(enumerate(leaves)))}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return tuple(
        _slot(node, example, order.get(id(example), len(leaves)), frame)
        for node, example in zip(placeholders, examples, strict=True)
    )


def inputs_of(slots: Sequence[Slot]) -> list[Slot]:
    """The slots that are inputs of the hardware, in the user's order."""
    return sorted((s for s in slots if s.kind == "input"), key=lambda s: s.order)


def module_paths(gm: fx.GraphModule, frame: Frame | None) -> dict[str, str]:
    """The user's path of each module that Dynamo names in the graph, by Dynamo's name."""
    stacks = (node.meta.get("nn_module_stack") or {} for node in gm.graph.nodes)
    return {path: readable(path, frame) for stack in stacks for path, _ in stack.values()}


def readable(expression: str, frame: Frame | None) -> str:
    """The user's name of a source or module: `layers.0.weight` for
    `L['self']._modules['layers']._modules['0']._parameters['weight']`, `x` for `L['x']`.
    """
    text = re.sub(r"\._(?:modules|parameters|buffers)\['([^']*)'\]", r".\1", expression)
    if frame is not None:
        if frame.root and (text == frame.root or text.startswith(f"{frame.root}.")):
            return text[len(frame.root) :].removeprefix(".")
        for index, name in enumerate(frame.forward_parameters):
            text = re.sub(rf"^L\['args'\]\[{index}\]", f"L['{name}']", text)
    return re.sub(r"^[LG]\['(\w+)'\]", r"\1", text)


def _slot(node: fx.Node, example: Any, order: int, frame: Frame | None) -> Slot:
    source = getattr(node, "_dynamo_source", None)
    name = source_name(source)
    of_module = is_module_source(source)
    path = readable(name, frame) or node.name
    return Slot(node.name, _kind(node, example, source, of_module), path, name, order, of_module)


def _kind(node: fx.Node, example: Any, source: Any, of_module: bool) -> Kind:
    if not isinstance(example, torch.Tensor):
        return "integer"
    argument = node.meta.get("grapharg")
    takes_item = all(user.op == "call_method" and user.target == "item" for user in node.users)
    if getattr(argument, "pass_arg_as_tensor", False) and takes_item:
        return "number"
    if isinstance(example, nn.Parameter) or of_module:
        return "weight"
    if source is None:
        return "input"
    *_, outermost = bases(source)
    return "input" if isinstance(outermost, LocalSource) and outermost.is_input else "weight"
