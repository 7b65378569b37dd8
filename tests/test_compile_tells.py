"""Compilation checks its own numbers on the calibration inputs, widens what misses the tolerance, and tells
what it cannot mend. The reference is torch in float64.
"""

from __future__ import annotations

import copy
import json
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torchcalyx
from torchcalyx.accuracy.disturbed import disturbed, exact_values
from torchcalyx.accuracy.rounding import rounding
from torchcalyx.errors import AccuracyError, AccuracyWarning
from torchcalyx.kernels.arith.numerics import fixed
from torchcalyx.kernels.contract import KernelSpec
from torchcalyx.options import Options
from torchcalyx.quantize import quantize
from torchcalyx.results.accuracy import Accuracy

DEFAULT = 2.0**-5
OTHER_WARNING = pytest.mark.filterwarnings("ignore:.*do not fit the formats")  # of single tensors


def example(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def perceptron(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()


class SmallCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.linear = nn.Linear(8 * 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        scores: Tensor = self.linear(torch.tanh(self.conv2(x)).flatten(1))
        return scores


class Block(nn.Module):
    """Attention and a feed-forward part around two layer norms."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v)
        y: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return y


class Cancelling(nn.Module):
    """The small difference of two sums of 1e13: no 32 bits hold both."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 2, bias=False), nn.Linear(2, 1, bias=False)
        with torch.no_grad():
            self.up.weight.fill_(1e13)
            self.down.weight.copy_(torch.tensor([[1.0, -1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(
            self.up(x) + x[:, :2]  # to blame
        )
        return y


CANCELLING = (Cancelling().eval(), torch.tensor([[0.25, -0.75, 1.0, 0.5]]))


def worst_error(module: nn.Module, hw: torchcalyx.CompiledModule, inputs: Sequence[Tensor]) -> float:
    """Greatest error of the software model over all inputs, relative to torch's largest float64 output."""
    with torch.no_grad():
        wanted = [copy.deepcopy(module).double()(x.double()) for x in inputs]
    found = [hw.emulate(x).double() for x in inputs]
    errors = [(w - f).abs().max().item() for w, f in zip(wanted, found, strict=True)]
    return max(errors) / max(w.abs().max().item() for w in wanted)


def accuracy_of(hw: torchcalyx.CompiledModule) -> Accuracy:
    accuracy = hw.stages.accuracy
    assert accuracy is not None
    return accuracy


def source_line(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {marker}"))


def test_the_measured_error_is_that_of_torch_in_float64() -> None:
    module, inputs = SmallCnn().eval(), [example(1, 1, 12, 12, seed=s) for s in range(3)]
    hw = torchcalyx.compile(module, inputs[0], calibration=inputs)
    accuracy = accuracy_of(hw)
    (output,) = accuracy.outputs
    assert (accuracy.inputs, accuracy.calibrated, accuracy.trials, accuracy.tensors) == (3, 3, 1, ())
    assert output.error / output.largest == pytest.approx(worst_error(module, hw, inputs), rel=1e-3)
    assert output.name == "output" and output.held and output.firm and not output.counted


def test_what_misses_the_tolerance_is_widened_and_nothing_else() -> None:
    class Fine(nn.Module):
        """Weights of unlike size in front of a difference: eight bits of `coarse` do not do."""

        def __init__(self) -> None:
            super().__init__()
            self.coarse, self.exact = nn.Linear(8, 4, bias=False), nn.Linear(4, 4, bias=False)
            with torch.no_grad():
                self.exact.weight.copy_(torch.eye(4))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = self.coarse(x)
            return (y[:, :2] - y[:, 2:]) * 0.25, self.exact(x[:, :4])

    torch.manual_seed(1)
    module = Fine().eval()
    with torch.no_grad():
        module.coarse.weight[2:] = module.coarse.weight[:2] + 0.02 * torch.randn(2, 8)
    x = example(4, 8)
    hw = torchcalyx.compile(module, x, precision="fixed8")
    accuracy = accuracy_of(hw)
    with torch.no_grad():
        wanted = copy.deepcopy(module).double()(x.double())
    for want, have in zip(wanted, hw.emulate(x), strict=True):
        assert (want - have).abs().max() <= DEFAULT * want.abs().max()
    assert {t.asked for t in accuracy.tensors} == {8} and all(8 < t.bits <= 32 for t in accuracy.tensors)
    titles = {t.title for t in accuracy.tensors}
    assert "constant 'coarse.weight'" in titles and "constant 'exact.weight'" not in titles
    widths = {name: fmt.width for name, fmt in hw.stages.typed.formats.items()}
    wider = {t.name for t in accuracy.tensors}
    stored = hw.stages.typed.stored & set(widths)
    assert all((widths[name] > 8) == (name in wider) for name in stored)
    before, after = accuracy.tensor_bits
    assert after - before == sum(t.more_bits for t in accuracy.tensors) > 0
    unchecked = torchcalyx.compile(module, x, precision="fixed8", tolerance=math.inf)
    assert unchecked.stages.accuracy is None
    assert set(widths[n] for n in stored - wider) == {8}
    assert accuracy.register_bits == (registers(unchecked), registers(hw))
    memory = tuple(sum(m.report().memory_bits.values()) for m in (unchecked, hw))
    assert accuracy.memory_bits == memory


def registers(hw: torchcalyx.CompiledModule) -> int:
    specs: set[KernelSpec] = {call.spec for call in hw.stages.selection.calls}
    return sum(spec.cost().register_bits for spec in specs)


@pytest.mark.parametrize("precision", ["fixed8", "auto"])
@pytest.mark.parametrize(
    ("make", "shape"), [(SmallCnn, (1, 1, 12, 12)), (Block, (1, 8, 16))], ids=["cnn", "block"]
)
def test_a_tolerance_holds_on_the_calibration_inputs(
    make: type[nn.Module], shape: tuple[int, ...], precision: str
) -> None:
    torch.manual_seed(0)
    module, inputs = make().eval(), [3 * example(*shape, seed=s) for s in range(5)]
    hw = torchcalyx.compile(module, inputs[0], calibration=inputs, precision=precision, tolerance=1e-3)
    assert worst_error(module, hw, inputs) <= 1e-3
    assert accuracy_of(hw).held and accuracy_of(hw).tensors
    assert min(t.bits for t in accuracy_of(hw).tensors) >= 4


def test_a_tolerance_that_already_holds_changes_nothing() -> None:
    x = example(3, 16)
    plain = torchcalyx.compile(perceptron(), x, tolerance=math.inf)
    checked = torchcalyx.compile(perceptron(), x)
    assert checked.stages.typed == plain.stages.typed and checked.futil == plain.futil


def test_auto_takes_few_bits_and_all_of_them_matter() -> None:
    module, inputs = perceptron(), [example(1, 16, seed=s) for s in range(8)]
    hw = torchcalyx.compile(module, inputs[0], calibration=inputs, precision="auto")
    accuracy = accuracy_of(hw)
    assert worst_error(module, hw, inputs) <= DEFAULT
    before, after = accuracy.tensor_bits
    assert after < 0.55 * before, "fixed16 took as much"
    assert {t.asked for t in accuracy.tensors} == {None} and len({t.bits for t in accuracy.tensors}) > 1
    narrower = {t.name: t.bits - 2 for t in accuracy.tensors}
    options = {"precision": "fixed8", "tolerance": math.inf, "calibration": inputs}
    typed = torchcalyx.compile(module, inputs[0], **options).stages
    less = quantize(typed.graph, [(x.numpy(),) for x in inputs], Options(**options), narrower)
    edits = {n: less.formats[n] for n in narrower}
    worst, largest = 0.0, 0.0
    for x in inputs:
        values = exact_values(typed.graph, (x.numpy(),))
        (found,) = disturbed(typed.graph, values, {n: rounding(f) for n, f in edits.items()})
        exact = values[typed.graph.outputs[0]]
        worst, largest = max(worst, abs(found - exact).max()), max(largest, abs(exact).max())
    assert worst > DEFAULT * largest, "two bits less everywhere would have done as well"


def test_auto_may_be_the_precision_of_one_module() -> None:
    module, x = perceptron(), example(4, 16)
    hw = torchcalyx.compile(module, x, precision={"2": "auto", "*": "fixed16"})
    titles = {t.title for t in accuracy_of(hw).tensors}
    assert "constant '2.weight'" in titles and "constant '0.weight'" not in titles
    assert "constant '2.bias'" not in titles, "a bias is as fine as the sums it is added to"
    formats = hw.stages.typed.formats
    by_path = {hw.stages.graph.parameter_names.get(n, n): f.width for n, f in formats.items()}
    assert by_path["0.weight"] == 16 and by_path["2.weight"] < 16


def test_what_32_bits_miss_is_told_in_full() -> None:
    module, x = CANCELLING
    with pytest.warns(AccuracyWarning) as caught:
        hw = torchcalyx.compile(module, x)
    (warning,) = caught
    place = f"{__file__}:{source_line('to blame')}"
    assert str(warning.message) == (
        "the tolerance of 0.0312 is missed by 1 of 1 outputs on 1 calibration input:\n"
        "  output: error 1 with values up to 1 (100 %)\n"
        "first to blame, in the order of the model:\n"
        f"  add 'add' at {place}, fixed16.-30: alone 32 times the error allowed\n"
        "what to do: rescale or reorder what these layers compute, since 32 bits, the most, miss as well, "
        "or leave rare extreme inputs out of calibration; on_inaccurate='ignore' silences this, 'error' "
        "refuses to compile"
    )
    assert Path(warning.filename) == Path(__file__)
    with torch.no_grad():
        wanted = copy.deepcopy(module).double()(x.double())
    assert wanted.item() == 1.0 and hw.emulate(x).item() == 0.0
    (output,) = accuracy_of(hw).outputs
    assert (output.error, output.largest, output.held) == (1.0, 1.0, False)
    assert "MISSED" in str(hw.report())


def test_what_32_bits_miss_is_an_error_on_demand() -> None:
    module, x = CANCELLING
    with pytest.raises(AccuracyError, match=r"^the tolerance of 0.0312 is missed by 1 of 1 outputs"):
        torchcalyx.compile(module, x, precision="fixed8", on_inaccurate="error")
    assert issubclass(AccuracyError, torchcalyx.TorchCalyxError)


def test_ignore_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hw = torchcalyx.compile(*CANCELLING, on_inaccurate="ignore")
        torchcalyx.compile(perceptron(), example(2, 16), precision="fixed4.2", on_inaccurate="ignore")
    assert not accuracy_of(hw).held


def test_formats_of_the_user_are_not_widened() -> None:
    x = example(2, 16)
    with pytest.warns(AccuracyWarning) as caught:
        hw = torchcalyx.compile(perceptron(), x, precision=fixed(5, 3), tolerance=1e-3)
    texts = [str(w.message) for w in caught if "tolerance" in str(w.message)]
    assert len(texts) == 1
    assert re.search(
        r"constant '0.weight', fixed5.3 as given: alone [\d.]+ times the error allowed", texts[0]
    )
    assert (
        "what to do: choose a wider precision (fixed16, fixed32 or auto) in place of the formats given"
        in texts[0]
    )
    assert "rescale" not in texts[0]
    stored = hw.stages.typed.stored
    assert {f for n, f in hw.stages.typed.formats.items() if n in stored} == {fixed(5, 3)}
    assert accuracy_of(hw).tensors == ()


@OTHER_WARNING
def test_the_tolerance_that_the_message_names_is_enough() -> None:
    x = example(2, 16)
    with pytest.warns(AccuracyWarning, match="tolerance of") as caught:
        torchcalyx.compile(perceptron(), x, precision=fixed(8, 5), tolerance=1e-5)
    found = re.search(r"allow tolerance=([\d.]+)", str(caught[-1].message))
    assert found
    allowed = float(found[1])
    hw = torchcalyx.compile(perceptron(), x, precision=fixed(8, 5), tolerance=allowed)
    assert worst_error(perceptron(), hw, [x]) <= allowed


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).argmax(-1)


@OTHER_WARNING
def test_integer_outputs_are_told_and_are_no_error_without_a_tolerance() -> None:
    module, x = Chosen().eval(), example(64, 16).clamp(-3.5, 3.5)
    options: dict[str, Any] = {"precision": "fixed6.3", "on_inaccurate": "error"}
    with pytest.warns(AccuracyWarning, match=r"output: [\d.]+ % of the elements differ"):
        hw = torchcalyx.compile(module, x, **options)
    flipped = (hw.emulate(x) != copy.deepcopy(module).double()(x.double())).double().mean().item()
    (output,) = accuracy_of(hw).outputs
    assert output.counted and output.error == pytest.approx(flipped) and flipped > DEFAULT
    assert "(integers: told, not judged)" in str(hw.report())
    with pytest.raises(AccuracyError, match="of the elements differ"):
        torchcalyx.compile(module, x, tolerance=0.01, **options)


def test_widths_grow_until_choices_are_right() -> None:
    module, x = Chosen().eval(), example(512, 16)
    hw = torchcalyx.compile(module, x, precision="fixed8", tolerance=1e-3)
    assert torch.equal(hw.emulate(x), copy.deepcopy(module).double()(x.double()))
    assert accuracy_of(hw).tensors


def test_ties_of_torch_itself_are_nobodys_fault() -> None:
    """Equal scores up to float64's own rounding: no width decides which is the greatest."""

    class Tied(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            third = x / 3
            return torch.stack((third * 3, x), -1).argmax(-1)

    x = example(256)
    hw = torchcalyx.compile(Tied().eval(), x, tolerance=1e-3, on_inaccurate="error")
    assert accuracy_of(hw).held


def test_the_report_shows_tensors_and_costs_in_all_its_forms() -> None:
    module, inputs = perceptron(), [example(1, 16, seed=s) for s in range(4)]
    hw = torchcalyx.compile(module, inputs[0], calibration=inputs, precision="fixed8", tolerance=1e-3)
    report, accuracy = hw.report(), accuracy_of(hw)
    text = str(report)
    first = accuracy.tensors[0]
    assert "accuracy:    tolerance 0.001 of each output's largest magnitude, checked on 4 of 4" in text
    assert re.search(
        r"accuracy: +\d+ tensors have widths chosen for this: tensors .* -> .*, memory .* -> .*, registers ",
        text,
    )
    assert re.search(rf"{re.escape(first.title)} +8 +{first.bits} +{re.escape(first.format)} ", text)
    values = json.loads(report.to_json())["accuracy"]
    assert values["tolerance"] == 1e-3 and values["held"] is True
    assert values["tensors"][0]["title"] == first.title
    assert values["tensors"][0]["memory_bits"] == first.elements * first.bits
    assert values["tensor_bits"] == list(accuracy.tensor_bits)
    assert values["register_bits"] == list(accuracy.register_bits)
    assert values["memory_bits"] == list(accuracy.memory_bits)
    html = report.to_html()
    assert html.count("<dt>Accuracy</dt>") == html.count("<dt>Registers</dt>") == 1
    assert "<h2>Widths</h2>" in html and html.count("</tr>") == 2 + len(report.calls) + len(accuracy.tensors)


def test_the_dump_has_the_check_and_the_formats_that_came_of_it(tmp_path: Path) -> None:
    x = example(2, 16)
    hw = torchcalyx.compile(perceptron(), x, precision="fixed8", tolerance=1e-3, dump=tmp_path)
    text = (tmp_path / "45-accuracy.txt").read_text()
    assert text.startswith("tolerance 0.001 of each output's largest magnitude, checked on 1 of 1")
    assert str(hw.stages.typed) in text and str(hw.stages.selection) in text
    assert str(hw.stages.typed) != (tmp_path / "30-typed.txt").read_text().rstrip()


def test_a_large_calibration_set_is_checked_on_some_of_it() -> None:
    inputs = [example(1, 16, seed=s) for s in range(40)]
    hw = torchcalyx.compile(perceptron(), inputs[0], calibration=inputs)
    assert (accuracy_of(hw).inputs, accuracy_of(hw).calibrated) == (16, 40)


@pytest.mark.needs("calyx", "verilator")
@pytest.mark.parametrize("precision", ["auto", "fixed8"])
def test_hardware_of_mixed_widths_equals_its_model(precision: str) -> None:
    torch.manual_seed(0)
    module, inputs = SmallCnn().eval(), [example(1, 1, 12, 12, seed=s) for s in range(3)]
    hw = torchcalyx.compile(module, inputs[0], calibration=inputs, precision=precision, tolerance=4e-3)
    for x, run in zip(inputs, hw.simulate_batch([(x,) for x in inputs]), strict=True):
        assert torch.equal(run.outputs, hw.emulate(x)) and run.cycles == hw.cycles
