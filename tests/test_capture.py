"""What capture accepts, how calls are flattened and rebuilt, and what it refuses with which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from torchcalyx.capture import capture
from torchcalyx.capture.source import node_source
from torchcalyx.errors import CaptureError, InputError

X = torch.arange(6.0).reshape(2, 3)


class Nested(nn.Module):
    """Dict and tuple arguments; tensor, None, number and repeated results."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor([2.0, 3.0]), persistent=False)

    def forward(self, x: Tensor, batch: dict[str, Any], flag: bool = True) -> dict[str, Any]:
        y = self.lin(x) * self.scale
        return {"y": y, "none": None, "three": 3, "again": (y, batch["b"]), "known": torch.tensor([1, 2])}


class Lambda(nn.Module):
    def __init__(self, function: Any, **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def nested_inputs() -> tuple[Any, ...]:
    return X, {"a": torch.ones(1), "b": torch.zeros(2), "n": 7}


def test_inputs_are_leaves_in_pytree_order_with_the_users_names() -> None:
    captured = capture(Nested(), nested_inputs())
    assert [s.path for s in captured.inputs] == ["x", "batch['a']", "batch['b']", "batch['n']"]
    assert [s.path for s in captured.tensor_inputs] == ["x", "batch['a']", "batch['b']"]
    assert captured.inputs[3].value == 7
    assert sorted(captured.constant_names.values()) == ["lifted_tensor_0", "lin.bias", "lin.weight", "scale"]


def test_flatten_inputs_accepts_dicts_in_any_order() -> None:
    captured = capture(Nested(), nested_inputs())
    a, b = torch.full((1,), 4.0), torch.full((2,), 5.0)
    assert captured.flatten_inputs((X, {"n": 7, "b": b, "a": a})) == [X, a, b]


def test_unflatten_outputs_rebuilds_the_users_structure() -> None:
    captured = capture(Nested(), nested_inputs())
    y, b, known = torch.ones(2, 2), torch.ones(2), torch.tensor([1, 2])
    result = captured.unflatten_outputs([y, y, b, known])
    assert result == {"y": y, "none": None, "three": 3, "again": (y, b), "known": known}
    with pytest.raises(ValueError, match="expected 4 output tensors, got 1"):
        captured.unflatten_outputs([y])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((X,), "takes 2 argument(s), got 1"),
        ((X, {"a": torch.ones(1), "b": torch.zeros(2)}), "nested differently"),
        (
            (X, {"a": torch.ones(1), "b": torch.zeros(2), "n": 8}),
            "argument batch['n']: the model was compiled for",
        ),
        (
            (X, {"a": torch.ones(1), "b": [1, 2], "n": 7}),
            "argument batch['b'] must be a torch.Tensor, got list",
        ),
        (
            (X.t(), {"a": torch.ones(1), "b": torch.zeros(2), "n": 7}),
            "x has shape (3, 2), the model was compiled for (2, 3)",
        ),
        ((X.double(), {"a": torch.ones(1), "b": torch.zeros(2), "n": 7}), "x has dtype torch.float64"),
    ],
)
def test_a_call_that_does_not_fit_is_named(arguments: tuple[Any, ...], text: str) -> None:
    captured = capture(Nested(), nested_inputs())
    with pytest.raises(InputError, match=re.escape(text)):
        captured.flatten_inputs(arguments)


def test_a_single_tensor_counts_as_one_argument() -> None:
    captured = capture(nn.ReLU(), X)
    assert captured.flatten_inputs(X) == [X]


def test_exported_program_brings_its_own_inputs() -> None:
    program = torch.export.export(nn.Linear(3, 2).eval(), (X,))
    captured = capture(program)
    assert [s.shape for s in captured.inputs] == [(2, 3)]
    assert [s.path for s in captured.inputs] == ["args[0]"]


def test_keyword_arguments_of_an_exported_program() -> None:
    program = torch.export.export(Nested(), (X,), {"batch": {"b": torch.zeros(2)}})
    captured = capture(program)
    assert [s.path for s in captured.inputs] == ["args[0]", "batch['b']"]
    assert captured.flatten_inputs((X,), {"batch": {"b": torch.ones(2)}})[0] is X


