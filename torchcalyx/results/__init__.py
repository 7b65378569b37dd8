"""What a compiled module tells its user: report, explanation, comparison, saved designs.

Reads finished stages; no stage imports it.
"""
