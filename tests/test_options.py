"""Options: validation, unknown names, and for every field a test that shows that it matters."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.building.view import GraphView
from torchcalyx.errors import InputError, OptionsError
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed, integer
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.options import Options, resolve_precision

KNOWN = [f.name for f in dataclasses.fields(Options)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"precision": "fixed"},
            "precision 'fixed' is not one of fixed8, fixed16, fixed32, auto, a NumberFormat, a text such as "
            "'fixed16.8', or a mapping from module paths to these",
        ),
        ({"precision": integer(8)}, "precision int8 is not a signed fixed-point format"),
        ({"precision": "ufixed8.4"}, "precision ufixed8.4 is not a signed fixed-point format"),
        ({"precision": 16}, "precision 16 is not one of"),
        ({"precision": {"layer.*": "float99"}}, "precision 'float99' is not one of"),
        (
            {"precision": "fixed16.81"},
            "precision fixed16.81 has its binary point more than 64 places outside its 16 bits: give -64 to "
            "80 fraction bits, or fixed8, fixed16 or fixed32, whose binary points calibration chooses",
        ),
        (
            {"precision": {"*": fixed(8, -65)}},
            "precision fixed8.-65 has its binary point more than 64 places",
        ),
        ({"multipliers": 0}, "multipliers must be a whole number from 1 to 65536, not 0"),
        ({"multipliers": True}, "multipliers must be a whole number from 1 to 65536, not True"),
        ({"multipliers": 2.0}, "multipliers must be a whole number from 1 to 65536, not 2.0"),
        ({"lanes": 0}, "lanes must be a whole number from 1 to 1024, not 0"),
        (
            {"lanes": 8, "multipliers": 4},
            "lanes=8 exceeds multipliers=4: an elementwise product needs one multiplier a lane; raise "
            "multipliers or lower lanes",
        ),
        ({"headroom": -1}, "headroom must be a whole number from 0 to 16, not -1"),
        ({"headroom": 17}, "headroom must be a whole number from 0 to 16, not 17"),
        ({"headroom": 1.0}, "headroom must be a whole number from 0 to 16, not 1.0"),
        (
            {"on_saturation": "raise"},
            "on_saturation must be one of 'warn', 'error', 'ignore', not 'raise'",
        ),
        ({"schedule": "throughput"}, "schedule must be one of 'latency', not 'throughput'"),
        ({"share": 1}, "share must be True or False, not 1"),
        ({"simulator": "modelsim"}, "simulator must be one of 'verilator', 'icarus', not 'modelsim'"),
        ({"unsupported": "ignore"}, "unsupported must be one of 'error', not 'ignore'"),
        ({"tolerance": 0}, "tolerance must be a number above 0, not 0"),
        ({"tolerance": float("nan")}, "tolerance must be a number above 0, not nan"),
        ({"tolerance": "1e-3"}, "tolerance must be a number above 0, not '1e-3'"),
        ({"on_inaccurate": "raise"}, "on_inaccurate must be one of 'warn', 'error', 'ignore', not 'raise'"),
        ({"multiplier_stages": 4}, "multiplier_stages must be a whole number from 1 to 3, not 4"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_values_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=f"^{re.escape(message)}"):
        Options(**fields)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(OptionsError) as caught:
        Options.of(None, {"precison": "fixed8"})
    expected = f"unknown option 'precison' (did you mean 'precision'?); known options: {', '.join(KNOWN)}"
    assert str(caught.value) == expected
    with pytest.raises(OptionsError) as caught:
        Options.of({"zzz": 1}, {})
    assert str(caught.value) == f"unknown option 'zzz'; known options: {', '.join(KNOWN)}"


def test_options_must_be_options_or_a_mapping() -> None:
    with pytest.raises(OptionsError, match="^options must be an Options or a mapping, not list$"):
        Options.of([("lanes", 2)], {})  # type: ignore[arg-type]


def test_overrides_win_over_options() -> None:
    base = Options(precision="fixed8", lanes=4)
    assert Options.of(base, {"lanes": 2}) == Options(precision="fixed8", lanes=2)
    assert Options.of({"precision": "fixed8", "lanes": 4}, {"lanes": 2}) == Options(
        precision="fixed8", lanes=2
    )
    assert Options.of(None, {}) == Options()
    assert base.lanes == 4


@pytest.mark.parametrize(
    ("multipliers", "lanes"), [(1, 1), (3, 1), (4, 2), (15, 2), (16, 4), (64, 8), (255, 8), (256, 16)]
)
def test_lanes_follow_from_the_multipliers(multipliers: int, lanes: int) -> None:
    assert Options(multipliers=multipliers).lane_count == lanes
    assert Options(multipliers=multipliers, lanes=1).lane_count == 1


@pytest.mark.parametrize(
    ("precision", "resolved"),
    [
        ("fixed8", 8),
        ("fixed32", 32),
        ("auto", 16),
        ("fixed16.8", fixed(16, 8)),
        ("fixed16.80", fixed(16, 80)),
        ("fixed16.-64", fixed(16, -64)),
        (fixed(12, 3), fixed(12, 3)),
    ],
    ids=str,
)
def test_precisions(precision: Any, resolved: int | NumberFormat) -> None:
    assert resolve_precision(precision) == resolved


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().lanes = 3  # type: ignore[misc]


# ---- each field shows in the compiled program ------------------------------------------------------


class Layers(nn.Module):
    """Named layers; a chain long enough that memories and kernels can be shared."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        for _ in range(3):
            x = torch.relu(self.last(x))
        return x


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def build(**options: Any) -> torchcalyx.CompiledModule:
    return torchcalyx.compile(Layers().eval(), X, **{"multipliers": 4, **options})


