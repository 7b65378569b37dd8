"""The text of `CompiledModule.explain`: which graph node became which kernel, by which rule, and why
others refused.
"""

from __future__ import annotations

from torchcalyx.ir.graph import Graph
from torchcalyx.results.tables import place
from torchcalyx.selection import Row, Selection


def explain(graph: Graph, selection: Selection) -> str:
    """One paragraph a graph node, in graph order, then the calls that no node asked for (relayouts)."""
    nodes = graph.by_name
    lines: list[str] = []
    for row in selection.rows:
        node = nodes.get(row.node)
        kind = f" {node.dtype}{list(node.shape)}" if node is not None else ""
        lines.append(f"{row.node} = {row.op}{kind}{_place(row)}")
        rule = f" (rule {row.rule})" if row.rule else ""
        lines.append(f"    became {row.became or 'nothing'}{rule}")
        lines += [f"    refused: {reason}" for reason in row.refused]
    extra = [call for call in selection.calls if call.reason]
    if extra:
        lines.append("calls added by the compiler:")
    for call in extra:
        lines.append(f"    {call.name}: {call.spec.family} of {', '.join(call.reads)}, because {call.reason}")
    return "\n".join(lines)


def _place(row: Row) -> str:
    where = place(row.source)
    return f"  # {where}" if where else ""
