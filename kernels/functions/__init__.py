"""Nonlinear functions in fixed point: definitions, fitted tables, datapaths and the proof of their error.

Functions are expressions of `arith`; nothing here knows hardware. Others use `function` and `divide`.
"""
