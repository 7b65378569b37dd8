"""From a PyTorch module to a Calyx program, and to a folder that simulates without Python.

    python examples/emit_futil.py [DIRECTORY]

The folder holds `design.futil`, the Verilog that the Calyx compiler makes of it, the memories' contents, a
test bench and a README with the commands that run it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import torchcalyx


class Gate(nn.Module):
    """One small layer whose output is scaled element by element."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 4)

    def forward(self, x: Tensor, gain: Tensor) -> Tensor:
        """x: (batch, 6). gain: (4,)."""
        return torch.relu(self.inner(x)) * gain + 0.5


def main(directory: Path) -> None:
    """Emit the program, show its shape, save the folder and check what it computes."""
    torch.manual_seed(0)
    inputs = (torch.randn(3, 6), torch.rand(4))
    module = Gate().eval()
    hw = torchcalyx.compile(module, inputs, multipliers=4)

    print(hw.explain())
    print("\ncomponents of the program:")
    for component in re.findall(r"^(?:static<\d+> )?component \w+", hw.futil, re.MULTILINE):
        print(f"  {component}")

    saved = hw.save(directory)
    print(f"\nsaved in {saved}:")
    for path in sorted(p for p in saved.rglob("*") if p.is_file()):
        print(f"  {path.relative_to(saved)!s:28} {path.stat().st_size:7} bytes")
    assert (saved / "design.futil").read_text() == hw.futil

    run = hw.simulate(*inputs)
    with torch.no_grad():
        error = (run.outputs - module(*inputs)).abs().max().item()
    print(f"\n{run.cycles} cycles, max error against PyTorch {error:.1e}")
    assert run.cycles == hw.cycles
    assert torch.equal(run.outputs, hw.emulate(*inputs))
    assert error < 1e-3


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "gate")
