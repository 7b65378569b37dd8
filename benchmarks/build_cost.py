"""CPU seconds and memory from a torch module to Calyx and Verilog text, each in a process and cache of its own.

    python -m benchmarks.build_cost

- A 16 x 16 systolic engine (256 multipliers), one product.
- A perceptron of ten layers of width 512 (2.6 million parameters) on 64 multipliers.

Seconds: user and system time of the compiler and of Calyx, without the imports of torch and torchcalyx.
Memory: the largest resident size of the compiler, imports included, plus that of Calyx.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import torch

import torchcalyx
from benchmarks.batch_one import mlp
from benchmarks.figures import Figure, run
from benchmarks.gemm import Product

TITLE = "From module to .futil and Verilog"
SECONDS, MEGABYTES = 5, 1000
JOBS = {
    "engine": "16x16 engine, 256 multipliers",
    "perceptron": "perceptron, 10 layers of width 512, 64 multipliers",
}


def measure_here(job: str) -> dict[str, float]:
    """CPU seconds, resident megabytes and sizes of both texts, of one job in this process."""
    start = cpu_seconds()
    if job == "engine":
        a, b = torch.rand(16, 16), torch.rand(16, 16)
        hw = torchcalyx.compile(Product().eval(), (a, b), multipliers=256, lanes=16)
    else:
        hw = torchcalyx.compile(mlp(*[512] * 11).eval(), torch.rand(1, 512), multipliers=64)
    futil, verilog = hw.futil, hw.verilog
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    kilobytes = sum(resource.getrusage(who).ru_maxrss for who in whose)
    megabytes = kilobytes * 1024 / 1e6
    return {"s": cpu_seconds() - start, "MB": megabytes, "futil": len(futil), "verilog": len(verilog)}


def cpu_seconds() -> float:
    """User and system time of this process and of the children it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure_apart(job: str) -> dict[str, float]:
    """The same in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.build_cost", "--here", job]
        environment = os.environ | {"TORCHCALYX_CACHE": cache}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def figures(quick: bool) -> list[Figure]:
    """All figures, measured; `quick` makes no difference."""
    rows = []
    for job, what in JOBS.items():
        found = measure_apart(job)
        text = f"{what}: .futil {found['futil'] / 1000:.0f} kB, Verilog {found['verilog'] / 1000:.0f} kB"
        rows.append(Figure(text, found["s"], goal=SECONDS, unit="s"))
        rows.append(Figure(f"{what}: peak", found["MB"], goal=MEGABYTES, unit="MB"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measure_here(sys.argv[2])))
    else:
        sys.exit(run(TITLE, figures))
