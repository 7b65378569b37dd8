"""The report and the explanation of a small hand-made program, and the totals of real ones."""

from __future__ import annotations

import dataclasses
import json
from html.parser import HTMLParser

import numpy as np
import pytest

from torchcalyx.design import Design
from torchcalyx.ir.graph import Graph, Node, Source
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, narrowing
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.plan import plan_memory, schedule
from torchcalyx.results.explain import explain
from torchcalyx.results.report import Report, make_report
from torchcalyx.results.tables import bits
from torchcalyx.selection import Buffer, Call, InputBinding, OutputBinding, Row, Selection, ValueBinding

FMT = fixed(16, 8)
SHAPE = (3, 5)
LANES = 2
MUL = Source("aten.mul", "/home/someone/model.py", 12, "scale")


def product(fmt: NumberFormat) -> Expr:
    b = ExprBuilder()
    return b.build(b.quant(b.mul(b.input(fmt), b.input(fmt)), fmt), fmt)


def small_selection() -> Selection:
    """y = copy(x * w): one multiplication the user wrote, one copy the compiler added."""
    layout = row_major(SHAPE, LANES)
    access = whole(SHAPE, layout)
    operand = Operand(FMT, layout, access)
    buffers = (
        Buffer("x", FMT, layout, "input"),
        Buffer("w", FMT, layout, "weight"),
        Buffer("t", FMT, layout, "temp"),
        Buffer("y", FMT, layout, "temp"),
    )
    mul = elementwise(product(FMT), (operand, operand), operand)
    copy = elementwise(narrowing(FMT, FMT), (operand,), operand)
    reason = "the lanes run over another axis"
    calls = (
        Call("k0", mul, ("x", "w"), ("t",), "pointwise", ("mul",), "mul", MUL),
        Call("k1", copy, ("t",), ("y",), "pointwise", (), "", MUL, reason),
    )
    return Selection(
        buffers,
        calls,
        (InputBinding("x", "x", SHAPE, "float32", FMT),),
        (OutputBinding("mul", "y", access, SHAPE, "float32", FMT),),
        (ValueBinding("mul", "y", access, FMT),),
        (Row("mul", "mul", "k0", "pointwise", ("gemm: nothing is contracted",), MUL),),
        {"w": np.ones((layout.rows, layout.cols), np.int64)},
        saturated_weights={"scale.weight": 2},
    )


def small_report(simulated: int | None = None) -> Report:
    selection = small_selection()
    plan = plan_memory(selection, schedule(selection, share=True), share=True)
    memories = tuple(m.memory for m in plan.memories)
    return make_report(selection, plan, Design("component main", memories, plan.cycles), simulated)


def test_rows_tell_what_each_call_costs() -> None:
    report = small_report()
    mul, copy = report.calls
    selection = small_selection()
    words = 3 * 3  # rows of 5 elements in words of 2
    assert (mul.node, mul.rule, mul.kernel) == ("mul", "pointwise", "elementwise")
    assert mul.operands == ("fixed16.8 3x5", "fixed16.8 3x5") and mul.results == ("fixed16.8 3x5",)
    assert (mul.operations, mul.macs, mul.width, mul.multipliers) == (15, False, LANES, LANES)
    assert mul.cycles == selection.calls[0].spec.cycles()
    assert mul.utilisation == pytest.approx(15 / (mul.cycles * LANES))
    assert mul.memory_bits == words * LANES * 16
    assert (mul.start, copy.start) == (0, mul.cycles)
    assert (copy.node, copy.reason) == ("", "the lanes run over another axis")
    assert report.cycles == report.call_cycles == mul.cycles + copy.cycles


def test_totals() -> None:
    report = small_report()
    bits_each = 9 * LANES * 16
    assert report.memory_bits == dict.fromkeys(("input", "weight", "output", "temp"), bits_each)
    assert report.multipliers == LANES
    assert report.register_bits == sum(c.register_bits for c in report.calls) > 0
    assert report.macs == 0 and report.utilisation == 0.0
    assert report.futil_bytes == len("component main")