@functools.cache
def default() -> torchcalyx.CompiledModule:
    return build()


def float_formats(hw: torchcalyx.CompiledModule, path: str) -> set[str]:
    """Formats of the float values that the module at `path` computes and that are stored."""
    typed = hw.stages.typed
    return {
        str(typed.formats[n.name])
        for n in typed.graph.nodes
        if n.source.module_path == path and n.op != "constant" and n.name in typed.stored
    }


def test_precision_sets_the_width() -> None:
    widths = {
        name: {typed.formats[n].width for n in typed.stored}
        for name in ("fixed8", "fixed16", "fixed32")
        for typed in [build(precision=name).stages.typed]
    }
    assert widths == {"fixed8": {8}, "fixed16": {16}, "fixed32": {32}}
    assert default().stages.typed == build(precision="fixed16").stages.typed


def test_precision_may_be_one_format() -> None:
    for precision in (fixed(20, 9), "fixed20.9"):
        assert set(build(precision=precision).stages.typed.formats.values()) == {fixed(20, 9)}


def test_precision_may_differ_by_module() -> None:
    hw = build(precision={"first": "fixed12.6", "la*": "fixed8"})
    assert float_formats(hw, "first") == {"fixed12.6"}
    assert all(f.startswith("fixed8.") for f in float_formats(hw, "last"))
    with pytest.raises(OptionsError, match="^precision patterns 'middle' match no module; .*'first'.*'last'"):
        build(precision={"middle": "fixed8"})


class Constant(nn.Module):
    """Computes nothing: its graph has no nodes, so nothing has a module path."""

    def forward(self, x: Tensor) -> int:
        return 3


class Nothing(nn.Module):
    def forward(self) -> int:
        return 3


@pytest.mark.parametrize("precision", ["fixed16", "fixed16.8", {"*": "fixed8"}, {"": "fixed8"}], ids=str)
def test_a_precision_for_everything_fits_a_model_without_module_paths(precision: Any) -> None:
    assert torchcalyx.compile(Nothing().eval(), (), precision=precision).emulate() == 3
    assert torchcalyx.compile(Constant().eval(), (X,), precision=precision).emulate(X) == 3
    with pytest.raises(OptionsError, match="^precision patterns 'layer' match no module; .*: none$"):
        torchcalyx.compile(Nothing().eval(), (), precision={"layer": "fixed8"})


@pytest.mark.filterwarnings("ignore::torchcalyx.AccuracyWarning")  # three bits less of eight
@pytest.mark.parametrize(("precision", "usual"), [("fixed8", 0), ("fixed16", 1), ("fixed32", 1)])
def test_headroom_moves_the_binary_points_of_what_is_calibrated(precision: str, usual: int) -> None:
    def fracs(op: str, **options: Any) -> list[int]:
        typed = build(precision=precision, **options).stages.typed
        return [
            typed.formats[n.name].frac
            for n in typed.graph.nodes
            if (n.op == "constant") == (op == "constant")
        ]

    for headroom in (0, 1, 3):
        moved = fracs("computed", headroom=headroom)
        assert moved == [f + usual - headroom for f in fracs("computed")]
        assert fracs("constant", headroom=headroom) == fracs("constant")  # parameters are known
    assert fracs("computed", headroom=usual) == fracs("computed")


def test_on_saturation_decides_what_a_call_does() -> None:
    assert torch.isfinite(build(on_saturation="ignore").emulate(100 * X)).all()
    with pytest.warns(torchcalyx.SaturationWarning, match="values of 1 input"):
        build().emulate(100 * X)
    with pytest.raises(torchcalyx.SaturationError, match="^values of 1 input"):
        build(on_saturation="error").emulate(100 * X)


def test_calibration_chooses_the_binary_points() -> None:
    def input_format(**options: Any) -> NumberFormat:
        return build(**options).stages.selection.inputs[0].fmt

    small, large = input_format(), input_format(calibration=[(X,), (100 * X,)])
    assert small.width == large.width
    assert small.frac - large.frac == 6  # 100 is below 2**7, 1 is below 2**1
    assert input_format(calibration=[X, 100 * X]) == large  # a tensor counts as a tuple of one
    assert input_format(calibration=((k * X,) for k in (1, 100))) == large


