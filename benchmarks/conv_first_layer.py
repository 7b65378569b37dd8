"""Cycles of first layers with one or three input channels, on the window kernel and on the dot kernel.

    python benchmarks/conv_first_layer.py [--quick]

Each layer has 16-bit operands, bias and ReLU. Its input lies in memory as planes (neighbouring pixels of one
channel fill a word) or as pixels (a word starts each pixel). The window kernel's figures are simulated with
random data and checked against the software model, the dot kernel's are its prediction. The bound is the dot
array's: one full word of the window in each cycle. --quick leaves out what takes more than a few seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder
from torchcalyx.kernels.arith.numerics import ceil_div, fixed, product
from torchcalyx.kernels.bench import bench
from torchcalyx.kernels.contract import KernelParameterError, reads, writes
from torchcalyx.kernels.ports.access import Layout, Operand, whole
from torchcalyx.kernels.products.contraction import accumulator
from torchcalyx.kernels.products.dot import Dot
from torchcalyx.kernels.products.window import WindowDot
from torchcalyx.simulate import simulate
from torchcalyx.tools.toolchain import compile_calyx

ACT, WEIGHT = fixed(16, 8), fixed(16, 14)


@dataclass(frozen=True)
class Layer:
    """A first layer; pads are before and after each axis."""

    name: str
    channels: int
    size: tuple[int, int]
    features: int
    kernel: tuple[int, int]
    stride: int = 1
    pads: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    lanes: int = 8
    slow: bool = False


LAYERS = (
    Layer("paper's CNN 80x60", 3, (80, 60), 8, (5, 5), slow=True),
    Layer("LeNet 28x28", 1, (28, 28), 6, (5, 5)),
    Layer("LeNet 28x28, padding 2", 1, (28, 28), 6, (5, 5), 1, ((2, 2), (2, 2))),
    Layer("LeNet on 8x8, padding 2", 1, (8, 8), 6, (5, 5), 1, ((2, 2), (2, 2))),
    Layer("DS-CNN 49x10", 1, (49, 10), 64, (10, 4), 2, ((4, 5), (1, 1))),
    Layer("ResNet-8 32x32", 3, (32, 32), 16, (3, 3), 1, ((1, 1), (1, 1)), 16, slow=True),
    Layer("CREPE 1024 samples", 1, (1, 1024), 128, (1, 512), 4, ((0, 0), (254, 254)), 16, slow=True),
)


def operand(shape: Sequence[int], lanes: int) -> Operand:
    """A tensor whose rows start words."""
    layout = Layout(product(shape[:-1]), shape[-1], lanes)
    return Operand(ACT, layout, whole(shape, layout))


def windows(layer: Layer, order: str) -> Operand:
    """The input over (row, column, kernel row, kernel column, channel)."""
    if order == "planes":
        stored = operand((layer.channels, *layer.size), layer.lanes)
        image = stored.access.permute((1, 2, 0))
    else:
        stored = operand((*layer.size, layer.channels), layer.lanes)
        image = stored.access
    (top, bottom), (left, right) = layer.pads
    padded = image.pad((top, left, 0), (bottom, right, 0), 0)
    assert padded is not None
    slid = padded.window(0, layer.kernel[0], layer.stride).window(1, layer.kernel[1], layer.stride)
    return Operand(ACT, stored.layout, slid.permute((0, 1, 3, 4, 2)))


def drain(inner: int) -> Expr:
    """relu(sum + bias), rounded to 16 bits."""
    b = ExprBuilder()
    value = b.add(b.input(accumulator(ACT, WEIGHT, inner)), b.input(ACT))
    return b.build(b.maximum(value, b.const(0)), ACT)


def kernel(layer: Layer, order: str, kind: type[WindowDot] | type[Dot]) -> WindowDot | Dot:
    """The layer on one of the kernels; its columns are the lanes."""
    left = windows(layer, order)
    domain = (*left.access.sizes[:2], layer.features)
    bias = operand((layer.features,), layer.lanes)
    wide = Operand(ACT, bias.layout, bias.access.expand(domain))
    inner = layer.channels * product(layer.kernel)
    return kind(
        left,
        WEIGHT,
        layer.features,
        layer.lanes,
        drain(inner),
        (wide,),
        operand(domain, layer.lanes),
        contracted=3,
    )


def measured(spec: WindowDot | Dot) -> int:
    """Simulated cycles of one call; asserts result and prediction."""
    rng = np.random.default_rng(0)
    arrays, images = [], {}
    for port in reads(spec):
        layout, fmt = port.operand.layout, port.operand.fmt
        arrays.append(rng.integers(fmt.min, fmt.max, (layout.rows, layout.cols), endpoint=True) >> 4)
        images[f"m_{port.name}"] = layout.pack(arrays[-1])
    program = bench(spec)
    memories = []
    for port in program.ports:
        role: Role = "input" if port.access == "read" else "output"
        layout = port.operand.layout
        memories.append(
            DesignMemory(f"m_{port.name}", layout.words, layout.lanes, port.operand.fmt.width, role)
        )
    design = Design(program.futil, tuple(memories), program.cycles)
    result = simulate(design, compile_calyx(design.futil), [images])
    for port, want in zip(writes(spec), spec.emulate(*arrays).outputs, strict=True):
        assert np.array_equal(port.operand.layout.unpack(result.outputs[0][f"m_{port.name}"]), want)
    assert result.cycles == (spec.cycles(),), "predicted and simulated cycles differ"
    return result.cycles[0]


def row(layer: Layer) -> None:
    """One line of the table; a dash where the kernel does not take the layout."""
    sizes = windows(layer, "planes").access.sizes
    words, tiles = ceil_div(product(sizes[2:]), layer.lanes), ceil_div(layer.features, layer.lanes)
    bound = product(sizes[:2]) * words * tiles
    cycles: list[int | None] = []
    for order in ("planes", "pixels"):
        try:
            cycles.append(measured(kernel(layer, order, WindowDot)))
        except KernelParameterError:
            cycles.append(None)
    cycles.append(kernel(layer, "pixels", Dot).cycles())
    figures = " ".join(f"{n:>8} {n / bound:>5.2f}" if n else f"{'-':>14}" for n in cycles)
    print(f"{layer.name:<24} {layer.lanes**2:>5} {bound:>7} {figures}")


def main(*arguments: str) -> None:
    """Print the table."""
    if set(arguments) - {"--quick"}:
        sys.exit(f"usage: python benchmarks/conv_first_layer.py [--quick], not {' '.join(arguments)}")
    heads = " ".join(f"{head:>14}" for head in ("window, planes", "window, pixels", "dot, pixels"))
    print(f"{'first layer':<24} {'mults':>5} {'bound':>7} {heads}")
    for layer in LAYERS:
        if not (layer.slow and "--quick" in arguments):
            row(layer)


if __name__ == "__main__":
    main(*sys.argv[1:])
