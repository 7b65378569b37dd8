"""CPU seconds and memory from a torch module to Calyx and Verilog text, by fresh processes without a cache.

    python -m benchmarks.build_cost

- A 16 x 16 systolic engine (256 multipliers), one product.
- A perceptron of ten layers of width 512 (2.6 million parameters) on 64 multipliers.

Seconds: user and system time of torchcalyx and of Calyx, without the imports of torch and torchcalyx.
Memory: the largest resident size of torchcalyx (torch and all imports in it) plus that of Calyx.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, run

TITLE = "From module to .futil and Verilog"
SECONDS, MEGABYTES = 5, 1000
JOBS = {
    "engine": "16x16 engine, 256 multipliers",
    "perceptron": "10 layers of width 512, 64 multipliers",
}


def cost_of_futil(job: str, file: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of this process for the .futil of a job, which goes to `file`."""
    import torch

    import torchcalyx
    from benchmarks.batch_one import mlp
    from benchmarks.gemm import Product

    start = time.process_time()
    if job == "engine":
        operands = torch.rand(16, 16), torch.rand(16, 16)
        hw = torchcalyx.compile(Product().eval(), operands, multipliers=256, lanes=16)
    else:
        hw = torchcalyx.compile(mlp(*[512] * 11).eval(), torch.rand(1, 512), multipliers=64)
    file.write_text(hw.futil)
    # Not ru_maxrss: it starts at the size of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert peak is not None
    return time.process_time() - start, int(peak[1]) * 1024 / 1e6


def cost_of_verilog(file: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of Calyx for the program in `file`; the Verilog goes beside it."""
    from torchcalyx.tools.toolchain import compile_calyx, find_tool

    find_tool("calyx")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    file.with_suffix(".sv").write_text(compile_calyx(file.read_text()))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, after.ru_maxrss * 1024 / 1e6


def apart(*arguments: str, cache: str) -> tuple[float, float]:
    """One of the two functions above in a process of its own; Calyx's is started by one without torch."""
    command = [sys.executable, "-m", "benchmarks.build_cost", *arguments]
    environment = os.environ | {"TORCHCALYX_CACHE": cache}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds, megabytes = json.loads(done.stdout)
    return seconds, megabytes


def figures(quick: bool) -> list[Figure]:
    """All figures, measured; `quick` leaves out the perceptron."""
    rows = []
    for job in list(JOBS)[:1] if quick else JOBS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "design.futil"
            ours = apart("futil", job, str(file), cache=folder)
            calyx = apart("verilog", str(file), cache=folder)
            sizes = [part.stat().st_size / 1000 for part in (file, file.with_suffix(".sv"))]
        what = f"{JOBS[job]} (.futil {sizes[0]:.0f} kB, Verilog {sizes[1]:.0f} kB)"
        rows.append(Figure(what, ours[0] + calyx[0], goal=SECONDS, unit="s"))
        rows.append(Figure(f"{what}, peak", ours[1] + calyx[1], goal=MEGABYTES, unit="MB"))
    return rows


def main(*arguments: str) -> int:
    """The benchmark, or one of its processes: `futil JOB FILE`, `verilog FILE`."""
    if arguments[:1] == ("futil",):
        print(json.dumps(cost_of_futil(arguments[1], Path(arguments[2]))))
        return 0
    if arguments[:1] == ("verilog",):
        print(json.dumps(cost_of_verilog(Path(arguments[1]))))
        return 0
    return run(TITLE, figures)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
