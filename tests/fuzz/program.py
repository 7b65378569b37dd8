"""A random graph as text: the source of an ordinary module with its inputs and options, and its loading."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

Vectors = list[tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Line:
    """One line of forward. target: the name it defines, "" for an in-place operation. text: right side or
    statement.
    """

    target: str
    text: str

    def __str__(self) -> str:
        return f"{self.target} = {self.text}" if self.target else self.text


@dataclass(frozen=True, repr=False)
class Program:
    """inputs: (name, expression that makes a random value). setup: lines of __init__ that make parameters
    and buffers.

    lines: body of forward. result: what it returns, the leaves to be filled into `shape` ("({}, {})").
    options: of `torchcalyx.compile`. seed: of the parameters and inputs. calls: number of input vectors.
    """

    inputs: tuple[tuple[str, str], ...]
    setup: tuple[str, ...]
    lines: tuple[Line, ...]
    result: tuple[str, ...]
    shape: str
    options: Mapping[str, Any] = field(hash=False, default_factory=dict)
    seed: int = 0
    calls: int = 3

    @property
    def source(self) -> str:
        """The program as a file that defines Model, make_model, make_vectors and OPTIONS, and checks itself
        when run.
        """
        body = [*map(str, self.lines), f"return {self.shape.format(*self.result)}"]
        return TEMPLATE.format(
            setup="\n".join(f"        {s}" for s in ("super().__init__()", *self.setup)),
            arguments="".join(f", {name}" for name, _ in self.inputs),
            body="\n".join(f"        {b}" for b in body),
            seed=self.seed,
            calls=self.calls,
            tensors="".join(f"\n            {make}," for _, make in self.inputs),
            options="".join(f"\n    {k!r}: {v!r}," for k, v in self.options.items()),
        )

    def __repr__(self) -> str:
        return f"Program:\n{self.source}"

    @property
    def size(self) -> int:
        """How much there is to read."""
        return len(self.source)


TEMPLATE = """\
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
{setup}

    def forward(self{arguments}):
{body}


def make_model():
    torch.manual_seed({seed})
    return Model().eval()


def make_vectors():
    torch.manual_seed({seed} + 1)
    return [
        ({tensors}
        )
        for _ in range({calls})
    ]


OPTIONS = {{{options}
}}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the root of the repository
    from tests.fuzz.runner import main

    main(make_model, make_vectors, OPTIONS)
"""


@dataclass(frozen=True)
class Loaded:
    """The parts of an executed program text."""

    make_model: Callable[[], nn.Module]
    make_vectors: Callable[[], Vectors]
    options: Mapping[str, Any]


_NUMBERS = itertools.count()


def load(source: str) -> Loaded:
    """Execute a program text; its lines can be quoted by error messages."""
    name = f"<graph {next(_NUMBERS)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    # dataclasses, pickling and torch look a class up in its module: this one has none
    space: dict[str, Any] = {"__name__": "fuzz_graph", "__file__": name}
    exec(compile(source, name, "exec"), space)
    return Loaded(space["make_model"], space["make_vectors"], space["OPTIONS"])
