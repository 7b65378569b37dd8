"""How loops meet word-packed memories: accesses, reading ends, writing ends, packing of elements into words.

Imports `arith`, `rtl` and the specification in `engine`. A kernel is put together from these parts.
"""
