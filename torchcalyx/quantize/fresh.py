"""Names for the nodes that this stage adds."""

from __future__ import annotations


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, with a number where it is taken; taken from now on."""
    found = next(n for i in range(len(taken) + 1) if (n := f"{name}_{i}" if i else name) not in taken)
    taken.add(found)
    return found
