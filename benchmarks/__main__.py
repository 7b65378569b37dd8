"""All benchmarks with a goal, one table each, and whether every goal is met.

    python -m benchmarks [--quick]

Exit code 1 when one is missed, or not run for lack of a tool. --quick takes the smaller sizes of each.
"""

from __future__ import annotations

import sys

from benchmarks import (
    batch_one,
    build_cost,
    convolution,
    digits,
    eight_bits,
    exactness,
    gemm,
    systolic_lang,
    transforms,
    vectors,
)
from benchmarks.figures import Figure, show
from torchcalyx.errors import ToolNotFound

MODULES = (
    gemm,
    systolic_lang,
    batch_one,
    vectors,
    transforms,
    digits,
    eight_bits,
    convolution,
    build_cost,
    exactness,
)


def main(*arguments: str) -> int:
    """Print all tables; returns the exit code."""
    if set(arguments) - {"--quick"}:
        print(f"unknown argument {' '.join(arguments)}; the only one is --quick", file=sys.stderr)
        return 2
    found: list[Figure] = []
    absent: list[str] = []
    for module in MODULES:
        try:
            rows = module.figures("--quick" in arguments)
        except ToolNotFound as error:
            print(f"\n{module.TITLE}: not run\n\n{error}", flush=True)
            absent.append(module.TITLE)
            continue
        show(module.TITLE, rows)
        found += rows
    goals, calls = [f for f in found if f.goal is not None], sum(f.calls for f in found)
    missed = [f.what for f in goals if not f.met]
    print(f"\n{calls} calls of simulated hardware, each equal to its model and as long as predicted")
    print(f"{len(goals) - len(missed)} of {len(goals)} goals met")
    for what in missed:
        print(f"  missed: {what}")
    for title in absent:
        print(f"  not run: {title}")
    return int(bool(missed or absent))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
