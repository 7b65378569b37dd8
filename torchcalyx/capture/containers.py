"""Containers that torch's pytrees do not know: dataclasses, `torch.Size`, and values that never change.

`pack` puts each into a node of ours, so that torch.export and treespecs see through it, `unpack` puts them
back. Only our own node class is registered with torch: the user's classes stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import torch
from torch.utils import _pytree as pytree

_CONSTANTS = (torch.dtype, torch.device, torch.layout, torch.memory_format, Enum, range, slice, bytes)
"""Types of values that hold no tensor and compare by value: a part of the structure."""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A container or value as a pytree node. what: its class, or the value itself where there are no parts.

    names: the fields of a dataclass, the indices of a `torch.Size`.
    """

    what: Any
    names: tuple[Any, ...]
    parts: tuple[Any, ...]


def pack(tree: Any) -> Any:
    """The tree with every dataclass, `torch.Size` and constant value in a node that pytrees look into."""
    return pytree.tree_map(_packed, tree, is_leaf=lambda v: isinstance(v, torch.Size))


def unpack(tree: Any) -> Any:
    """The tree that `pack` was given. Dataclasses are filled field by field: `__init__` does not run."""
    return pytree.tree_map(_unpacked, tree, is_leaf=lambda v: isinstance(v, Packed))


def _packed(leaf: Any) -> Any:
    if isinstance(leaf, torch.Size):
        return Packed(torch.Size, tuple(range(len(leaf))), tuple(leaf))
    if isinstance(leaf, _CONSTANTS):
        return Packed(leaf, (), ())
    if is_dataclass(leaf) and not isinstance(leaf, (type, dict, list, tuple, torch.Tensor)):
        names = tuple(f.name for f in fields(leaf))
        return Packed(type(leaf), names, tuple(pack(getattr(leaf, name)) for name in names))
    return leaf


def _unpacked(leaf: Any) -> Any:
    if not isinstance(leaf, Packed):
        return leaf
    if not isinstance(leaf.what, type):
        return leaf.what
    parts = [unpack(part) for part in leaf.parts]
    if leaf.what is torch.Size:
        return torch.Size(parts)
    result: Any = object.__new__(leaf.what)
    for name, part in zip(leaf.names, parts, strict=True):
        object.__setattr__(result, name, part)
    return result


def _key(packed: Packed, name: Any) -> Any:
    return pytree.SequenceKey(name) if packed.what is torch.Size else pytree.GetAttrKey(name)


pytree.register_pytree_node(
    Packed,
    lambda p: (list(p.parts), (p.what, p.names)),
    lambda parts, context: Packed(context[0], context[1], tuple(parts)),
    flatten_with_keys_fn=lambda p: (
        [(_key(p, name), part) for name, part in zip(p.names, p.parts, strict=True)],
        (p.what, p.names),
    ),
)
