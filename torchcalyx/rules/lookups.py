"""Reads and writes at computed indices."""

from __future__ import annotations

from collections.abc import Callable

from torchcalyx.building.builder import Located, SelectionBuilder
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder, narrowing
from torchcalyx.kernels.arith.numerics import NumberFormat, product
from torchcalyx.kernels.contract import KernelParameterError, KernelSpec
from torchcalyx.kernels.elementwise import elementwise
from torchcalyx.kernels.lookups.mode import PutMode, accumulator
from torchcalyx.kernels.lookups.put import Put, put
from torchcalyx.kernels.lookups.take import Take, take
from torchcalyx.kernels.ports.access import Operand, row_major, whole
from torchcalyx.match import Match, Reject, Rule


def _take(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "take":
        return Reject(f"{node.op} does not read at an index", related=False)
    return Match((node.name,), node.args, lambda builder: _build_take(builder, node))


def _build_take(builder: SelectionBuilder, node: Node) -> Located:
    dim = node.whole("dim")
    x, index = (builder.value(name) for name in node.args)
    size = x.shape[dim]
    layout = row_major(node.shape, builder.lanes)
    out = Operand(x.fmt, layout, whole(node.shape, layout))
    domain = tuple(size if d == dim else n for d, n in enumerate(node.shape))
    if index.buffer == x.buffer:
        index = _copy(builder, index, "the table lies in the same memory", (x.buffer,))

    def make(table: Located, index: Located) -> Take:
        return take(
            builder.operand(_expanded(table, domain)), builder.operand(_expanded(index, node.shape)), dim, out
        )

    if index.access.limits:
        index = _copy(builder, index, "padding lies around the index", (x.buffer,))
    spec = None if x.access.limits else make(x, index)
    packed = row_major(x.shape, builder.lanes)
    copied = Located("", whole(x.shape, packed), x.fmt)
    rows = take(
        Operand(x.fmt, packed, _expanded(copied, domain).access),
        builder.operand(_expanded(index, node.shape)), dim, out,
    )  # fmt: skip
    if spec is None or rows.cycles() + product(x.shape) < spec.cycles():
        x = _copy(builder, x, "rows of the table do not lie in whole words", (index.buffer,))
        spec = make(x, index)
    buffer = builder.buffer(node.name, x.fmt, layout)
    builder.call(spec, [x.buffer, index.buffer], [buffer])
    return Located(buffer, out.access, x.fmt)


def _put(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "put":
        return Reject(f"{node.op} does not write at an index", related=False)
    return Match((node.name,), node.args, lambda builder: _build_put(builder, node))


def _build_put(builder: SelectionBuilder, node: Node) -> Located:
    dim, mode = node.whole("dim"), _mode(node)
    base, index, source = (builder.value(name) for name in node.args)
    domain = tuple(max(n, m) for n, m in zip(index.shape, source.shape, strict=True))
    fmt = builder.view.formats[node.name]
    total = accumulator("add", base.fmt, source.fmt, domain[dim]) if mode == "add" else fmt
    layout = row_major(node.shape, builder.lanes)
    out = Operand(total, layout, whole(node.shape, layout))
    if index.access.limits or index.buffer == base.buffer:
        index = _copy(builder, index, "the base lies in the same memory", (base.buffer,))
    if source.access.limits or source.buffer in (base.buffer, index.buffer):
        source = _copy(builder, source, "a memory has one port", (base.buffer, index.buffer))

    def make(base: Located) -> Put:
        moved = _expanded(index, domain), _expanded(source, domain)
        operands = builder.operand(base), builder.operand(moved[0]), builder.operand(moved[1])
        return put(mode, operands, dim, out)

    spec = _or_copied(builder, base, (index.buffer, source.buffer), make)
    base_buffer, kernel = spec
    buffer = builder.buffer(node.name, total, layout)
    builder.call(kernel, [base_buffer, index.buffer, source.buffer], [buffer])
    if total == fmt:
        return Located(buffer, out.access, fmt)
    result = Operand(fmt, layout, out.access)
    narrowed = builder.buffer(node.name, fmt, layout)
    builder.call(elementwise(_narrowed(total, fmt), (out,), result), [buffer], [narrowed])
    return Located(narrowed, out.access, fmt)


def _or_copied(
    builder: SelectionBuilder, base: Located, taken: tuple[str, ...], make: Callable[[Located], KernelSpec]
) -> tuple[str, KernelSpec]:
    """The kernel with its base as it lies, or with a copy where words cannot be read so."""
    try:
        return base.buffer, make(base)
    except KernelParameterError as error:
        base = _copy(builder, base, str(error), taken)
        return base.buffer, make(base)


def _narrowed(total: NumberFormat, fmt: NumberFormat) -> Expr:
    """Sums of integers wrap as torch's do, others are rounded and saturate."""
    if fmt.kind != "int":
        return narrowing(total, fmt)
    b = ExprBuilder()
    return b.build(b.wrap(b.input(total), fmt), fmt)


def _mode(node: Node) -> PutMode:
    modes: dict[object, PutMode] = {"set": "set", "add": "add", "max": "max", "min": "min"}
    return modes[node.attr("mode")]


def _expanded(value: Located, shape: tuple[int, ...]) -> Located:
    return Located(value.buffer, value.access.expand(shape), value.fmt)


def _copy(builder: SelectionBuilder, value: Located, reason: str, taken: tuple[str, ...]) -> Located:
    return builder.relayout(value, row_major(value.shape, builder.lanes), value.shape, reason, taken)


def _checked(view: GraphView, node: Node) -> Match | Reject:
    if node.op != "checked":
        return Reject(f"{node.op} is no index", related=False)
    if node.attr("wrap") or view.formats[node.name] != view.formats[node.args[0]]:
        return Reject("negative indices count from the end, or the index is held in another format")
    return Match((node.name,), node.args, lambda builder: builder.value(node.args[0]))


VIEWS = (Rule("index as it lies", _checked),)
RULES = (Rule("read at an index", _take), Rule("write at an index", _put))
