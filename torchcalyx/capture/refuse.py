"""What torch.export accepts and hardware cannot do: state, randomness, values that steer shapes or control
flow.

In: an exported program. Out: nothing, or one `CaptureError` that lists every reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx, nn
from torch.export.graph_signature import ExportGraphSignature, OutputKind

from torchcalyx.capture.source import node_source, op_name
from torchcalyx.errors import CaptureError


def check_capturable(graph: fx.Graph, signature: ExportGraphSignature, module: nn.Module | None) -> None:
    """Raise one CaptureError that lists all nodes and state that cannot become fixed hardware."""
    reasons = [*_training_nodes(graph), *_mutations(signature, module), *_random_nodes(graph)]
    reasons += [*_data_dependent_nodes(graph), *_dynamic_inputs(graph)]
    if reasons:
        unique = list(dict.fromkeys(reasons))
        raise CaptureError("the model cannot be captured:\n" + "\n".join(f"  - {r}" for r in unique))


def _arguments(node: fx.Node) -> dict[str, object]:
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    named = {a.name: a.default_value for a in target._schema.arguments if a.has_default_value()}
    named |= {a.name: v for a, v in zip(target._schema.arguments, node.args, strict=False)}
    return named | node.kwargs


def _seeded(graph: fx.Graph) -> Iterator[fx.Node]:
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            if torch.Tag.nondeterministic_seeded not in node.target.tags:
                continue
            named = _arguments(node)
            off = any(k in ("train", "training") and v is False for k, v in named.items())
            off |= any(k in ("p", "dropout_p", "dropout") and v == 0.0 for k, v in named.items())
            if not off:
                yield node


def _is_training_op(node: fx.Node) -> bool:
    named = _arguments(node)
    return "dropout" in str(node.target) or "train" in named or "training" in named or "dropout_p" in named


def _training_nodes(graph: fx.Graph) -> Iterator[str]:
    for node in _seeded(graph):
        if _is_training_op(node):
            source = node_source(node)
            where = f" (module {source.module_path!r})" if source.module_path else ""
            yield (
                f"dropout in training mode: {source.op} draws random values at {source}{where}; "
                "call module.eval() before compiling, and pass training=self.training to F.dropout"
            )


def _random_nodes(graph: fx.Graph) -> Iterator[str]:
    for node in _seeded(graph):
        if not _is_training_op(node):
            source = node_source(node)
            yield (
                f"random values: {source.op} at {source} gives another result in each call; "
                "pass the random tensor to the model as an input"
            )


def _mutations(signature: ExportGraphSignature, module: nn.Module | None) -> Iterator[str]:
    for spec in signature.output_specs:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            yield (
                f"input {spec.target!r} is mutated in place by the model; hardware has no access to "
                f"the caller's tensor: work on a copy ({spec.target} = {spec.target}.clone())"
            )
        elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            yield _state_reason(str(spec.target), module)


def _state_reason(target: str, module: nn.Module | None) -> str:
    owner_path = target.rpartition(".")[0]
    owner = dict(module.named_modules()).get(owner_path) if module is not None else None
    if isinstance(owner, nn.modules.batchnorm._NormBase) and owner.training:
        return (
            f"module {owner_path!r} ({type(owner).__name__}) is in training mode: it uses batch statistics "
            "and updates its running ones; call module.eval() before compiling"
        )
    return (
        f"state: buffer {target!r} is mutated in forward, so two calls on one input differ; hold the state "
        "outside: take it as an input and return its new value (for batch norm call module.eval())"
    )


def _data_dependent_nodes(graph: fx.Graph) -> Iterator[str]:
    tags = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    for node in graph.nodes:
        source = node_source(node)
        if isinstance(node.target, torch._ops.HigherOrderOperator) and "wrap_with" in op_name(node.target):
            yield (
                f"mode: {op_name(node.target)} changes how torch computes a part of the model; compile "
                "the model without torch.autocast and torch.enable_grad inside of forward"
            )
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            yield (
                f"control flow: {op_name(node.target)} at {source} chooses between graphs at run time; "
                "compute both branches and choose with torch.where"
            )
        elif isinstance(node.target, torch._ops.OpOverload) and _depends_on_data(node, tags):
            yield (
                f"data-dependent result: the size or Python value of {source.op} at {source} depends on "
                "tensor values; hardware has fixed shapes: use torch.where or a mask of fixed size"
            )


def _depends_on_data(node: fx.Node, tags: tuple[torch.Tag, ...]) -> bool:
    assert isinstance(node.target, torch._ops.OpOverload)
    tagged = any(tag in node.target.tags for tag in tags)
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else [value]
    symbolic = any(_is_symbolic(v) for v in values)
    return symbolic and (tagged or all(not _is_symbolic(a.meta.get("val")) for a in node.all_input_nodes))


def _is_symbolic(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(size, int) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _dynamic_inputs(graph: fx.Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op == "placeholder" and _is_symbolic(node.meta.get("val")):
            shape = tuple(node.meta["val"].shape) if isinstance(node.meta["val"], torch.Tensor) else ()
            yield (
                f"dynamic shape: input {node.name!r} has shape {shape}; hardware has fixed shapes: "
                "export without dynamic_shapes (dynamic=False for torch.compile)"
            )
