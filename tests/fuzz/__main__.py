"""`python -m tests.fuzz COUNT [--seed S] [--out DIR]`: run random graphs, save every failing one as a
runnable file.
"""

from __future__ import annotations

import random
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import click
import hypothesis
from hypothesis import HealthCheck, Phase

from tests.fuzz.graphs import graphs
from tests.fuzz.minimise import minimise
from tests.fuzz.program import Program, load
from tests.fuzz.runner import Failure, InvalidProgram, Verdict, judge


def run(program: Program) -> Verdict:
    """The verdict on a program."""
    loaded = load(program.source)
    return judge(loaded.make_model, loaded.make_vectors, loaded.options)


def fails_like(kind: str, program: Program) -> bool:
    """Whether a (perhaps invalid) program fails in that way."""
    try:
        verdict = run(program)
    except Exception:  # the text is no valid program
        return False
    return verdict.failure is not None and verdict.failure.kind == kind


def signature(kind: str, program: Program) -> str:
    """What tells one bug from another: how it fails, and the operations of the smallest program that does."""
    if kind.startswith(("error", "crash", "refused")):
        return kind
    body = "; ".join(map(str, program.lines))
    return f"{kind} | {re.sub(r'self[.]|member|buffer|(?<![a-z])-?[0-9.]+|[vx](?=[0-9])', '', body)}"


def save(folder: Path, number: int, program: Program, failure: Failure) -> Path:
    """Write a program with what is wrong about it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", failure.kind.lower()).strip("-")[:60]
    text = str(failure).replace("\\", "\\\\").replace('"""', "'''")
    path = folder / f"{number:04d}-{name}.py"
    path.write_text(f'"""{text}\n"""\n\n{program.source}')
    return path


def fuzz(count: int, seed: int, folder: Path, seconds: float) -> int:
    """Run `count` different graphs; the number of distinct bugs. Each is made small and saved once."""
    kinds: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    seen: set[str] = set()
    start = time.monotonic()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, phases=[Phase.generate], database=None, deadline=None, derandomize=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(graphs())
    def each(program: Program) -> None:
        seen.add(program.source)
        try:
            verdict = run(program)
        except InvalidProgram as error:
            totals["invalid"] += 1
            click.echo(f"graph {len(seen)}: torch does not run it: {error}")
            return
        totals["vectors"] += verdict.vectors
        totals["refused"] += bool(verdict.refused)
        if verdict.failure is None:
            return
        kind = verdict.failure.kind
        small = minimise(program, lambda p: fails_like(kind, p), seconds)
        found = signature(kind, small)
        kinds[found] += 1
        if kinds[found] == 1:
            path = save(folder, len(seen), small, run(small).failure or verdict.failure)
            click.echo(f"graph {len(seen)}: {found}\n    {path}")

    each()
    spent = time.monotonic() - start
    click.echo(
        f"{len(seen)} graphs in {spent:.0f} s, {totals['vectors']} simulated vectors, "
        f"{sum(kinds.values())} failures of {len(kinds)} kinds, "
        f"{totals['refused']} refused for good reason, {totals['invalid']} invalid"
    )
    return len(kinds)


@click.command()
@click.argument("count", type=click.IntRange(1), default=100)
@click.option("--seed", type=int, help="Seed of the graphs; a new one by default.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("fuzz-failures"), help="Folder of failing graphs."
)
@click.option("--seconds", type=float, default=20.0, help="Time to make one failing graph small.")
def main(count: int, seed: int | None, out: Path, seconds: float) -> None:
    """Run COUNT random graphs through the whole compiler and save every failing one."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    warnings.simplefilter("ignore")
    click.echo(f"{count} graphs, seed {seed} (again: python -m tests.fuzz {count} --seed {seed})")
    sys.exit(fuzz(count, seed, out, seconds) > 0)


if __name__ == "__main__":
    main()
