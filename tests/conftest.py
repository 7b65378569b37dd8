"""What all tests share: the `needs` marker, fresh tool lookups, golden files, the hypothesis profile."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import tally
from torchcalyx.errors import ToolNotFound
from torchcalyx.tools import toolchain

hypothesis.settings.register_profile("torchcalyx", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("torchcalyx")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            try:
                toolchain.find_tool(name)
            except ToolNotFound as error:
                if os.environ.get("CI") == "true":
                    pytest.fail(f"CI must have every tool: {error}", pytrace=False)
                pytest.skip(str(error))


@pytest.fixture
def fresh_tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for tests that move the tools; all lookups are forgotten before and after."""
    toolchain.forget_tools()
    yield monkeypatch
    monkeypatch.undo()
    toolchain.forget_tools()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a text with tests/golden/<test file>/<test name>.futil; `--update-golden` rewrites the file."""

    def check(text: str, suffix: str = "futil") -> None:
        name = request.node.name.replace("/", "_")
        path = GOLDEN / Path(request.node.path).stem / f"{name}.{suffix}"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"no golden file {path}: create it with --update-golden and review it"
        assert text == path.read_text(), f"differs from {path}: review, then rewrite it with --update-golden"

    return check


@pytest.fixture(autouse=True)
def tallied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attach what a test compared to its report, so that the sum survives parallel workers."""
    tally.COUNTS.clear()
    yield
    request.node.user_properties.append(("tally", dict(tally.COUNTS)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much simulated hardware was compared: every comparison is an assertion, so failures end their
    test.
    """
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "teardown":
                for key, value in report.user_properties:
                    if key == "tally":
                        totals.update(value)
    line = (
        "simulated hardware: {} vectors equal to the software model, {} calls of exactly the predicted cycles"
    )
    terminalreporter.write_line(line.format(totals["vectors"], totals["cycles"]))
