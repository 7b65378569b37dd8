"""Every spelling: torch eager equals the reference interpreter on the normal form, and the form verifies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from tests.normalize.spellings import FAMILIES, Case
from torchcalyx.capture import capture
from torchcalyx.normalform import verify
from torchcalyx.normalize import normalize
from torchcalyx.reference import reference

BUNDLE = 24  # models captured together: the capture costs more than the comparison
BUNDLES = {
    f"{family}-{start}": dict(list(cases.items())[start : start + BUNDLE])
    for family, cases in FAMILIES.items()
    for start in range(0, len(cases), BUNDLE)
}


class Bundle(nn.Module):
    """Several models side by side: a dict of argument tuples gives a dict of results."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.functions = {name: function for name, (function, _) in cases.items()}
        self.parts = nn.ModuleList(f for f in self.functions.values() if isinstance(f, nn.Module))

    def forward(self, arguments: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
        return {name: function(*arguments[name]) for name, function in self.functions.items()}


def other_values(tensor: Tensor) -> Tensor:
    """Other values of the same shape and dtype."""
    return tensor.flip(tuple(range(tensor.dim()))).clone()


@pytest.mark.parametrize("bundle", BUNDLES)
def test_normal_form_computes_what_torch_computes(bundle: str) -> None:
    cases = BUNDLES[bundle]
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
