"""Why a sample was refused: the class of reason that the compiler's own message states.

A refusal of principle says so itself: what hardware of fixed shapes cannot mean stays refused. Everything
else is "not yet", with the operation that has no kernel.
"""

from __future__ import annotations

import re

PRINCIPLES: tuple[tuple[str, str], ...] = (
    (r"data-dependent|depends on run-time values", "result depends on data"),
    (r"^\s*- random values", "random"),
    (r"training mode", "training"),
    (r"mutated in place|is mutated in forward", "in place on the caller's tensors"),
    (r"is sparse \(|sparse tensor", "sparse"),
    (r"nested tensor", "nested"),
    (r"is quantised \(|quantised modules|quantised tensors", "quantised"),
    (r"fixed-point hardware has no NaN|is NaN at index", "NaN among the inputs"),
    (r"of type str|text has no", "strings"),
    (r"iterative|iterates until", "iterative"),
    (r"not a neighbour in fixed point", "steps between float32 numbers"),
)
"""(what the message matches, the principle)."""

KNOWN: tuple[tuple[str, str], ...] = (
    (r"is complex \(|complex numbers have no hardware form|complex constant", "complex numbers"),
    (r"the hardware's \w+ holds", "whole numbers out of range"),
    (r"torch\.export could not capture the model: (\w+: [^\n]{0,60})", "capture: {}"),
    (r"no kernel yet for ([^\n]{1,70})", "no kernel yet for {}"),
    (r"torch's decomposition fails: ([^\n]{0,80})", "torch's decomposition fails: {}"),
)
"""(what the message matches, the class): the first that matches names what is missing."""


def principle(message: str) -> str:
    """The principle that a message states, "" for none."""
    return next((name for text, name in PRINCIPLES if re.search(text, message, re.MULTILINE)), "")


def missing(message: str) -> str:
    """The class of a refusal that is not of principle."""
    message = re.sub(
        r" at (\S+:\d+|\(no source line\))", "", message
    )  # groups are about operations, not places
    for text, name in KNOWN:
        if found := re.search(text, message):
            return name.format(*found.groups())
    reasons = [line.strip() for line in message.splitlines() if line.startswith("    ")]
    return (reasons or message.strip().splitlines() or [""])[0][:100]
