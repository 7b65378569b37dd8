"""Lets an export see through the user's containers: arguments arrive as they were, results leave packed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from torchcalyx.capture.containers import pack, unpack
from torchcalyx.errors import CaptureError

_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float, str, type(None))


@contextmanager
def packed_containers(module: nn.Module) -> Iterator[None]:
    """In the block the module takes packed arguments and returns a packed result.

    Raises CaptureError where the result holds something that is no tensor, no plain value and no container
    that can be rebuilt.
    """

    def before(_: nn.Module, args: Any, kwargs: Any) -> Any:
        return unpack((args, kwargs))

    def after(_: nn.Module, args: Any, result: Any) -> Any:
        result = pack(result)
        for keys, leaf in pytree.tree_flatten_with_path(result)[0]:
            if not isinstance(leaf, _VALUES):
                raise CaptureError(
                    f"output{pytree.keystr(keys)} of the model is of type {type(leaf).__name__}: return "
                    "tensors, plain values, or tuples, lists, dicts, named tuples and dataclasses of these "
                    "(register a class of your own with torch.utils._pytree.register_pytree_node)"
                )
        return result

    handles = (
        module.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        module.register_forward_hook(after),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
