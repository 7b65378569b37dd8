"""Counts the multipliers of an emitted program from its text alone: multiplying cells times instances."""

from __future__ import annotations

import re
from functools import cache

_COMPONENT = re.compile(r"component\s+(\w+)\s*\(.*?^  cells \{(.*?)^  \}", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"^\s*(?:@\w+(?:\(\d+\))?\s+)*(?P<ref>ref\s+)?\w+ = (?P<kind>\w+)\(", re.MULTILINE)
_PRIMITIVE = re.compile(r"primitive\s+(\w+)\[(.*?)(?=primitive|component)", re.DOTALL)
_TIMES = re.compile(r"\)\s*\*|\*\s*\$signed|\w \* \w")


def count_multipliers(futil: str, top: str = "main") -> int:
    """Multiplier instances below component `top`; a `ref` cell belongs to the component that owns it."""
    multiplying = {m[1] for m in _PRIMITIVE.finditer(futil) if _TIMES.search(m[2])}
    cells = {
        component[1]: [cell["kind"] for cell in _CELL.finditer(component[2]) if not cell["ref"]]
        for component in _COMPONENT.finditer(futil)
    }
    assert top in cells, f"no component {top} in the program"

    @cache
    def below(name: str) -> int:
        if name in multiplying or name.startswith("std_mult"):
            return 1
        return sum(map(below, cells.get(name, ())))

    return below(top)
