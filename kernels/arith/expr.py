"""Straight-line fixed-point expressions: the datapath of one lane. See `ops` for their meaning."""

from .builder import ExprBuilder, narrowing
from .ops import Expr, Op, OpName, Value, value_of

__all__ = ["Expr", "ExprBuilder", "Op", "OpName", "Value", "narrowing", "value_of"]
