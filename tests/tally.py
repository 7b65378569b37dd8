"""Counts simulated vectors that equal the software model, and calls whose cycles were predicted, for the
closing line of a run.
"""

from __future__ import annotations

from collections import Counter

COUNTS: Counter[str] = Counter()
"""Comparisons made (and passed) by the running test."""


def count(vectors: int, cycles: int) -> None:
    """Note `vectors` outputs of simulated hardware equal to the software model, `cycles` calls of the
    predicted length.
    """
    COUNTS["vectors"] += vectors
    COUNTS["cycles"] += cycles
