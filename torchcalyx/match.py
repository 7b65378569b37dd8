"""What a selection rule is, and what it answers: a match, or a falsy refusal with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node


@dataclass(frozen=True)
class Reject:
    """Why a rule does not apply. Falsy. related: False when the rule is about other operations altogether."""

    reason: str
    related: bool = True

    def __bool__(self) -> bool:
        return False


Build: TypeAlias = "Callable[[SelectionBuilder], Located]"
"""Second half of a rule: adds kernel calls to the selection and says where the node's value then lies."""


@dataclass(frozen=True)
class Match:
    """A rule applies to a node. covers: nodes computed by it, the node itself included. leaves: nodes whose
    values it reads.
    """

    covers: tuple[str, ...]
    leaves: tuple[str, ...]
    build: Build


@dataclass(frozen=True)
class Rule:
    """A named way to compute a node in hardware.

    apply looks at the graph only (patterns and conditions) and returns a `Match` or a `Reject`; the match's
    `build` is called later, when all leaves have their places.
    """

    name: str
    apply: Callable[[GraphView, Node], Match | Reject]
