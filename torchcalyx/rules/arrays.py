"""Shapes of the program's multiplier arrays within the budget of the options."""

from __future__ import annotations

from torchcalyx.building.view import GraphView


def dot_columns(view: GraphView) -> int:
    """Columns of the program's dot array: the most that divide the lanes within the budget."""
    limit = max(1, view.options.multipliers // view.lanes)
    return max(c for c in range(1, view.lanes + 1) if view.lanes % c == 0 and c <= limit)


def systolic_rows(view: GraphView) -> int:
    """Rows of the program's systolic array within the budget; at most one per lane, so that every feed
    works.
    """
    return max(1, min(view.lanes, view.options.multipliers // view.lanes))
