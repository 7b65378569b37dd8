"""Accuracy on scikit-learn's digits, every test image through the RTL: the network of examples/digits_mlp.py.

    python -m benchmarks.digits [--quick]

Bound: PyTorch's own accuracy. --quick sends the first 60 test images only.
"""

from __future__ import annotations

import contextlib
import io
import sys

import torch

from benchmarks.figures import Figure, run
from examples import digits_mlp

TITLE = "Digits, accuracy on the test images"


def figures(quick: bool) -> list[Figure]:
    """All figures, measured."""
    seen, x, seen_y, y = digits_mlp.images()
    x, y = (x[:60], y[:60]) if quick else (x, y)
    net = digits_mlp.train(seen, seen_y)
    with torch.no_grad():
        reference = 100 * digits_mlp.accuracy(net(x), y)
    rows = []
    for precision, allowed in digits_mlp.ALLOWED.items():
        with contextlib.redirect_stdout(io.StringIO()):
            scores, exact, _ = digits_mlp.run_in_hardware(net, precision, seen, x)
        assert exact, f"{precision}: the hardware does not do what its models say"
        found, goal = 100 * digits_mlp.accuracy(scores, y), reference - 100 * allowed
        what = f"{precision}, {len(x)} images (PyTorch float32: {reference:.2f} %)"
        rows.append(Figure(what, found, reference, goal, "%", at_least=True, calls=len(x)))
    return rows


if __name__ == "__main__":
    sys.exit(run(TITLE, figures))
