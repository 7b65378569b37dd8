"""Selection: every node of a typed graph becomes part of a kernel call, a view, or a refusal.

Nodes are visited from the outputs; the first rule that matches covers its nodes. Then the matches build
their calls in topological order. All nodes without a rule are reported in one error.
"""

from __future__ import annotations

from dataclasses import dataclass

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.placing import rows_of_last_axis, unpermuted
from torchcalyx.building.view import GraphView
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.ports.access import row_major, whole
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.options import Options
from torchcalyx.quantize import Typed
from torchcalyx.rules import RULES
from torchcalyx.selection import IndexCheck, InputBinding, OutputBinding, Row, Selection, ValueBinding

__all__ = ["select"]


@dataclass(frozen=True)
class _Choice:
    """The rule and match chosen for a root node, with the refusals of the rules tried before."""

    rule: Rule
    match: Match
    refused: tuple[str, ...]


def select(typed: Typed, options: Options) -> Selection:
    """Kernel calls for a typed graph.

    Raises UnsupportedOpError that lists every node no rule takes, with each rule's reason.
    """
    view = GraphView(typed, options)
    choices = _choose(view, (*options.rules, *RULES))
    builder = SelectionBuilder(view)
    inputs = tuple(_bind_input(builder, view.nodes[name]) for name in view.graph.inputs)
    values: list[ValueBinding] = []
    for node in view.graph.nodes:
        choice = choices.get(node.name)
        if choice is None:
            continue
        builder.begin(choice.rule.name, node, choice.match.covers)
        located = choice.match.build(builder)
        if located.shape != node.shape:
            raise AssertionError(f"rule {choice.rule.name} placed {node} as {located.shape}")
        builder.located[node.name] = located
        if node.op != "scale":  # only the caller sees it scaled
            values.append(ValueBinding(node.name, located.buffer, located.access, located.fmt))
    outputs = tuple(_bind_output(builder, view.nodes[name]) for name in view.graph.outputs)
    used = {name for call in builder.calls for name in (*call.reads, *call.writes)}
    used.update(o.buffer for o in outputs if o.buffer is not None)
    return Selection(
        buffers=tuple(b for b in builder.buffers.values() if b.name in used or b.role == "input"),
        calls=tuple(builder.calls),
        inputs=inputs,
        outputs=outputs,
        values=tuple(values),
        rows=_rows(view, choices, builder),
        checks=_checks(view, choices, builder),
        weights={name: stored for name, stored in builder.weights.items() if name in used},
        constants={n: view.graph.constants[n] for n in view.graph.outputs if n in view.graph.constants},
        saturated_weights=builder.saturated,
    )


def _choose(view: GraphView, rules: tuple[Rule, ...]) -> dict[str, _Choice]:
    """A rule for every node that is needed, from the outputs backwards."""
    needed = set(view.graph.outputs)
    covered: set[str] = set()
    choices: dict[str, _Choice] = {}
    refusals: list[str] = []
    for node in reversed(view.graph.nodes):
        if node.op in ("input", "constant") or node.name in covered or node.name not in needed:
            continue
        refused: list[tuple[str, Reject]] = []
        for rule in rules:
            found = rule.apply(view, node)
            if isinstance(found, Reject):
                refused.append((rule.name, found))
                continue
            reasons = tuple(f"{name}: {r.reason}" for name, r in refused if r.related)
            choices[node.name] = _Choice(rule, found, reasons)
            covered.update(found.covers)
            needed.update(found.leaves)
            break
        else:
            refusals.append(_refusal(view, node, refused))
            needed.update(node.args)
    if refusals:
        count = len(refusals)
        raise UnsupportedOpError(
            f"{count} operation{'s have' if count > 1 else ' has'} no kernel:\n"
            + "\n".join(reversed(refusals))
        )
    return choices


def _refusal(view: GraphView, node: Node, refused: list[tuple[str, Reject]]) -> str:
    operands = ", ".join(f"{a.dtype}{list(a.shape)}" for a in view.args(node))
    head = f"{node.source.op} ({node.op}, node {node.name!r}, ({operands}) -> {node.dtype}{list(node.shape)})"
    lines = [f"  {head} at {node.source}"]
    lines += [f"    {name}: {r.reason}" for name, r in refused if r.related]
    lines.append(
        f"    rules about other operations: {', '.join(name for name, r in refused if not r.related)}"
    )
    lines.append("    hint: write it with supported operations, or add a rule of your own (Options.rules)")
    return "\n".join(lines)


def _bind_input(builder: SelectionBuilder, node: Node) -> InputBinding:
    fmt = builder.view.formats[node.name]
    order = builder.view.wanted.get(node.name, ())
    if order == tuple(range(len(node.shape))):
        order = ()
    shape = tuple(node.shape[d] for d in order) if order else node.shape
    # One channel has no neighbours: its positions share words.
    rows = bool(order) and shape[-1] > 1
    layout = rows_of_last_axis(shape, builder.lanes) if rows else row_major(shape, builder.lanes)
    buffer = builder.buffer(node.name, fmt, layout, "input")
    access = whole(shape, layout)
    builder.located[node.name] = Located(buffer, unpermuted(access, order) if order else access, fmt)
    floor = builder.view.floors.get(node.name)
    return InputBinding(node.name, buffer, node.shape, node.dtype, fmt, order, floor)


def _bind_output(builder: SelectionBuilder, node: Node) -> OutputBinding:
    fmt = builder.view.formats[node.name]
    if node.op == "constant":
        return OutputBinding(node.name, None, None, node.shape, node.dtype, fmt)
    located = builder.located[node.name]
    place = (node.name, located.buffer, located.access, node.shape, node.dtype, located.fmt)
    if node.op == "scale":
        return OutputBinding(*place, node.whole("axis"), node.ints("exponents"))
    return OutputBinding(*place)


def _checks(
    view: GraphView, choices: dict[str, _Choice], builder: SelectionBuilder
) -> tuple[IndexCheck, ...]:
    """Where each computed index that the program uses lies before it is used."""
    used = {name for choice in choices.values() for name in choice.match.covers}
    found = []
    for node in view.graph.nodes:
        if node.op == "checked" and node.name in used:
            at = builder.value(node.args[0])
            size, wrap = node.whole("size"), bool(node.attr("wrap"))
            found.append(IndexCheck(node.name, at.buffer, at.access, size, wrap, node.source))
    return tuple(found)


def _rows(view: GraphView, choices: dict[str, _Choice], builder: SelectionBuilder) -> tuple[Row, ...]:
    """One row per node: what it became."""
    owner = {covered: root for root, choice in choices.items() for covered in choice.match.covers}
    calls: dict[str, list[str]] = {}
    for call in builder.calls:
        if call.node:
            calls.setdefault(call.node, []).append(call.name)
    rows = []
    for node in view.graph.nodes:
        root = owner.get(node.name)
        if root is None:
            if node.op not in ("input", "constant"):
                rows.append(Row(node.name, node.op, "not needed", "", (), node.source))
            continue
        choice = choices[root]
        became = ", ".join(calls.get(root, ())) or f"access to {builder.located[root].buffer}"
        if root != node.name:
            became += f" (fused into {root})"
        rows.append(
            Row(
                node.name,
                node.op,
                became,
                choice.rule.name,
                choice.refused if root == node.name else (),
                node.source,
            )
        )
    return tuple(rows)
