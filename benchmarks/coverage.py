"""What of PyTorch's own operator database the compiler answers rightly.

    python -m benchmarks.coverage [--samples N] [--operator NAME]... [--drawn N] [--rtl] [--jobs N]
                                  [--timeout SECONDS] [--json FILE] [--text FILE] [--readme]

Every operator runs on its own samples (float32, or int64 where there is no float form; up to 4,096
elements): the tensors are inputs, the module is compiled at fixed16 with the sample as calibration and its
software model judged against eager PyTorch (`opdb/judging.py` states what is right). --operator: those whose
name has this text; --drawn: N of them, by hash of the name; --rtl: simulates the hardware as well; --readme:
writes the line of README.md (all operators, two samples). Exit code 1 when an operator is wrong or fails
with an exception that is not ours. Needs the package `expecttest`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.opdb.findings import Finding, as_json, by_kind, details, failures, summary, table
from benchmarks.opdb.samples import drawn, operators
from benchmarks.opdb.workers import Work, run_all

README_SAMPLES = 2
README = Path(__file__).parent.parent / "README.md"
MARKED = re.compile(r"(?<=<!-- python -m benchmarks.coverage --readme -->\n)(?P<line>[^\n]*)")
"""The line behind the mark."""


def coverage(names: Sequence[str], work: Work, jobs: int, *, progress: bool = False) -> list[Finding]:
    """What became of these operators, by name."""
    found = []
    for name, outcomes in run_all(names, work, jobs):
        found.append(Finding(name, tuple(outcomes)))
        if progress:
            print(
                f"{len(found):4} of {len(names)}  {found[-1].answer:15} {name}", file=sys.stderr, flush=True
            )
    return sorted(found, key=lambda f: f.name)


def chosen(texts: Sequence[str], count: int | None) -> list[str]:
    """Names of operators that have one of the texts, all without any; `count` of them by hash."""
    names = sorted(n for n in operators() if not texts or any(t in n for t in texts))
    return names if count is None else drawn(names, count)


def with_line(readme: str, line: str) -> str:
    """The text of README.md with a new line behind the mark."""
    if not MARKED.search(readme):
        raise ValueError(
            "README.md has no place for the line: <!-- python -m benchmarks.coverage --readme -->"
        )
    return MARKED.sub(lambda _: line, readme)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--samples", type=_count, help="samples of each operator (default: all)")
    parser.add_argument("--operator", action="append", default=[], help="text in the name; repeatable")
    parser.add_argument("--drawn", type=_count, help="so many operators, by hash of the name")
    parser.add_argument("--rtl", action="store_true", help="simulate the hardware too")
    parser.add_argument("--json", type=Path, help="file for everything")
    parser.add_argument("--text", type=Path, help="file for what is not right, by kind")
    parser.add_argument("--jobs", type=_count, default=1, help="processes")
    parser.add_argument("--timeout", type=_count, default=300, help="seconds for each sample")
    parser.add_argument("--readme", action="store_true", help="write the line of README.md")
    given = parser.parse_args(words)
    if given.readme:
        if given.operator or given.drawn or given.samples not in (None, README_SAMPLES):
            parser.error(f"--readme is about all operators and {README_SAMPLES} samples of each")
        given.samples = README_SAMPLES
    return given


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def main(words: Sequence[str] | None = None) -> int:
    """Run, print and write; returns the exit code."""
    given = _arguments(words)
    names = chosen(given.operator, given.drawn)
    if not names:
        print(f"no operator has {' or '.join(given.operator)} in its name", file=sys.stderr)
        return 2
    work = Work(given.samples, given.rtl, given.timeout)
    findings = coverage(names, work, given.jobs, progress=True)
    print(table(findings))
    print()
    print(details(findings))
    print(f"\n{summary(findings)}")
    if given.json:
        given.json.write_text(json.dumps(as_json(findings), indent=1, allow_nan=True) + "\n")
    if given.text:
        given.text.write_text(f"{summary(findings)}\n{by_kind(findings)}\n\n{details(findings)}\n")
    if given.readme:
        README.write_text(with_line(README.read_text(), summary(findings)))
    return int(bool(failures(findings)))


if __name__ == "__main__":
    sys.exit(main())
