"""Size of the Calyx program against the number of parameters: weights are data, never text in the program.

    python benchmarks/futil_size.py

Prints the size of `.futil` for a multilayer perceptron of width 32 and of width 512 on the same multipliers.
Exit code 1 unless the two programs are the same but for numbers (sizes, counts, constants) and the digests in
component names.
"""

from __future__ import annotations

import re
import sys

import torch
from torch import nn

import torchcalyx

LAYERS = 3


def mlp(width: int) -> nn.Module:
    """Hidden layers of one width, ReLU between them."""
    torch.manual_seed(0)
    hidden = [part for _ in range(LAYERS) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden[:-1]).eval()


def skeleton(futil: str) -> str:
    """The program without numbers and without the digests of parameters in names."""
    return re.sub(r"\d+", "0", re.sub(r"_[0-9a-f]{8}(?![0-9a-f])", "_#", futil))


def main(narrow: int = 32, wide: int = 512) -> int:
    """Print one line a width; returns the exit code."""
    programs = []
    print(f"{LAYERS}-layer perceptron on 64 multipliers")
    for width in (narrow, wide):
        model = mlp(width)
        count = sum(p.numel() for p in model.parameters())
        hw = torchcalyx.compile(model, torch.randn(1, width), multipliers=64)
        programs.append(hw.futil)
        print(f"width {width:4}: {count:8} parameters, .futil {len(hw.futil):6} bytes, {hw.cycles:6} cycles")
    growth = len(programs[1]) - len(programs[0])
    same = skeleton(programs[0]) == skeleton(programs[1])
    print(f"growth: {growth} bytes; the same program but for numbers: {'yes' if same else 'NO'}")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
