"""State kept in Python attributes: found by watching them during an export, refused when it changes results.

torch.export bakes the attributes' values of the first call into the graph. A model that counts its calls or
keeps its last result would be silently wrong from the second call on; one that only logs or caches is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from torchcalyx.capture.containers import pack, unpack
from torchcalyx.errors import CaptureError

_PLAIN = (int, float, bool, str, type(None), torch.Tensor)


@contextmanager
def kept_attributes(module: nn.Module) -> Iterator[dict[str, Any]]:
    """Puts back every attribute of the module and its submodules when the block ends.

    Yields a dict that holds, after a call of the module in the block, the attributes which that call changed.
    """
    saved = [(part, dict(vars(part))) for part in module.modules()]
    containers = [
        (v, v.copy()) for _, held in saved for v in held.values() if isinstance(v, (list, dict, set))
    ]
    before, changed = _attributes(module), dict[str, Any]()
    values = [(v, v._version, v.detach().clone()) for v in before.values() if isinstance(v, torch.Tensor)]

    def compare(*_: Any) -> None:
        changed.update(
            {k: v for k, v in _attributes(module).items() if k not in before or _differs(before[k], v)}
        )

    handle = module.register_forward_hook(compare)
    try:
        yield changed
    finally:
        handle.remove()
        for part, held in saved:
            vars(part).clear()
            vars(part).update(held)
        for tensor, version, value in values:
            if tensor._version != version:  # an export writes into tensors that are no buffers
                tensor.copy_(value)
        for container, content in containers:
            container.clear()
            (container.extend if isinstance(container, list) else container.update)(content)


def check_stateless(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], changed: dict[str, Any]
) -> None:
    """CaptureError when the attributes that a call changes make a difference to the next call."""
    if not changed:
        return
    given = (args, kwargs)
    others = _mapped(lambda t: t.flatten().flip(0).reshape(t.shape), given)
    with kept_attributes(module):
        first = _called(module, others)
    with kept_attributes(module):
        _called(module, given)
        second = _called(module, others)
    if not _same(first, second):
        names = ", ".join(repr(name) for name in sorted(changed))
        raise CaptureError(
            "the model cannot be captured:\n"
            f"  - state: a call of the module changes its attribute {names}, and the next call gives another "
            "result; hold the state outside: take it as an input and return its new value"
        )


def _attributes(module: nn.Module) -> dict[str, Any]:
    """Plain attributes of the module and its submodules by dotted name."""
    return {
        f"{path}.{key}" if path else key: value
        for path, part in module.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, _PLAIN)
    }


def _differs(old: Any, new: Any) -> bool:
    if isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor):
        return old is not new
    return type(old) is not type(new) or bool(old != new)


def copied(tree: Any) -> Any:
    """The tree with a copy of each tensor, also of those inside dataclasses."""
    return _mapped(lambda t: t.detach().clone(), tree)


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    return unpack(pytree.tree_map_only(torch.Tensor, change, pack(tree)))


def _called(module: nn.Module, given: Any) -> Any:
    args, kwargs = copied(given)
    return module(*args, **kwargs)


def _same(first: Any, second: Any) -> bool:
    (ours, our_spec), (theirs, their_spec) = (
        pytree.tree_flatten(pack(first)),
        pytree.tree_flatten(pack(second)),
    )
    return our_spec == their_spec and all(map(_equal, ours, theirs))


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.shape == second.shape and torch.allclose(first, second, equal_nan=True)
    return bool(first == second)
