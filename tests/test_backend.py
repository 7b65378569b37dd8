"""`torch.compile(model, backend="torchcalyx")`: the hardware of `torchcalyx.compile`, or a clear refusal."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import tomllib
import weakref
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

import torchcalyx
from torchcalyx import CompiledModule
from torchcalyx.backend import run, torchcalyx_backend
from torchcalyx.errors import CaptureError, InputError, OptionsError, UnsupportedOpError

ROOT = Path(__file__).parent.parent
simulates = pytest.mark.needs("calyx", "verilator")

OFFSET = torch.tensor([0.5, -0.25, 1.0, 0.125])


class MLP(nn.Module):
    """Two layers, a buffer, an attribute that is no buffer, tensors used in another order than given."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 4)])
        self.register_buffer("scale", torch.tensor([0.5, 1.0, 2.0, -1.0]))
        self.shift = torch.tensor([0.25])

    def forward(self, offset: Tensor, batch: dict[str, Tensor]) -> dict[str, Any]:
        x = batch["x"]
        for layer in self.layers:
            x = torch.relu(layer(x))
        return {"y": x * self.scale - offset, "rows": x.shape[0], "shifted": [x + self.shift]}


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        if y.sum() > 0:
            return y + 1
        return y - 1


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.lstm(x)[0])


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class CallsFromALoop(nn.Module):
    """Dynamo gives up the whole frame, and captures what it calls on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = self.inner(x)
            if x.sum() > 100:
                x = x + 1
        return x


class Emulating(CompiledModule):
    """Compiled modules whose calls run the software model, which equals the hardware to the bit."""

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.emulate(*inputs, **kwargs)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The backend under its name whether the checkout is installed or not; no graphs of earlier tests."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    if "torchcalyx" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(torchcalyx_backend, name="torchcalyx")
    yield
    torch._dynamo.reset()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[CompiledModule]:
    """What the backend has compiled. Calls run the software model: these tests need no tool."""
    found: list[CompiledModule] = []

    def recording(*args: Any, **kwargs: Any) -> CompiledModule:
        found.append(torchcalyx.compile(*args, **kwargs))
        found[-1].__class__ = Emulating
        return found[-1]

    monkeypatch.setattr(run, "compile", recording)
    return found


def compiled(model: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
    return torch.compile(model, backend="torchcalyx", **kwargs)


def refusal(model: Callable[..., Any], *inputs: Any, **kwargs: Any) -> str:
    """What the first call raises inside of the backend, which torch wraps in an exception of its own."""
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(model, **kwargs)(*inputs)
    return str(caught.value)


def mlp_inputs(rows: int = 2) -> tuple[Tensor, dict[str, Tensor]]:
    return torch.randn(4), {"x": torch.randn(rows, 4)}


@simulates
def test_hardware_gives_what_the_other_door_gives() -> None:
    model, inputs = MLP().eval(), mlp_inputs()
    before = inputs[0].clone(), inputs[1]["x"].clone()
    with torch.no_grad():
        wanted, found, exact = (
            f(*inputs) for f in (torchcalyx.compile(model, inputs), compiled(model), model)
        )
    assert torch.equal(found["y"], wanted["y"]) and torch.equal(found["shifted"][0], wanted["shifted"][0])
    assert found["rows"] == 2
    torch.testing.assert_close(found["y"], exact["y"], atol=0.01, rtol=0)
    assert torch.equal(inputs[0], before[0]) and torch.equal(inputs[1]["x"], before[1])


def test_program_and_sources_are_those_of_the_other_door(made: list[CompiledModule]) -> None:
    model, inputs = MLP().eval(), mlp_inputs()
    compiled(model)(*inputs)
    other = torchcalyx.compile(model, inputs)
    assert made[0].futil == other.futil  # and so the same entries of the cache
    assert str(made[0].stages.graph) == str(other.stages.graph)
    assert [n.source for n in made[0].stages.graph.nodes] == [n.source for n in other.stages.graph.nodes]
    assert set(made[0].stages.graph.parameter_names.values()) >= {"layers.0.weight", "layers.1.bias", "scale"}
    assert [i.path for i in made[0].stages.captured.inputs] == ["offset", "batch_x"]


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_every_gradient_mode_serves_an_eval_module(context: Any, made: list[CompiledModule]) -> None:
    model = MLP().eval()
    with context():
        inputs = mlp_inputs()
        found = compiled(model)(*inputs)["y"]
        assert not found.requires_grad
        torch.testing.assert_close(found, model(*inputs)["y"].detach(), atol=0.01, rtol=0)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("dynamic", "expected"),
    # After the second shape Dynamo prefers a graph of symbolic shape, which the first one is new to.
    [(None, [(2, 4), (3, 4), (5, 4), (2, 4)]), (False, [(2, 4), (3, 4), (5, 4)])],
)
def test_each_shape_is_compiled(
    dynamic: bool | None, expected: list[tuple[int, ...]], made: list[CompiledModule]
) -> None:
    model = MLP().eval()
    fast = compiled(model, dynamic=dynamic, fullgraph=True)
    for rows in (2, 3, 5, 3, 5, 2):
        inputs = mlp_inputs(rows)
        found = fast(*inputs)
        assert found["rows"] == rows and found["y"].shape == (rows, 4)
        torch.testing.assert_close(found["y"], model(*inputs)["y"].detach(), atol=0.1, rtol=0)
    shapes = [hw.stages.captured.inputs[1].shape for hw in made]
    assert shapes == expected


def test_python_numbers_are_fixed_and_compiled_anew(made: list[CompiledModule]) -> None:
    def scaled(x: Tensor, factor: float, times: int) -> tuple[Tensor, int]:
        return x * factor + times, times * 2

    fast = compiled(scaled)
    for factor, times in ((2.0, 3), (0.5, 4), (0.25, 5), (0.5, 4)):
        x = torch.randn(2, 4)
        found, twice = fast(x, factor, times)
        assert twice == times * 2
        torch.testing.assert_close(found, x * factor + times, atol=0.01, rtol=0)
    assert len(made) == 3


def test_a_plain_function_with_tensors_from_everywhere(made: list[CompiledModule]) -> None:
    weight, net = torch.randn(4), nn.Linear(4, 4).eval()

    def function(x: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        return net(x * weight + OFFSET) - rest[1], rest[0] + 1

    inputs = torch.randn(2, 4), torch.randn(3), torch.randn(4)
    for found, wanted in zip(compiled(function)(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(found, wanted.detach(), atol=0.01, rtol=0)
    names = set(made[0].stages.captured.constant_names.values())
    assert names == {"weight", "OFFSET", "net.weight", "net.bias"}
    assert [i.shape for i in made[0].stages.captured.inputs] == [(2, 4), (3,), (4,)]


def test_sequential_keeps_its_names(made: list[CompiledModule]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5)).eval()
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(model)(x), model(x).detach(), atol=0.01, rtol=0)
    assert [i.path for i in made[0].stages.captured.inputs] == ["input"]
    assert "1.running_mean" in {*made[0].stages.captured.constant_names.values()}
    assert made[0].futil == torchcalyx.compile(model, x).futil


def test_parameters_given_as_arguments_are_weights(made: list[CompiledModule]) -> None:
    layer, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad():
        found = compiled(F.linear)(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, layer(x).detach(), atol=0.01, rtol=0)
    assert [i.shape for i in made[0].stages.captured.inputs] == [(2, 4)]


def test_methods_and_keyword_names_of_submodules(made: list[CompiledModule]) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("in", nn.Linear(4, 4))
            self.register_buffer("graph", torch.ones(4))

        def encode(self, x: Tensor) -> Any:
            return getattr(self, "in")(x) + self.graph

    model, x = Odd().eval(), torch.randn(1, 4)
    torch.testing.assert_close(compiled(model.encode)(x), model.encode(x).detach(), atol=0.01, rtol=0)
    assert set(made[0].stages.captured.constant_names.values()) == {"in__.weight", "in__.bias", "graph__"}


def test_changed_weights_are_compiled_anew(made: list[CompiledModule]) -> None:
    model, inputs = MLP().eval(), mlp_inputs()
    fast = compiled(model)
    fast(*inputs)
    with torch.no_grad():
        model.layers[0].weight.mul_(-1)
    model.scale.data.add_(1)
    torch.testing.assert_close(fast(*inputs)["y"], model(*inputs)["y"].detach(), atol=0.01, rtol=0)
    fast(*inputs)
    assert len(made) == 2


def test_two_instances_that_share_a_graph_keep_their_own_weights(made: list[CompiledModule]) -> None:
    inputs = mlp_inputs()
    for model in (MLP().eval(), MLP().eval()):
        torch.testing.assert_close(
            compiled(model)(*inputs)["y"], model(*inputs)["y"].detach(), atol=0.01, rtol=0
        )
    assert len(made) == 2


def test_variants_are_bounded(made: list[CompiledModule], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_VARIANTS", 2)
    fast = compiled(Inner().eval())
    for rows in (2, 3, 4, 5, 4, 3):  # two are made static and dynamic; 3 was dropped when 5 came
        assert fast(torch.linspace(0, 1, 2 * rows).reshape(rows, 2)).shape == (rows, 2)
    assert [hw.stages.captured.inputs[0].shape[0] for hw in made] == [2, 3, 4, 5, 3]


def test_options_reach_the_compiler(made: list[CompiledModule]) -> None:
    inputs = mlp_inputs()
    big = tuple(8 * t for t in (inputs[0],)), {"x": 8 * inputs[1]["x"]}
    samples = [inputs, (big[0][0], big[1])]
    model = MLP().eval()
    options = {"precision": {"layers.1": "fixed8", "*": "fixed16"}, "calibration": samples, "multipliers": 16}
    compiled(model, options=options)(*inputs)
    other = torchcalyx.compile(model, inputs, **options)
    assert made[0].stages.typed == other.stages.typed
    assert made[0].futil == other.futil != torchcalyx.compile(model, inputs).futil


def test_sizes_marked_dynamic_and_arguments_of_any_class(made: list[CompiledModule]) -> None:
    x = torch.randn(5, 2)
    torch._dynamo.mark_dynamic(x, 0)
    found = compiled(lambda box: box.value * 2 + 1)(SimpleNamespace(value=x))
    torch.testing.assert_close(found, x * 2 + 1, atol=0.01, rtol=0)
    assert [i.path for i in made[0].stages.captured.inputs] == ["box_value"]


def test_compiled_code_does_not_keep_the_model_alive(made: list[CompiledModule]) -> None:
    model = MLP().eval()
    fast = compiled(model)
    fast(*mlp_inputs())
    alive = weakref.ref(model)
    del model, fast
    torch._dynamo.reset()
    gc.collect()
    assert alive() is None


def test_options_object_is_accepted(made: list[CompiledModule]) -> None:
    compiled(Inner().eval(), options=torchcalyx.Options(precision="fixed8"))(torch.tensor([1.0, 0.5]))
    assert made[0].stages.selection.inputs[0].fmt.width == 8


def test_calibration_that_lacks_an_argument_is_named() -> None:
    text = refusal(MLP().eval(), *mlp_inputs(), options={"calibration": [(torch.ones(4),)]})
    assert "InputError: calibration input 0 has no value for argument \"batch['x']\"" in text


def test_unknown_option_lists_the_known() -> None:
    text = refusal(Inner().eval(), torch.ones(2), options={"precison": "fixed8"})
    assert (
        "OptionsError: unknown option 'precison' (did you mean 'precision'?); known options: precision, "
        in text
    )
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(Inner().eval(), options={"lanes": 0})(torch.ones(2))
    assert isinstance(caught.value.inner_exception, OptionsError)


def test_mode_is_refused_by_name() -> None:
    text = refusal(Inner().eval(), torch.ones(2), mode="max-autotune")
    assert "OptionsError: mode='max-autotune': torchcalyx has no modes" in text and "known options: " in text


def test_dynamic_shapes_are_refused() -> None:
    text = refusal(MLP().eval(), *mlp_inputs(3), dynamic=True)
    assert "CaptureError: dynamic=True: hardware has fixed shapes; pass dynamic=False" in text


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad])
def test_training_mode_is_refused_until_eval(context: Any, made: list[CompiledModule]) -> None:
    model, inputs = MLP(), mlp_inputs()
    fast = compiled(model)
    with context():
        with pytest.raises(
            BackendCompilerFailed, match="CaptureError: module MLP is in training mode.*model.eval"
        ):
            fast(*inputs)
        model.eval()
        assert fast(*inputs)["rows"] == 2
        model.train()  # nothing that runs reads the flag, yet a trained model must not lose its gradients
        with pytest.raises(BackendCompilerFailed, match="module MLP is in training mode"):
            fast(*inputs)
    assert len(made) == 1


def test_one_part_in_training_mode_is_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).eval()
    model[1].train()
    assert "module '1' of Sequential is in training mode" in refusal(model, torch.ones(2, 4))


def test_dropout_function_is_refused_at_its_line() -> None:
    with pytest.raises(CaptureError, match=r"dropout in training mode: aten.dropout .*test_backend.py:"):
        compiled(lambda x: F.dropout(x, 0.5))(torch.ones(2, 4))


def test_gradients_of_inputs_and_free_weights_are_refused(made: list[CompiledModule]) -> None:
    x, weight = torch.tensor([1.0, 2.0], requires_grad=True), nn.Parameter(torch.ones(2))
    assert "tensor 'x' requires a gradient" in refusal(Inner().eval(), x)
    assert "tensor 'weight' requires a gradient" in refusal(lambda a: a * weight, torch.ones(2))
    with torch.no_grad():
        assert compiled(Inner().eval())(x).tolist() == [2.0, 4.0]


def test_data_dependent_branch_is_refused() -> None:
    line = next(i for i, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "if y.sum() > 0" in t)
    text = refusal(Branching().eval(), torch.ones(2))
    assert "CaptureError: torch.compile captured only a part of the model: graph break at" in text
    assert f"test_backend.py:{line}" in text and "fullgraph=True" in text
    with pytest.raises(Exception, match="(?i)data-dependent"):
        compiled(Branching().eval(), fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize(
    ("make", "shape", "text"),
    [
        (Recurrent, (1, 3, 4), "torch._dynamo.config.allow_rnn"),
        (CallsFromALoop, (1, 4), "was not captured, only what it calls"),
    ],
)
def test_what_is_left_after_a_break_is_refused(make: Callable[[], nn.Module], shape: Any, text: str) -> None:
    with torch.no_grad():
        found = refusal(make().eval(), torch.ones(shape))
    assert "captured only a part of the model" in found and text in found


def test_forward_hooks_are_refused() -> None:
    model = Inner().eval()
    model.register_forward_hook(lambda module, inputs, output: output + 1)
    assert "a module has forward hooks" in refusal(model, torch.ones(2))


def test_mutated_inputs_and_state_are_refused() -> None:
    class Counting(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x * self.count

    x, model = torch.ones(2), Counting().eval()
    with pytest.raises(CaptureError, match="input 'x' is mutated in place"):
        compiled(lambda x: x.mul_(2))(x)
    with pytest.raises(CaptureError, match="state: buffer 'count' is mutated"):
        compiled(model)(x)
    assert x.tolist() == [1.0, 1.0] and model.count.tolist() == [0.0, 0.0]


def test_unsupported_operations_raise_the_compilers_own_error() -> None:
    with pytest.raises(UnsupportedOpError, match=r"test_backend\.py:"):
        compiled(lambda x: torch.linalg.svdvals(x))(torch.ones(4, 4))


def test_a_value_the_hardware_cannot_hold_raises_inputerror(made: list[CompiledModule]) -> None:
    with pytest.raises(InputError, match="argument x is NaN"):
        fast = compiled(Inner().eval())
        fast(torch.tensor([0.0, 1.0]))
        fast(torch.tensor([0.0, float("nan")]))


def test_outside_of_dynamo_a_graph_module_is_taken_as_it_is(made: list[CompiledModule]) -> None:
    model = torch.fx.symbolic_trace(nn.Linear(4, 2).eval())
    x = torch.randn(3, 4)
    found = torchcalyx_backend(model, [x])(x)
    torch.testing.assert_close(found[0], model(x).detach(), atol=0.01, rtol=0)


def entry_point() -> EntryPoint:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    [(name, value)] = groups["torch_dynamo_backends"].items()
    return EntryPoint(name, value, "torch_dynamo_backends")


def test_entry_point_is_the_backend() -> None:
    assert entry_point().name == "torchcalyx"
    assert entry_point().load() is torchcalyx_backend


def test_installed_backend_is_listed_and_found_by_name(tmp_path: Path) -> None:
    info = tmp_path / "torchcalyx-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchcalyx\nVersion: 0\n")
    point = entry_point()
    (info / "entry_points.txt").write_text(f"[{point.group}]\n{point.name} = {point.value}\n")
    code = (
        "import sys, torch, torch._dynamo as d; assert 'torchcalyx' in d.list_backends(); "
        "assert 'torchcalyx.backend' not in sys.modules; torch.compile(abs, backend='torchcalyx'); "
        "assert 'torchcalyx.backend' in sys.modules"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, re.sub(r"\s+", " ", done.stderr)
