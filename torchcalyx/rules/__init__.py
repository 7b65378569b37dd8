"""The selection rules in the order in which they are tried."""

from __future__ import annotations

from torchcalyx.match import Rule
from torchcalyx.rules import conv, elementwise, lookups, matmul, movement, pooling, reduce, scan, sort, view

RULES: tuple[Rule, ...] = (
    *view.RULES,
    *lookups.VIEWS,
    *matmul.RULES,
    *conv.RULES,
    *pooling.RULES,
    *reduce.RULES,
    *elementwise.RULES,
    *movement.RULES,
    *scan.RULES,
    *lookups.RULES,
    *sort.RULES,
)
"""First match wins; larger patterns stand before smaller ones."""
