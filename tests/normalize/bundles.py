"""Torch eager against the reference interpreter on the normal form, many small models captured together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from torchcalyx.capture import capture
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.normalform import verify
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import normalize

Case = tuple[Callable[..., Any], tuple[Any, ...]]

BUNDLE = 24  # models captured together: the capture costs more than the comparison


def in_bundles(families: Mapping[str, Mapping[str, Case]]) -> dict[str, dict[str, Case]]:
    """Families cut into bundles of a size that is captured fast."""
    return {
        f"{family}-{start}": dict(list(cases.items())[start : start + BUNDLE])
        for family, cases in families.items()
        for start in range(0, len(cases), BUNDLE)
    }


class Bundle(nn.Module):
    """Several models side by side: a dict of argument tuples gives a dict of results."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        super().__init__()
        self.functions = {name: function for name, (function, _) in cases.items()}
        self.parts = nn.ModuleList(f for f in self.functions.values() if isinstance(f, nn.Module))

    def forward(self, arguments: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: function(*arguments[name]) for name, function in self.functions.items()}


def other_values(tensor: Tensor) -> Tensor:
    """Other values of the same shape and dtype."""
    return tensor.flip(tuple(range(tensor.dim()))).clone()


def assert_computes_what_torch_computes(cases: Mapping[str, Case]) -> Graph:
    """Compare two calls of all cases; returns their common normal form."""
    module = Bundle(cases).eval()
    inputs = {name: arguments for name, (_, arguments) in cases.items()}
    captured = capture(module, (inputs,))
    graph = normalize(captured)
    assert verify(graph) == ()
    for values in (inputs, pytree.tree_map(other_values, inputs)):
        with torch.no_grad():
            expected = pytree.tree_flatten_with_path(module(values))[0]
        got = reference(graph, [t.numpy() for t in captured.flatten_inputs((values,))])
        assert len(got) == len(expected)
        for node, ours, (path, theirs) in zip(graph.outputs, got, expected, strict=True):
            label = pytree.keystr(path)
            assert graph.node(node).dtype == str(theirs.dtype).removeprefix("torch."), label
            assert ours.shape == tuple(theirs.shape), label
            tolerance = 2e-3 if theirs.dtype == torch.float16 else 1e-5
            np.testing.assert_allclose(
                ours.astype(np.float64), theirs.double().numpy(), tolerance, tolerance, err_msg=label
            )
    return graph