def test_text_is_a_table_with_totals() -> None:
    text = str(small_report())
    lines = text.splitlines()
    assert lines[0].split() == [
        *("call", "kernel", "rule", "reads", "writes", "operations"),
        *("start", "cycles", "use", "mult", "memory", "registers", "source"),
    ]
    first = next(line for line in lines if line.startswith("k0"))
    assert "fixed16.8 3x5" in first and "15 el" in first and "model.py:12 in scale" in first
    assert "added:       k1, because the lanes run over another axis" in lines
    assert f"registers:   {bits(small_report().register_bits)} in the kernels' pipelines" in lines
    assert "not simulated yet" in text
    assert "2 elements of scale.weight do not fit their format" in text
    assert all(line == line.rstrip() and len(line) <= 160 for line in lines)


@pytest.mark.parametrize(("off", "verdict"), [(0, "(equal)"), (1, "(DIFFERENT)")], ids=["equal", "different"])
def test_simulated_cycles_are_compared(off: int, verdict: str) -> None:
    predicted = small_report().cycles
    report = small_report(predicted + off)
    assert f"{predicted} predicted, {predicted + off} simulated {verdict}" in str(report)
    assert (f'<span class="different">{predicted + off} simulated' in report.to_html()) == bool(off)


def test_json_holds_every_field() -> None:
    report = small_report(7)
    values = json.loads(report.to_json())
    assert sorted(values) == sorted(
        [
            *("accuracy", "calls", "cycles", "futil_bytes", "macs", "memory_bits", "multipliers"),
            *("register_bits", "saturated_weights", "simulated_cycles", "utilisation"),
        ]
    )
    assert values["simulated_cycles"] == 7 and values["saturated_weights"] == {"scale.weight": 2}
    call = values["calls"][0]
    assert call["source"] == {
        "op": "aten.mul",
        "file": "/home/someone/model.py",
        "line": 12,
        "module_path": "scale",
    }
    assert call["cycles"] == report.calls[0].cycles
    assert call["utilisation"] == pytest.approx(report.calls[0].utilisation)


class _Page(HTMLParser):
    """Counts elements and checks that they nest."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bars: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.outside += [str(v) for k, v in attrs if k in ("src", "href")]
        if values.get("class") == "bar":
            self.bars.append(str(values["style"]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_self_contained_page_with_a_bar_a_call() -> None:
    report = small_report()
    page = _Page()
    text = report.to_html()
    page.feed(text)
    assert page.open == [] and page.outside == [] and "<script" not in text
    share = 100 * report.calls[0].cycles / report.cycles
    assert page.bars == [
        f"margin-left: 0.0%; width: {share:.1f}%",
        f"margin-left: {share:.1f}%; width: {100 * report.calls[1].cycles / report.cycles:.1f}%",
    ]
    assert "the lanes run over another axis" in text and "model.py:12 in scale" in text


def test_html_escapes_names() -> None:
    selection = small_selection()
    source = Source("aten.mul", "<b>.py", 1, "a<b>")
    calls = (
        Call("k0", selection.calls[0].spec, ("x", "w"), ("t",), "<rule>", ("mul",), "mul", source),
        selection.calls[1],
    )
    changed = dataclasses.replace(selection, calls=calls)
    plan = plan_memory(changed, schedule(changed, share=True), share=True)
    html = make_report(changed, plan, Design("", (), plan.cycles)).to_html()
    assert "&lt;rule&gt;" in html and "a&lt;b&gt;" in html and "<rule>" not in html


def test_explanation_names_rule_refusals_and_copies() -> None:
    x = Node("x", "input", (), (), SHAPE, "float32", Source(""))
    mul = Node("mul", "mul", ("x", "x"), (), SHAPE, "float32", MUL)
    text = explain(Graph((x, mul), ("x",), ("mul",)), small_selection())
    assert text.splitlines() == [
        "mul = mul float32[3, 5]  # model.py:12 in scale",
        "    became k0 (rule pointwise)",
        "    refused: gemm: nothing is contracted",
        "calls added by the compiler:",
        "    k1: elementwise of t, because the lanes run over another axis",
    ]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 b"), (9999, "9999 b"), (10240, "10.0 Kib"), (3 << 20, "3.0 Mib")]
)
def test_sizes(count: int, text: str) -> None:
    assert bits(count) == text
