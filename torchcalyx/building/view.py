"""Structural questions about a typed graph, as the rules ask them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from torchcalyx.ir.graph import Array, Node
from torchcalyx.kernels.arith.numerics import NumberFormat
from torchcalyx.options import Options
from torchcalyx.quantize import Typed
from torchcalyx.quantize.needs import Need

CHANNELS_LAST = ("conv", "max_pool", "sum_pool", "upsample")
"""Operations that read their first operand [N, C, *spatial] with the channels over the lanes."""

NO_WISH = ("view", "permute", "expand", "slice", "linear", "matmul", "cumsum", "cummax", "cummin", "sort",
            "argsort", "take", "put", "input", "constant")  # fmt: skip
"""Operations whose operands have axes, or needs, of their own."""


class GraphView:
    """A typed graph with its options; read-only."""

    def __init__(self, typed: Typed, options: Options) -> None:
        self.graph = typed.graph
        self.formats: Mapping[str, NumberFormat] = typed.formats
        self.weight_fracs: Mapping[str, tuple[int, ...]] = typed.weight_fracs
        self.needs: Mapping[str, Need] = typed.needs
        self.stored = typed.stored
        self.floors = typed.floors
        self.options = options
        self.lanes = options.lane_count

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return self.graph.by_name

    @cached_property
    def users(self) -> Mapping[str, frozenset[str]]:
        """Names of the nodes that read each value."""
        found: dict[str, set[str]] = {n.name: set() for n in self.graph.nodes}
        for node in self.graph.nodes:
            for arg in node.args:
                found[arg].add(node.name)
        return {name: frozenset(users) for name, users in found.items()}

    @cached_property
    def results(self) -> frozenset[str]:
        """Names of the values that the model returns."""
        return frozenset(self.graph.outputs)

    @cached_property
    def watched(self) -> frozenset[str]:
        """Names of the values that a call compares with the axis they point into."""
        return frozenset(n.args[0] for n in self.graph.nodes if n.op == "checked")

    @cached_property
    def wanted(self) -> Mapping[str, tuple[int, ...]]:
        """Axis order in which the readers of a value would like it in memory (last: over the lanes), where
        they have a wish.

        Convolutions of many channels and pooling read channels-last; elementwise operations and padding
        pass the wish on to their operands.
        """
        wishes: dict[str, tuple[int, ...]] = {}
        for node in reversed(self.graph.nodes):
            if node.op in CHANNELS_LAST:
                rank, channels = len(node.shape), self.nodes[node.args[0]].shape[1]
                few = node.op == "conv" and channels < self.lanes  # windows in registers read whole planes
                order = tuple(range(rank)) if few else (0, *range(2, rank), 1)
                wishes.setdefault(node.args[0], order)
            elif node.name in wishes and node.op not in NO_WISH:
                for arg in self.args(node):
                    if len(arg.shape) == len(node.shape):
                        wishes.setdefault(arg.name, wishes[node.name])
        return wishes

    def args(self, node: Node) -> tuple[Node, ...]:
        """The nodes that `node` reads."""
        return tuple(self.nodes[a] for a in node.args)

    def inside(self, name: str, consumers: set[str]) -> bool:
        """Whether every use of a value lies in `consumers` (so it needs no memory of its own)."""
        return name not in self.results | self.watched and self.users[name] <= consumers

    def constant(self, name: str) -> Array | None:
        """Value of a constant node, None for others."""
        return self.graph.constants[name] if self.nodes[name].op == "constant" else None

    def scalar(self, name: str) -> float | int | bool | None:
        """Value of a constant of one element, None for everything else."""
        value = self.constant(name)
        if value is None or value.size != 1:
            return None
        item = np.asarray(value).reshape(())[()].item()
        assert isinstance(item, (bool, int, float))
        return item