def test_graph_module_is_captured() -> None:
    captured = capture(fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU())), (X,))
    assert set(captured.constant_names.values()) == {"0.weight", "0.bias"}


def test_two_arguments_that_are_one_tensor_stay_two_inputs() -> None:
    captured = capture(Lambda(lambda a, b: a - b), (X, X))
    assert len(captured.tensor_inputs) == 2
    [sub] = [n for n in captured.graph.nodes if n.op == "call_function"]
    assert sub.args[0] is not sub.args[1]


def test_module_and_inputs_stay_as_they_were() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train(False), X.clone().requires_grad_()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    modes = [m.training for m in module.modules()]
    capture(module, (x,))
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert [m.training for m in module.modules()] == modes
    assert torch.equal(x, X)
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.is_grad_enabled()


def test_strided_example_inputs_keep_their_logical_shape() -> None:
    image = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    captured = capture(Lambda(lambda a, b: (a + 1, b * 2)), (X.t(), image))
    assert [s.shape for s in captured.inputs] == [(3, 2), (1, 2, 3, 4)]


def test_submodules_named_like_python_keywords() -> None:
    parts = {"in": nn.Linear(3, 3), "class": nn.Linear(3, 3)}

    class Keywords(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                self.add_module(name, part)

        def forward(self, x: Tensor) -> Tensor:
            for name in parts:
                x = getattr(self, name)(x)
            return x

    module = Keywords()
    captured = capture(module, (X,))
    assert set(captured.constant_names.values()) == {"in.weight", "in.bias", "class.weight", "class.bias"}
    assert list(dict(module.named_parameters())) == ["in.weight", "in.bias", "class.weight", "class.bias"]


def test_unused_and_returned_inputs_are_kept() -> None:
    captured = capture(Lambda(lambda a, unused, b: (a - b, a)), (X, X, X))
    assert len(captured.tensor_inputs) == 3
    assert captured.tensor_outputs[1].node == captured.tensor_inputs[0].placeholder


def test_grad_modes_inside_forward_leave_no_trace() -> None:
    def forward(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        return y + 1

    captured = capture(Lambda(forward), (X,))
    assert [str(n.target) for n in captured.graph.nodes if n.op == "call_function"] == [
        "aten.mul.Tensor",
        "aten.add.Tensor",
    ]


def test_sources_name_the_users_line_and_module() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)  # the line
            return x

    lines = Path(__file__).read_text().splitlines()
    expected = next(i for i, line in enumerate(lines, 1) if line.endswith("# the line"))
    captured = capture(Lambda(Block(), block=Block()), (X,))
    sources = [node_source(n) for n in captured.graph.nodes if n.op == "call_function"]
    assert {(s.op, s.file, s.line) for s in sources} == {("aten.linear", __file__, expected)}
    assert [s.module_path for s in sources] == ["function.layers.0", "function.layers.1"]


def in_place(x: Tensor) -> Tensor:
    x.mul_(2)
    return x


class Counting(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * self.count


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("the user's own mistake")


class Scripted(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


REFUSED: dict[str, tuple[nn.Module, tuple[str, ...]]] = {
    "mutated input": (Lambda(in_place), ("input", "mutated")),
    "mutated buffer": (Counting(), ("buffer 'count'", "mutated")),
    "dropout module": (
        nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train(),
        ("dropout in training mode", "module '1'", ".eval()"),
    ),
    "dropout function": (
        Lambda(lambda x: F.dropout(x, 0.5)),
        ("dropout in training mode", "test_capture.py:"),
    ),
    "batch norm": (
        nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).train(),
        ("module '1' (BatchNorm1d) is in training mode", ".eval()"),
    ),
    "random": (Lambda(lambda x: x + torch.randn(3)), ("random values: aten.randn", "test_capture.py:")),
    "bernoulli": (Lambda(lambda x: torch.bernoulli(x.clamp(0, 1))), ("random values", "bernoulli")),
    "nonzero": (Lambda(lambda x: torch.nonzero(x)), ("data-dependent", "aten.nonzero", "test_capture.py:")),
    "boolean mask": (Lambda(lambda x: x[x > 0]), ("data-dependent", "aten.index")),
    "branch": (Branching(), ("data-dependent control flow", "test_capture.py:")),
    "item": (Lambda(lambda x: x * x.sum().item()), ("data-dependent",)),
    "cond": (Scripted(), ("control flow: cond", "torch.where")),
    "own mistake": (Failing(), ("test_capture.py:", "RuntimeError: the user's own mistake")),
    "wrong shape": (
        nn.Linear(4, 2),
        ("torch.export could not capture the model", "check that the module runs"),
    ),
    "meta weights": (nn.Linear(3, 2, device="meta"), ("meta",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_and_where(name: str) -> None:
    module, texts = REFUSED[name]
    with pytest.raises(CaptureError) as caught:
        capture(module, (X,))
    assert all(text in str(caught.value) for text in texts), str(caught.value)


def test_all_refusals_are_listed_at_once() -> None:
    module = Lambda(lambda x: F.dropout(x, 0.5) + torch.randn(3) + torch.rand(3))
    with pytest.raises(CaptureError) as caught:
        capture(module, (X,))
    assert str(caught.value).count("\n  - ") == 3


def test_dynamic_shapes_are_refused() -> None:
    dim = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(nn.ReLU(), (X,), dynamic_shapes=({0: dim},))
    with pytest.raises(CaptureError, match="dynamic shape: input 'input'"):
        capture(program)


def test_what_is_no_module_and_no_tuple_is_named() -> None:
    with pytest.raises(CaptureError, match="cannot compile a function"):
        capture(lambda x: x, (X,))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="example_inputs must be a tuple"):
        capture(nn.ReLU(), None)


def test_inactive_dropout_is_no_refusal() -> None:
    module = Lambda(lambda x: F.dropout(F.dropout(x, 0.0), 0.5, training=False))
    assert len(capture(module, (X,)).tensor_outputs) == 1


class Remembering(nn.Module):
    """Keeps something in a Python attribute during forward."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        self.calls, self.log, self.function = 0, [1], forward
        self.last: Tensor | None = None
        self.held: Tensor | None = None

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def count(module: Any, x: Tensor) -> Any:
    module.calls += 1
    return x + module.calls


def keep_first(module: Any, x: Tensor) -> Any:
    if module.last is None:
        module.last = x
    return x * module.last


def accumulate(module: Any, x: Tensor) -> Any:
    module.last = x if module.last is None else module.last + x
    return module.last


@pytest.mark.parametrize("forward", [count, keep_first, accumulate])
def test_state_in_attributes_is_refused(forward: Any) -> None:
    with pytest.raises(
        CaptureError, match="state: a call of the module changes its attribute '(calls|last)'"
    ):
        capture(Remembering(forward), (X,))


def log_only(module: Any, x: Tensor) -> Tensor:
    module.calls += 1
    module.last = x * 2
    module.log.append(x)
    module.fresh = x
    return x + 1


def lazy_mask(module: Any, x: Tensor) -> Any:
    if module.last is None:
        module.last = torch.arange(3.0)
    return x * module.last


@pytest.mark.parametrize("forward", [log_only, lazy_mask])
def test_attributes_that_do_not_matter_are_accepted_and_put_back(forward: Any) -> None:
    module = Remembering(forward)
    before = dict(vars(module))
    capture(module, (X,))
    assert vars(module).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(module).items())
    assert module.log == [1]


def test_a_tensor_attribute_written_in_place_is_refused_and_put_back() -> None:
    held = torch.zeros(3)
    module = Remembering(lambda module, x: x * module.held.add_(1))
    module.held = held
    with pytest.raises(CaptureError, match="mutated"):
        capture(module, (X,))
    assert held.tolist() == [0, 0, 0]
