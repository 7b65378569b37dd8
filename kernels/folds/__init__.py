"""Kernels that reduce or scan dimensions: sums, extrema, their places, running folds.

Imports the rooms up to `ports` and `contract`.
"""
