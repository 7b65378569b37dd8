"""Names of memories: legal in Calyx and SystemVerilog, unique, the same for the same selection."""

from __future__ import annotations

import re

from torchcalyx.design import Role

PREFIXES: dict[Role, str] = {"input": "in_", "weight": "w_", "output": "out_", "temp": "t_"}
"""No keyword of either language begins with one of these."""

_PORTS = ("addr0", "content_en", "write_en", "write_data", "read_data", "done", "clk", "reset")
_LONGEST = 60


class MemoryNames:
    """Hands out names. Two that differ only in case do not occur: memories are files on disk."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._wires: set[str] = set()

    def new(self, role: Role, buffer: str) -> str:
        """A name for the memory of `buffer`: prefix of the role, letters and digits, a number if taken."""
        plain = re.sub(r"[^0-9A-Za-z]+", "_", buffer).strip("_")[:_LONGEST].rstrip("_")
        stem = PREFIXES[role] + (plain or "x")
        name, number = stem, 1
        while self._clashes(name):
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name.lower())
        self._wires.update(_wires(name))
        return name

    def _clashes(self, name: str) -> bool:
        # In Verilog the ports of cell `m` are wires `m_addr0`, ...: no cell may have the name of one.
        return (
            name.lower() in self._taken
            or name.lower() in self._wires
            or not self._taken.isdisjoint(_wires(name))
        )


def instance_name(number: int, family: str) -> str:
    """Name of a kernel instance; the number keeps it apart from all others and from the memories."""
    return f"u{number}_" + (re.sub(r"[^0-9A-Za-z]+", "_", family).strip("_") or "kernel")


def _wires(name: str) -> list[str]:
    return [f"{name.lower()}_{port}" for port in _PORTS]
