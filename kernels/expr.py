"""Straight-line fixed-point expressions: the datapath of one lane. See `expr_ops` for their meaning."""

from .expr_builder import ExprBuilder, narrowing
from .expr_ops import Expr, Op, OpName, Value, value_of

__all__ = ["Expr", "ExprBuilder", "Op", "OpName", "Value", "narrowing", "value_of"]
