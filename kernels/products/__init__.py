"""Kernels of matrix products and convolutions on the engine's arrays.

Each kernel is three files: its parameters and sizes, its controller, and the kernel with its contract.
Imports the rooms up to `ports` and `contract`.
"""
