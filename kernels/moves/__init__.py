"""Kernels that copy elements where no access can express the view: gather, splice, transpose.

Imports the rooms up to `ports` and `contract`.
"""