def test_calibration_may_be_an_iterator_even_when_compilation_comes_later() -> None:
    hw = torchcalyx.compile(Layers().eval(), calibration=iter([(100 * X,)]), multipliers=4)
    with pytest.raises(torchcalyx.CaptureError):
        hw.emulate(torch.zeros(2, 5))
    hw.emulate(X)
    assert hw.stages.selection.inputs[0].fmt.frac < default().stages.selection.inputs[0].fmt.frac


@pytest.mark.parametrize(
    ("calibration", "error", "message"),
    [
        (
            [],
            OptionsError,
            "calibration is empty: give at least one tuple of inputs (an iterator that was used up before "
            "is empty too: pass a list)",
        ),
        (
            [(X,), (X[0],)],
            InputError,
            "calibration input 1: argument x has shape (4,), the model was compiled",
        ),
        ([3], InputError, "calibration input 0: inputs must be a tuple with one entry for each argument"),
        ([(X / 0,)], InputError, "calibration input 0 makes"),
    ],
    ids=["empty", "shape", "kind", "infinite"],
)
def test_bad_calibration_sets(calibration: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        build(calibration=calibration)


def test_multipliers_buy_cycles() -> None:
    few, many = build(multipliers=1), build(multipliers=16)
    assert few.report().multipliers <= 1 and many.report().multipliers <= 16
    assert many.cycles < few.cycles


def test_lanes_set_the_words_of_memory() -> None:
    for lanes in (1, 2, 4):
        design = build(lanes=lanes).stages.design
        assert {m.lanes for m in design.memories if m.role != "weight"} == {lanes}


def test_multiplier_stages_reach_the_engine_and_the_cycles() -> None:
    cycles = []
    for stages in (1, 2, 3):
        hw = build(multiplier_stages=stages)
        engine = hw.stages.plan.engine
        assert engine is not None and engine.stages == stages
        cycles.append(hw.cycles)
    assert cycles[0] < cycles[1] < cycles[2]


def test_share_saves_memories_and_kernels() -> None:
    shared, own = (build(share=share, precision="fixed16.8") for share in (True, False))
    assert len(shared.stages.design.of_role("temp")) < len(own.stages.design.of_role("temp"))
    assert len(shared.stages.plan.instances) < len(own.stages.plan.instances)
    assert len(own.stages.plan.instances) == len(own.stages.selection.calls)
    assert torch.equal(shared.emulate(X), own.emulate(X))


@pytest.mark.needs("calyx", "verilator", "icarus")
def test_simulator_decides_who_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for chosen, other in (("verilator", "icarus"), ("icarus", "verilator")):
        with monkeypatch.context() as patch:
            patch.setattr(f"torchcalyx.simulate.build_{other}", None)  # would fail when called
            results.append(build(simulator=chosen).simulate(X))
    assert torch.equal(results[0].outputs, results[1].outputs)
    assert results[0].cycles == results[1].cycles


def test_rules_of_the_user_come_first() -> None:
    asked: list[str] = []

    def apply(_: GraphView, node: Node) -> Match | Reject:
        asked.append(node.op)
        return Reject("only asks")

    hw = build(rules=[Rule("curious", apply)])
    assert asked and "refused: curious: only asks" in hw.explain()
    first = hw.explain().split("refused: ")[1]
    assert first.startswith("curious: only asks")
    assert hw.futil == default().futil


def test_dump_writes_every_stage(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dump"
    hw = build(dump=str(folder))
    texts = {p.name: p.read_text() for p in folder.iterdir()}
    assert sorted(texts) == [
        *(
            "10-captured.txt",
            "20-normal.txt",
            "30-typed.txt",
            "40-selection.txt",
            "45-accuracy.txt",
            "50-plan.txt",
            "60-design.futil",
        )
    ]
    assert texts["60-design.futil"].strip() == hw.futil.strip()
    assert texts["20-normal.txt"].startswith("%") and "linear(" in texts["20-normal.txt"]
    assert "# fixed16." in texts["30-typed.txt"]
    assert texts["50-plan.txt"].startswith(f"{hw.cycles} cycles")
    build(dump=folder, precision="fixed8")
    assert "# fixed8." in (folder / "30-typed.txt").read_text()


def test_dump_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionsError, match=r"^dump='.*file': 10-captured.txt cannot be written: "):
        build(dump=str(tmp_path / "file"))


@pytest.mark.parametrize("field", ["schedule", "unsupported"])
def test_fields_with_one_value_so_far_change_nothing(field: str) -> None:
    value = getattr(Options(), field)
    assert build(**{field: value}).futil == default().futil


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("calibration", 5, "calibration must be an iterable"),
        ("rules", None, "rules must be a sequence"),
        ("rules", (len,), "rules takes torchcalyx.match.Rule values, not builtin_function_or_method"),
        ("dump", 5, "dump must be a directory"),
        ("precision", {5: "fixed8"}, "precision maps module path patterns"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(field: str, value: object, text: str) -> None:
    with pytest.raises(OptionsError, match=text):
        Options.of(None, {field: value})
