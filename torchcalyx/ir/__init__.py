"""The normal form: its graph, closed list of operations, type rules, meaning in numpy, and integer ranges.

Imports no torch; of the kernels only what numbers and functions mean.
"""
