"""Operations of the normal form whose operands are all known: they are computed at once."""

from __future__ import annotations

import torch

from torchcalyx.ir.graph import Attr, Node
from torchcalyx.ir.normalform import infer
from torchcalyx.ir.reference import evaluate
from torchcalyx.normalize.builder import Builder, Known, Value, torch_dtype, type_of


def emit(b: Builder, op: str, *args: Value, **attrs: Attr) -> Value:
    """The operation as a node, or as a known tensor."""
    known = [a for a in args if isinstance(a, Known)]
    if len(known) < len(args):
        return b.emit(op, *args, **attrs)
    result = infer(op, tuple(type_of(a) for a in args), attrs)
    names = tuple(f"v{i}" for i in range(len(args)))
    node = Node("folded", op, names, tuple(sorted(attrs.items())), result.shape, result.dtype, b.source)
    value = torch.as_tensor(evaluate(node, [k.tensor.numpy() for k in known]))
    origins = dict.fromkeys(o for k in known for o in k.origins)
    return Known(value.to(torch_dtype(result.dtype)), tuple(origins))
