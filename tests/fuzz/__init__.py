"""Random small graphs through the whole compiler: `make fuzz N=200`.

program (a graph as text) <- sketch, operations, graphs (hypothesis strategies) -> runner (the checks, with
bounds and multipliers) -> minimise (a failing graph made small) -> `python -m tests.fuzz`, test_fuzz.
"""
