"""The normal form: a frozen, functional, torch-free graph of tensors with static shapes.

`capture` and `normalize` produce it, `quantize` and `select` consume it. A `Graph` prints itself one
node a line. Values are referred to by name; a node stands after all nodes it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Attr: TypeAlias = "int | float | bool | str | None | tuple[Attr, ...]"
Array: TypeAlias = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a node comes from: ATen operation, line of the user's file and path of the owning module."""

    op: str
    file: str = ""
    line: int = 0
    module_path: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file else "(no source line)"
        return f"{place} in {self.module_path}" if self.module_path else place


@dataclass(frozen=True, slots=True)
class Node:
    """One tensor and the operation that makes it.

    name: unique in the graph. op: a name of `normalform.OPS`. args: names of the tensors read, in order.
    attrs: sorted (key, value) pairs. shape: static. dtype: numpy name ("float32", "int64", "bool", ...) of
    the torch tensor; the hardware format is chosen later.
    """

    name: str
    op: str
    args: tuple[str, ...]
    attrs: tuple[tuple[str, Attr], ...]
    shape: tuple[int, ...]
    dtype: str
    source: Source

    def attr(self, key: str) -> Attr:
        """Value of an attribute; KeyError (our bug) when the node has none of that name."""
        return dict(self.attrs)[key]

    def ints(self, key: str) -> tuple[int, ...]:
        """A tuple attribute of ints."""
        value = self.attr(key)
        assert isinstance(value, tuple)
        return tuple(v for v in value if isinstance(v, int))

    def number(self, key: str) -> int | float:
        """A numeric attribute."""
        value = self.attr(key)
        assert isinstance(value, (int, float))
        return value

    def whole(self, key: str) -> int:
        """An integer attribute."""
        return int(self.number(key))

    def __str__(self) -> str:
        attrs = "".join(f", {k}={v}" for k, v in self.attrs)
        return f"%{self.name}: {self.dtype}{list(self.shape)} = {self.op}({', '.join(self.args)}{attrs})"


@dataclass(frozen=True)
class Graph:
    """A whole model in normal form.

    nodes: in topological order, inputs and constants included (ops "input" and "constant").
    inputs: names of the "input" nodes, one for each tensor leaf of the user's arguments, in pytree order.
    outputs: names of the values returned, one for each tensor leaf of the result, in pytree order; a name may
    repeat and may be an input or a constant.
    constants: value of each "constant" node, by name (numpy array of the node's dtype and shape).
    parameter_names: "constant" node name -> the parameter's or buffer's dotted name, for messages.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array] = field(hash=False, compare=False, default_factory=dict)
    parameter_names: Mapping[str, str] = field(hash=False, compare=False, default_factory=dict)

    def node(self, name: str) -> Node:
        """The node that makes value `name`."""
        return self.by_name[name]

    @property
    def by_name(self) -> dict[str, Node]:
        """All nodes by name."""
        return {n.name: n for n in self.nodes}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.nodes), f"return {', '.join(self.outputs)}"])
