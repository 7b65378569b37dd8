"""Random small graphs through the whole compiler: `make fuzz N=200`.

A graph is a text (program), grown line by line (sketch) from random operations (operands, elementwise,
movement, layers, operations) by a hypothesis strategy (graphs). It is checked (runner, with bounds and
multipliers), and made small when it fails (minimise). Entries: `python -m tests.fuzz`, test_fuzz.
"""
