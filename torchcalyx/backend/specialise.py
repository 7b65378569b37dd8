"""A Dynamo graph with its weights and Python numbers put in: a GraphModule of tensor inputs alone.

Weights get the user's names and nodes the user's module paths, so that messages, per-layer precision and
the emitted program are those of `torchcalyx.compile`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from torchcalyx.backend.slots import Slot


def specialise(
    gm: fx.GraphModule, slots: Sequence[Slot], args: Sequence[Any], module_paths: Mapping[str, str]
) -> fx.GraphModule:
    """The graph for the weights and numbers among `args` (one value a slot), its inputs in the user's order.

    Nothing is shared with the arguments: weights are copied. module_paths: the user's path of each module,
    by Dynamo's name.
    """
    graph = fx.Graph()
    env: dict[fx.Node, Any] = {}
    state = _subgraphs(gm)
    nodes = {n.name: n for n in gm.graph.nodes}
    taken: list[str] = list(state)
    values = dict(zip(slots, args, strict=True))
    for slot in sorted(slots, key=lambda s: (s.kind != "input", s.order)):
        value = values[slot]
        if slot.kind == "input":
            env[nodes[slot.node]] = graph.placeholder(re.sub(r"\W+", "_", slot.path).strip("_"))
        elif slot.kind == "weight":
            path = _unused(_legal(slot.path), taken)
            taken.append(path)
            state[path] = _copied(value)
            env[nodes[slot.node]] = graph.get_attr(path)
        else:
            env[nodes[slot.node]] = value.item() if slot.kind == "number" else value
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            env[node] = _copy(graph, node, env, module_paths)
    return fx.GraphModule(state, graph)


def _copy(graph: fx.Graph, node: fx.Node, env: Mapping[fx.Node, Any], paths: Mapping[str, str]) -> Any:
    if node.op == "call_method" and node.target == "item":
        number = env[node.all_input_nodes[0]]
        if not isinstance(number, fx.Node):
            return number
    new = graph.node_copy(node, env.__getitem__)
    new.meta.pop("example_value", None)  # of Dynamo's own tracing, with other weights or shapes
    if stack := new.meta.get("nn_module_stack"):
        new.meta["nn_module_stack"] = {key: (paths[path], kind) for key, (path, kind) in stack.items()}
    return new


def _subgraphs(gm: fx.GraphModule) -> dict[str, Any]:
    """What the graph takes from the module itself: bodies of control flow, modules, tensor attributes."""
    targets = [str(n.target) for n in gm.graph.nodes if n.op in ("get_attr", "call_module")]
    found: dict[str, Any] = {}
    for target in targets:
        value: Any = gm
        for part in target.split("."):
            value = getattr(value, part)
        found[target] = value
    return found


def _copied(weight: torch.Tensor) -> torch.Tensor:
    copy = weight.detach().clone()
    return nn.Parameter(copy, requires_grad=False) if isinstance(weight, nn.Parameter) else copy


def _legal(path: str) -> str:
    """A path that can be printed as Python and does not hide an attribute of GraphModule."""
    parts = [re.sub(r"\W+", "_", part).strip("_") or "_" for part in path.split(".")]
    parts = [f"{part}__" if keyword.iskeyword(part) else part for part in parts]
    if hasattr(fx.GraphModule, parts[0]):
        parts[0] += "__"
    return ".".join(parts)


def _unused(path: str, taken: Iterable[str]) -> str:
    """The path, with a number in its first part when it is taken or lies above or below a taken one."""
    head, dot, rest = path.partition(".")
    for number in range(1, 1_000_000):
        if not any(f"{path}.".startswith(f"{t}.") or f"{t}.".startswith(f"{path}.") for t in taken):
            break
        path = f"{head}_{number}{dot}{rest}"
    return path
