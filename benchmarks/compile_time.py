"""CPU seconds of `torchcalyx.compile` alone for ResNet-18, and how they compare with another checkout.

    python -m benchmarks.compile_time                          # this checkout
    python -m benchmarks.compile_time --against OTHER [N]      # both in alternation, N times (default 2)

From module to .futil, without Verilog; user time of fresh processes on one thread, without imports. OTHER is
the folder of another checkout, for which only its compiler is used. The goal: at most 1.5 times its time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RATIO = 1.5
SIZES = (32, 224)
PRECISIONS = ("fixed16", "fixed8")
ROOT = Path(__file__).resolve().parent.parent


class Block(nn.Module):
    """Two 3x3 convolutions with batch norms around a shortcut."""

    def __init__(self, channels: int, features: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, features, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(features)
        self.conv2 = nn.Conv2d(features, features, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(features)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels != features:
            projection = nn.Conv2d(channels, features, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(features))

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width)."""
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """The network of "Deep Residual Learning for Image Recognition" (He, Zhang, Ren, Sun 2016)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        sizes = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        blocks = [(Block(c, f, stride), Block(f, f, 1)) for c, f, stride in sizes]
        self.layers = nn.Sequential(*(block for pair in blocks for block in pair))
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 3, height, width)."""
        y = F.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        scores: Tensor = self.fc(F.adaptive_avg_pool2d(self.layers(y), 1).flatten(1))
        return scores


def seconds(precision: str, size: int) -> float:
    """User CPU seconds of one compilation in this process."""
    import torchcalyx

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, x = ResNet18().eval(), torch.rand(1, 3, size, size)
    with torch.no_grad():  # statistics as training leaves them
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr,operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        torchcalyx.compile(net, x, precision=precision)
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime - start


def apart(checkout: Path, precision: str, size: int) -> float:
    """The same in a process of its own, with the compiler of a checkout."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, str(Path(__file__).resolve()), "one", precision, str(size)]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


def compared(other: Path | None, times: int) -> int:
    """Print the table; 1 where the goal is missed."""
    checkouts = [ROOT] if other is None else [other, ROOT]
    failed = False
    for size in SIZES:
        for precision in PRECISIONS:
            found: dict[Path, list[float]] = {checkout: [] for checkout in checkouts}
            for _ in range(times):
                for checkout in checkouts:
                    found[checkout].append(apart(checkout, precision, size))
            shown = ", ".join(" ".join(f"{s:.1f}" for s in runs) + " s" for runs in found.values())
            line = f"ResNet-18 {size}x{size} {precision:7}  {shown}"
            if other is not None:
                ratio = median(found[ROOT]) / median(found[other])
                failed |= ratio > RATIO
                line += f"  ratio {ratio:.2f}{'   MISSED' if ratio > RATIO else ''}"
            print(line, flush=True)
    return int(failed)


def main(*arguments: str) -> int:
    """The benchmark, or the measurement of one process: `one PRECISION SIZE`."""
    if arguments[:1] == ("one",):
        print(seconds(arguments[1], int(arguments[2])))
        return 0
    if arguments[:1] == ("--against",):
        return compared(Path(arguments[1]).resolve(), int(arguments[2]) if len(arguments) > 2 else 2)
    return compared(None, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
