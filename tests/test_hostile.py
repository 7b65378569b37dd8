"""No exception of Python, numpy or torch reaches the user: hostile uses work, or are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import torchcalyx
from tests.hostile import arguments, containers, modules, numbers, operations
from tests.hostile.arguments import KeywordOnly, X
from tests.hostile.case import Case, compiled, judge
from tests.hostile.modules import Named
from tests.models import Function, agree
from torchcalyx.capture.containers import pack
from torchcalyx.errors import InputError, OptionsError

CASES = (*arguments.CASES, *containers.CASES, *modules.CASES, *numbers.CASES, *operations.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.name))
def test_right_or_refused_by_name(case: Case) -> None:
    torch.manual_seed(0)
    judge(case)


@pytest.mark.needs("calyx", "calyx-py", "icarus")
@pytest.mark.parametrize("case", [c for c in CASES if c.hardware], ids=lambda case: ascii(case.name))
def test_hardware_equals_the_software_model(case: Case) -> None:
    torch.manual_seed(0)
    hw = compiled(case, case.module())
    hw._options = torchcalyx.Options.of(hw._options, {"simulator": "icarus"})
    run = hw.simulate(*case.given(), **case.keywords())
    model = hw.emulate(*case.given(), **case.keywords())
    found, spec = pytree.tree_flatten(pack(run.outputs))
    wanted, wanted_spec = pytree.tree_flatten(pack(model))
    assert spec == wanted_spec and run.cycles == hw.cycles
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def _by_hand(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x.double() * scale.double()


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_keywords_in_calibration_batches_and_saved_calls(tmp_path: Path) -> None:
    """With keyword arguments each call of a list is a pair of tuple and dict."""
    calls = [((X * k,), {"scale": X[0] / k}) for k in (1.0, 4.0)]
    hw = torchcalyx.compile(
        KeywordOnly().eval(), X, example_keywords=calls[0][1], calibration=calls, simulator="icarus"
    )
    for (args, keywords), run in zip(calls, hw.simulate_batch(calls), strict=True):
        assert (run.outputs - _by_hand(*args, **keywords)).abs().max() <= 81 * 2.0**-10
        assert torch.equal(run.outputs, hw(*args, **keywords))
    assert hw.check(X, scale=X[0]).outputs[0].differing == 0
    manifest = json.loads((hw.save(tmp_path / "saved", calls) / "manifest.json").read_text())
    assert [i["name"] for i in manifest["inputs"]] == ["x", "scale"] and manifest["vectors"] == 2
    with pytest.raises(InputError, match=r"keyword argument\(s\) scale: each call must be a pair"):
        hw.simulate_batch([(X,)])
    with pytest.raises(
        InputError, match=r"compiled for the keyword argument\(s\) scale, and the call gives no"
    ):
        hw.emulate(X)


def test_a_third_position_of_compile_says_where_it_belongs() -> None:
    for options in (torchcalyx.Options(), {"precision": "fixed8"}):
        with pytest.raises(
            OptionsError, match=r"^options have no position: .*options=\.\.\..*example_keywords"
        ):
            torchcalyx.compile(nn.ReLU(), X, options)
    with pytest.raises(InputError, match=r"one tuple, torchcalyx.compile\(module, \(a, b\)\); the Tensor"):
        torchcalyx.compile(nn.Bilinear(4, 4, 2), X, X)
    with pytest.raises(InputError, match="^example_keywords must map names of arguments to values"):
        torchcalyx.compile(KeywordOnly(), X, example_keywords=X)  # type: ignore[arg-type]


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_odd_names_reach_every_file(tmp_path: Path) -> None:
    """The worst names in one model: program, hardware, report, explanation and saved folder."""
    parts = nn.ModuleList(Named(name) for name in ("a'\"b", "a\nb", "名前", "<script>", "\ud800"))
    module = Function(lambda x: sum(part(x) for part in parts))
    module.add_module("parts", parts)
    hw = torchcalyx.compile(module.eval(), X, simulator="icarus")
    assert torch.equal(hw(X), hw.emulate(X))
    assert (hw(X) - module(X)).abs().max() <= module(X).abs().max() * 2.0**-9
    folder = hw.save(tmp_path / "saved")
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in html and "名前" in html
    assert json.loads((folder / "manifest.json").read_text())["vectors"] == 1
    assert json.loads(hw.report().to_json())
    for text in (str(hw.report()), hw.explain()):
        assert r"a\nb" in text and "a\nb" not in text and r"\ud800" in text


def test_precision_finds_odd_names() -> None:
    hw = torchcalyx.compile(Named('a"b').eval(), X, precision={'a"b*': "fixed8"})
    typed = hw.stages.typed
    formats = {str(typed.formats[n]) for n in typed.stored}
    assert {f.split(".")[0] for f in formats} == {"fixed8", "fixed16"}


def test_classes_of_the_user_stay_unknown_to_torch() -> None:
    """Compiling registers nothing for them: a later registration of their own must not fail."""
    torchcalyx.compile(Function(lambda x: containers.Open(x)).eval(), X)
    assert containers.Open not in pytree.SUPPORTED_NODES


@pytest.mark.needs("calyx", "calyx-py", "icarus")
def test_integers_of_64_bits_wrap_as_torchs() -> None:
    big = 2**31 - 1
    x = torch.tensor([[big, -big], [-big - 1, 12]])
    agree(lambda x: (x * x * x, x @ x, (x * x).sum(), x * 2**40, (x**3 // 7) % 5), [x], 0, simulator="icarus")


@pytest.mark.needs("calyx", "calyx-py", "icarus")
@pytest.mark.parametrize("precision", ["fixed16", "fixed32"])
def test_a_cast_beyond_the_integers_ends_in_the_nearest(precision: str) -> None:
    """torch has no answer of its own there."""
    x = X * 1e20
    model = Function(lambda x: x.to(torch.int32)).eval()
    quiet = {"on_inaccurate": "ignore", "on_saturation": "ignore"}
    hw = torchcalyx.compile(model, x, precision=precision, simulator="icarus", **quiet)
    ends = torch.where(x > 0, 2**31 - 1, -(2**31)).to(torch.int32)
    assert torch.equal(hw(x), ends) and torch.equal(hw.emulate(x), ends)
