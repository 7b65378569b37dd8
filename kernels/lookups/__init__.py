"""Reads and writes at addresses that a memory holds. `place.py` is the address, `take.py` and `put.py` are
the kernels.
"""
