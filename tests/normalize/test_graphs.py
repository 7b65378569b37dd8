"""Shape of the normal form: what merges, vanishes and is folded, and where names and sources come from."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.normalize.models import Function
from torchcalyx import normalize as normalize_package
from torchcalyx.capture import capture
from torchcalyx.ir.graph import Graph, Node, Source
from torchcalyx.ir.normalform import OPS, verify
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import LOWERINGS, normalize

X = torch.arange(24.0).reshape(2, 3, 4)


def graph_of(function: Any, *inputs: Any) -> Graph:
    module = function if isinstance(function, nn.Module) else Function(function)
    return normalize(capture(module, inputs or (X,)))


def ops(graph: Graph) -> list[str]:
    """Operations without inputs and constants."""
    return [n.op for n in graph.nodes if n.op not in ("input", "constant")]


SMALLER: dict[str, tuple[Any, list[str]]] = {
    "views merge": (lambda x: x.view(6, 4).view(3, 8).unsqueeze(0), ["view"]),
    "views cancel": (lambda x: x.view(6, 4).view(2, 3, 4) + x, ["add"]),
    "permutes merge": (lambda x: x.permute(1, 0, 2).transpose(1, 2), ["permute"]),
    "permutes cancel": (lambda x: x.permute(2, 0, 1).permute(1, 2, 0) + x, ["add"]),
    "moving a single axis is a view": (lambda x: x.unsqueeze(0).permute(1, 2, 3, 0), ["view"]),
    "slices merge": (lambda x: x[:, 1:].flip(1)[..., ::2], ["slice"]),
    "flips cancel": (lambda x: x.flip(0, 2).flip(2).flip(0) * x, ["mul"]),
    "casts to the same dtype": (lambda x: x.float().to(torch.float32) * x, ["mul"]),
    "expansion before a broadcasting reader": (lambda x: x + x[:, :1].expand(2, 3, 4), ["slice", "add"]),
    "expansion that is returned": (lambda x: x[:, :1].expand(2, 3, 4), ["slice", "expand"]),
    "no-ops": (lambda x: F.dropout(x.clone().contiguous().detach(), 0.1, False) * x, ["mul"]),
    "dead branch": (lambda x: (x * x, x + x)[1], ["add"]),
    "padding by nothing": (lambda x: F.pad(x, (0, 0)) * x, ["mul"]),
    "division by a power of two": (lambda x: x / 4, ["mul"]),
    "division by another number": (lambda x: x / 3, ["div_const"]),
    "transposed weight": (lambda x: x @ torch.ones(4, 2), ["linear"]),
    "bias added after a product": (lambda x: x @ torch.ones(4, 2) + torch.ones(2), ["linear"]),
    "bias added before a product": (lambda x: torch.ones(2) + x @ torch.ones(4, 2), ["linear"]),
    "addend that is no bias": (lambda x: x @ torch.ones(4, 2) + torch.ones(3, 1), ["linear", "add"]),
    "constant mask": (lambda x: x.tril(), ["where"]),
    "computation of constants": (lambda x: x + (torch.arange(4) * 2).float().exp().softmax(0), ["add"]),
}


@pytest.mark.parametrize("name", SMALLER)
def test_graph_is_as_small_as_it_can_be(name: str) -> None:
    function, expected = SMALLER[name]
    assert ops(graph_of(function)) == expected


def test_batch_norm_folds_into_its_linear() -> None:
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(nn.Linear(4, 3), norm, nn.ReLU()).eval()
    norm.load_state_dict(
        {**norm.state_dict(), "running_mean": torch.ones(3), "running_var": torch.full((3,), 2)}
    )
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    graph = graph_of(model, x)
    assert ops(graph) == ["linear", "relu"]
    np.testing.assert_allclose(reference(graph, [x.numpy()])[0], model(x).detach().numpy(), atol=1e-6)
    linear = next(n for n in graph.nodes if n.op == "linear")
    assert (
        graph.parameter_names[linear.args[1]]
        == "0.weight, 0.bias, 1.running_mean, 1.running_var, 1.weight, 1.bias"
    )


def test_batch_norm_stays_where_the_linear_is_read_elsewhere() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.norm = nn.Linear(4, 3), nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> Any:
            y = self.lin(x)
            return self.norm(y), y

    assert ops(graph_of(Model().eval(), torch.zeros(5, 4))) == ["linear", "mul", "add"]


def test_inputs_outputs_and_constants_keep_their_places() -> None:
    graph = graph_of(lambda a, unused, b: (a, b - a, torch.tensor([1.0, 2.0]), a), X, X, X)
    assert len(graph.inputs) == 3
    assert graph.outputs[0] == graph.outputs[3] == graph.inputs[0]
    assert graph.constants[graph.outputs[2]].tolist() == [1, 2]


def test_parameters_are_named_and_tied_ones_shared() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    graph = graph_of(nn.Sequential(first, second))
    assert sorted(graph.parameter_names.values()) == ["0.bias", "0.weight", "1.bias"]
    linears = [n for n in graph.nodes if n.op == "linear"]
    assert linears[0].args[1] == linears[1].args[1]


def test_the_graph_does_not_share_memory_with_the_module() -> None:
    linear = nn.Linear(4, 2)
    graph = graph_of(linear)
    before = {name: value.copy() for name, value in graph.constants.items()}
    with torch.no_grad():
        linear.weight.zero_()
    assert all(np.array_equal(graph.constants[name], value) for name, value in before.items())


def test_every_node_has_the_users_line_and_module() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.Hardswish()

        def forward(self, x: torch.Tensor) -> Any:
            return self.act(x)

    graph = graph_of(Model())
    assert {n.source.module_path for n in graph.nodes if n.op == "clamp"} == {"act"}
    assert {n.source.file for n in graph.nodes if n.op not in ("input", "constant")} == {__file__}
    assert {n.source.op for n in graph.nodes if n.op in ("clamp", "div_const")} == {"aten.hardswish"}


def test_normalizing_twice_gives_the_same_graph() -> None:
    captured = capture(nn.Sequential(nn.Linear(4, 3), nn.Hardswish()).eval(), (X,))
    assert str(normalize(captured)) == str(normalize(captured))


def broken(**changes: Any) -> Graph:
    """A correct graph (x -> relu -> sum) with one node changed."""
    source = Source("test")
    nodes = [
        Node("x", "input", (), (), (2, 3), "float32", source),
        Node("y", "relu", ("x",), (), (2, 3), "float32", source),
        Node("z", "sum", ("y",), (("dims", (1,)), ("keepdim", False)), (2,), "float32", source),
    ]
    nodes[2] = replace(nodes[2], **changes)
    return Graph(tuple(nodes), ("x",), ("z",))


BROKEN: dict[str, tuple[Graph, str]] = {
    "shape": (broken(shape=(3,)), "should be float32[2]"),
    "dtype": (broken(dtype="float64"), "should be float32[2]"),
    "unknown operation": (broken(op="glow"), "'glow' is not an operation of the normal form"),
    "operands": (broken(args=("y", "y")), "2 operands"),
    "order": (broken(args=("w",)), "reads 'w' before it is made"),
    "attribute names": (broken(attrs=(("dim", 1),)), "attributes ['dim'] instead of ['dims', 'keepdim']"),
    "attribute order": (broken(attrs=(("keepdim", False), ("dims", (1,)))), "attributes are not sorted"),
    "axis": (broken(attrs=(("dims", (2,)), ("keepdim", False))), "are not axes of"),
    "name": (broken(name="y"), "the name is taken"),
    "outputs": (replace(broken(), outputs=("q",)), "output 'q' is not made"),
    "inputs": (replace(broken(), inputs=()), "are not the graph's inputs"),
    "constant": (broken(op="constant", args=(), attrs=()), "has no value of its shape and dtype"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verify_names_each_violation(name: str) -> None:
    graph, text = BROKEN[name]
    assert any(text in violation for violation in verify(graph)), verify(graph)


def test_verify_accepts_a_correct_graph() -> None:
    assert verify(broken()) == ()


def test_every_operation_is_documented() -> None:
    assert all(op.doc and list(op.attrs) == sorted(op.attrs) for op in OPS.values())


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.slices(3), st.slices(4)), min_size=1, max_size=3))
def test_chains_of_slices_and_flips(slices: list[tuple[slice, slice]]) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        for rows, columns in slices:
            forwards = [slice(s.start, s.stop, abs(s.step or 1)) for s in (rows, columns)]
            x = x[forwards[0], forwards[1]].flip(0 if (rows.step or 1) < 0 else 1)
        return x

    x = torch.arange(12.0).reshape(3, 4)
    graph = graph_of(forward, x)
    np.testing.assert_array_equal(reference(graph, [x.numpy()])[0], forward(x).numpy())
    assert len(ops(graph)) <= 1


def test_every_operator_stands_in_one_table_only() -> None:
    """A table that comes later would silently hide the row of an earlier one."""
    found: dict[object, str] = {}
    for name, module in sorted(vars(normalize_package).items()):
        for target in getattr(module, "LOWERINGS", {}) if isinstance(module, ModuleType) else {}:
            assert target not in found, f"{target} stands in {found.get(target)} and in {name}"
            found[target] = name
    assert found.keys() == LOWERINGS.keys()
