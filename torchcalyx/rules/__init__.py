"""The selection rules in the order in which they are tried."""

from __future__ import annotations

from torchcalyx.match import Rule
from torchcalyx.rules import conv, elementwise, matmul, movement, pooling, reduce, scan, sort, view

RULES: tuple[Rule, ...] = (
    *view.RULES,
    *matmul.RULES,
    *conv.RULES,
    *pooling.RULES,
    *reduce.RULES,
    *elementwise.RULES,
    *movement.RULES,
    *scan.RULES,
    *sort.RULES,
)
"""First match wins; larger patterns stand before smaller ones."""
