"""The systolic array generator that ships with Calyx: its cycles for one N x K x N product, measured here.

The generator (`frontends/systolic-lang` of the crate's source) makes an output-stationary N x N array of
32-bit fixed point, one memory for each row and column, for one single product. Its result is compared with
numpy's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from torchcalyx.toolchain import compile_calyx, crate_sources, find_tool, vvp_path

_TESTBENCH = """module bench;
  reg clk = 0, reset = 1, go = 0;
  wire done;
  integer cycles = 0;
  main dut (.clk(clk), .reset(reset), .go(go), .done(done));
  always #5 clk = ~clk;
  initial begin
    {load}
    repeat (3) @(negedge clk);
    reset = 0; go = 1;
    #1;
    while (!done && cycles < 100000) begin
      @(negedge clk);
      cycles = cycles + 1;
      #1;
    end
    {store}
    $display("cycles %0d", cycles);
    $finish;
  end
endmodule
"""


class Unavailable(Exception):
    """What is missing to run the generator."""


def generator() -> Path:
    """The generator's script; Unavailable when the crate's source is not on this machine."""
    for folder in crate_sources():
        script = folder / "frontends" / "systolic-lang" / "gen-systolic.py"
        if script.is_file():
            return script
    raise Unavailable("the calyx crate's source (frontends/systolic-lang) is not on this machine")


def cycles(size: int, inner: int, *, fixed: bool) -> int:
    """Cycles from go to done of one product (size x inner) @ (inner x size); asserts the result.

    fixed: with the generator's option for dimensions known when it runs.
    """
    script = generator()
    sizes = ["-tl", str(size), "-td", str(inner), "-ll", str(size), "-ld", str(inner)]
    command = [sys.executable, script.name, *sizes, *(["--fixed-dim"] if fixed else [])]
    futil = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=True).stdout
    rng = np.random.default_rng(size)
    left, top = rng.integers(-40, 40, (size, inner)), rng.integers(-40, 40, (inner, size))
    memories = {f"l{i}": left[i] for i in range(size)} | {f"t{i}": top[:, i] for i in range(size)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for memory, values in memories.items():
            (folder / f"{memory}.hex").write_text(
                "\n".join(f"{(int(v) << 16) & 0xFFFFFFFF:08x}" for v in values)
            )
        count = _simulate(folder, compile_calyx(futil), size, list(memories))
        rows = [_row(folder / f"out{i}.hex") for i in range(size)]
    assert np.array_equal(np.array(rows), left @ top), (
        f"systolic-lang {size}x{inner}x{size} computes something else"
    )
    return count


def _simulate(folder: Path, verilog: str, size: int, memories: list[str]) -> int:
    load = " ".join(f'$readmemh("{m}.hex", dut.{m}.mem);' for m in memories)
    store = " ".join(f'$writememh("out{i}.hex", dut.out_mem_{i}.mem);' for i in range(size))
    (folder / "design.sv").write_text(verilog)
    (folder / "bench.sv").write_text(_TESTBENCH.format(load=load, store=store))
    icarus = str(find_tool("icarus").path)
    build = [icarus, "-g2012", "-o", "bench.vvp", "bench.sv", "design.sv"]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    run = [str(vvp_path()), "-n", "bench.vvp"]
    printed = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True).stdout
    return int(printed.split("cycles ")[1].split()[0])


def _row(file: Path) -> list[int]:
    words = [line for line in file.read_text().splitlines() if not line.startswith("//")]
    return [(int(w, 16) ^ 0x80000000) - 0x80000000 >> 16 for w in words]
