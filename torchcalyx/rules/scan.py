"""Index of an extreme; running sums and extremes."""

from __future__ import annotations

from collections.abc import Mapping

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import narrowing
from torchcalyx.kernels.contract import KernelParameterError
from torchcalyx.kernels.folds.argreduce import arg_reduce
from torchcalyx.kernels.folds.fold import FoldOp, accumulator
from torchcalyx.kernels.folds.scan import scan
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.kernels.ports.reader import result_value
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.tree import expression, tree_of

RUNNING: Mapping[str, FoldOp] = {"cumsum": "add", "cummax": "max", "cummin": "min"}


def _arg(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in ("argmax", "argmin"):
        return Reject(f"{node.op} gives no index", related=False)
    return Match((node.name,), node.args, lambda builder: _build_arg(builder, node))


def _build_arg(builder: SelectionBuilder, node: Node) -> Located:
    source = builder.value(node.args[0])
    dim = node.whole("dim")
    fmt = builder.view.formats[node.name]
    shape = tuple(s for d, s in enumerate(source.shape) if d != dim) or (1,)
    layout = row_major(shape, builder.lanes)
    out = Operand(fmt, layout, whole(shape, layout))
    spec = arg_reduce("max" if node.op == "argmax" else "min", builder.operand(source), (dim,), out)
    buffer = builder.buffer(node.name, fmt, layout)
    builder.call(spec, [source.buffer], [buffer])
    access = out.access.reshape(node.shape)
    assert access is not None
    return Located(buffer, access, fmt)


def _running(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in RUNNING:
        return Reject(f"{node.op} is no running sum or extreme", related=False)
    if not node.shape:
        return Reject("a running sum needs a dimension")
    return Match((node.name,), node.args, lambda builder: _build_running(builder, node))


def _build_running(builder: SelectionBuilder, node: Node) -> Located:
    op = RUNNING[node.op]
    source = builder.value(node.args[0])
    dim = node.whole("dim")
    fmt = builder.view.formats[node.name]
    prologue = narrowing(source.fmt, source.fmt)
    total = accumulator(op, result_value(prologue), node.shape[dim])
    layout = row_major(node.shape, builder.lanes)
    out = Operand(fmt, layout, whole(node.shape, layout))
    empty = tree_of(builder.view, set())
    epilogue = expression(builder.view, empty, [(node.name, total)], fmt)
    stages = builder.view.options.multiplier_stages
    try:
        spec = scan(op, prologue, [builder.operand(source)], dim, epilogue, out, stages)
    except KernelParameterError as error:
        source = builder.relayout(source, layout, node.shape, f"{node.op} along dimension {dim}: {error}")
        spec = scan(op, prologue, [builder.operand(source)], dim, epilogue, out, stages)
    buffer = builder.buffer(node.name, fmt, layout)
    builder.call(spec, [source.buffer], [buffer])
    return Located(buffer, out.access, fmt)


RULES = (Rule("index of an extreme", _arg), Rule("running sum or extreme", _running))
