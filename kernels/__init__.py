"""Parametric Calyx kernel generators, usable without torch as a library of their own."""

if __name__ != "torchcalyx.kernels":
    raise ImportError("import the kernels as torchcalyx.kernels, not by their folder's name")
