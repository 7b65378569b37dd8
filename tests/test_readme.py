"""What README.md shows is what the commands print now. `python docs/readme.py` refreshes it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import torchcalyx
from torchcalyx.cli import main as cli
from torchcalyx.ir.normalform import OPS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
pytestmark = pytest.mark.needs("calyx", "verilator")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sizes_hidden(text: str) -> str:
    """The text without numbers of bytes, which change with any kernel."""
    return re.sub(r" *\d+ bytes", " # bytes", text)


readme, operations = load("readme"), load("operations")


def test_the_example_prints_what_stands_below_it() -> None:
    (example,) = readme.EXAMPLE.finditer(README)
    assert readme.example_output(example) == example["output"], "run: python docs/readme.py"
    assert sum(bool(line) for line in example["code"].splitlines()) <= 12


@pytest.mark.parametrize("match", list(readme.CONSOLE.finditer(README)), ids=lambda m: m["command"])
def test_a_command_prints_what_stands_below_it(match: re.Match[str]) -> None:
    assert sizes_hidden(readme.console_output(match)) == sizes_hidden(match["output"]), (
        "run: python docs/readme.py"
    )


@pytest.mark.slow
def test_the_table_of_operations_is_what_the_compiler_does() -> None:
    (table,) = readme.TABLE.finditer(README)
    assert operations.table() + "\n" == table["output"], "run: python docs/readme.py"
    reached = frozenset().union(*(found.operations for found in operations.outcomes().values()))
    assert set(OPS) - {"input", "constant"} - reached - set(operations.CALLS) == set()
    assert {name: found.error for name, found in operations.outcomes().items() if found.error > 0.01} == {}


def test_the_first_and_last_operation_of_each_row_have_its_kernels() -> None:
    (table,) = readme.TABLE.finditer(README)
    rows = [row.strip("| ").split(" | ") for row in table["output"].splitlines()[2:]]
    assert len(rows) > 5
    for names, kernels in rows:
        for name in {names.split(", ")[0], names.split(", ")[-1]}:
            call, inputs = operations.CALLS[name]
            found = operations.outcome(operations.Single(call).eval(), inputs)
            assert found.kernels == kernels, f"{name}; run: python docs/readme.py"


def test_names_in_the_readme_exist() -> None:
    for path in re.findall(
        r"`((?:examples|docs|benchmarks|tests|kernels|torchcalyx)/[\w/]*(?:\.\w+)?)`", README
    ):
        assert (ROOT / path).exists(), path
    for name in re.findall(r"`hw\.(\w+)", README):
        assert hasattr(torchcalyx.CompiledModule, name), name
    for name in ("setup", "doctor", "compile", "run", "report", "explain"):
        assert name in cli.commands


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < 150
