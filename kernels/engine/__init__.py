"""Every multiplier of a program: what kernels may ask of it, its arrays, and the component itself.

Imports `arith` and `rtl`.
"""
