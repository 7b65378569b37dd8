"""Tables as plain text: one look for reports, comparisons and explanations, the same in a terminal and in
a file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from torchcalyx.ir.graph import Source

WIDTH = 160
"""Columns of a printed table; longer cells are folded, never cut."""


def table_text(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table without trailing blanks. columns: (title, "left" or "right")."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title, justify in columns:
        table.add_column(title, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return render(table)


def render(table: Table) -> str:
    """The table as text of at most `WIDTH` columns, free of colours."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def place(source: Source) -> str:
    """Short form of a source: file name and line, module path; "" when nothing is known."""
    line = [f"{Path(source.file).name}:{source.line}"] if source.file else []
    return " ".join([*line, *([f"in {source.module_path}"] if source.module_path else [])])


def number(value: float) -> str:
    """An error or a value with three digits."""
    return f"{value:.3g}" if value else "0"


def bits(count: int) -> str:
    """A size in bits: "96 b", "12.5 Kib", "3.1 Mib" (1 Kib = 1024 bits)."""
    if count < 10_000:
        return f"{count} b"
    if count < 1 << 20:
        return f"{count / 1024:.1f} Kib"
    return f"{count / (1 << 20):.1f} Mib"


def json_number(value: float) -> float | None:
    """A float as JSON allows it: None for infinities and NaN."""
    return value if math.isfinite(value) else None


def source_json(source: Source) -> dict[str, Any]:
    """A source as JSON: op, file, line, module_path."""
    return {"op": source.op, "file": source.file, "line": source.line, "module_path": source.module_path}
