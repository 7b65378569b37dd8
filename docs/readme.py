"""Brings the generated parts of README.md up to date; tests/test_readme.py fails where they are not.

    python docs/readme.py

Generated are the table of operations, the output below the Python example (a `text` block) and the outputs
of the commands in `console` blocks. An output that begins with a line "..." keeps as many last lines as
stand there. The line on PyTorch's operator database takes minutes and has a command of its own,
python -m benchmarks.coverage --readme.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"

EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
CONSOLE = re.compile(r"```console\n\$ python (?P<command>[^\n]*)\n(?P<output>.*?)```\n", re.DOTALL)
TABLE = re.compile(r"(?<=<!-- python docs/operations.py -->\n)(?P<output>.*?)(?=<!-- end -->)", re.DOTALL)


def python(*arguments: str) -> str:
    """What Python prints when it runs with these arguments in an empty folder; fails with its errors."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "110"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )
    if done.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def example_output(match: re.Match[str]) -> str:
    """Fresh output of the Python example."""
    return python("-c", match["code"])


def console_output(match: re.Match[str]) -> str:
    """Fresh output of a command, cut as the output in the README is cut."""
    script, *arguments = match["command"].split()
    lines = python(str(ROOT / script), *arguments).splitlines(keepends=True)
    shown = match["output"].splitlines()
    if shown and shown[0] == "...":
        lines = ["...\n", *lines[-(len(shown) - 1) :]]
    return "".join(lines)


def table_output(match: re.Match[str]) -> str:
    """The table of operations."""
    return python(str(ROOT / "docs" / "operations.py"))


PARTS = ((EXAMPLE, example_output), (CONSOLE, console_output), (TABLE, table_output))


def main() -> None:
    """Rewrite README.md."""
    text = README.read_text()
    for pattern, fresh in PARTS:
        text = pattern.sub(lambda m, f=fresh: m[0].replace(m["output"], f(m)) if m["output"] else m[0], text)
    README.write_text(text)


if __name__ == "__main__":
    main()
