"""Rewrites "prod" as a balanced tree of multiplications, so that every partial product gets a number format
of its own.

Before: prod(x, dims). After: mul(mul(x[0], x[1]), mul(x[2], x[3])) over slices along the folded elements.
Longer rows are folded in halves first: x[: n / 2] * x[n / 2 :].
"""

from __future__ import annotations

from torchcalyx.ir.graph import Attr, Graph, Node
from torchcalyx.kernels.arith.numerics import product

MOST_FACTORS = 64
"""Longest row whose elements are multiplied one by one."""


def expand_products(graph: Graph) -> Graph:
    """The graph without "prod" nodes."""
    nodes: list[Node] = []
    shapes = {n.name: n.shape for n in graph.nodes}
    for node in graph.nodes:
        dims = node.attr("dims") if node.op == "prod" else ()
        assert isinstance(dims, tuple)
        folded = tuple(d for d in dims if isinstance(d, int))
        count = product(shapes[node.args[0]][d] for d in folded) if node.op == "prod" else 0
        nodes += _unrolled(node, shapes[node.args[0]], folded, count) if count else [node]
    return Graph(tuple(nodes), graph.inputs, graph.outputs, graph.constants, graph.parameter_names)


def _unrolled(node: Node, shape: tuple[int, ...], dims: tuple[int, ...], count: int) -> list[Node]:
    made: list[Node] = []

    def add(
        op: str, args: tuple[str, ...], attrs: tuple[tuple[str, Attr], ...], sizes: tuple[int, ...]
    ) -> str:
        name = f"{node.name}__{len(made)}"
        made.append(Node(name, op, args, attrs, sizes, node.dtype, node.source))
        return name

    kept = tuple(d for d in range(len(shape)) if d not in dims)
    rest = tuple(shape[d] for d in kept)
    turned = add("permute", node.args, (("dims", (*kept, *dims)),), (*rest, *(shape[d] for d in dims)))
    rows = add("view", (turned,), (("shape", (*rest, count)),), (*rest, count))
    zeros, ones = (0,) * len(rest), (1,) * len(rest)

    def part(start: int, size: int) -> str:
        attrs = (("sizes", (*rest, size)), ("starts", (*zeros, start)), ("steps", (*ones, 1)))
        return add("slice", (rows,), attrs, (*rest, size))

    while count > MOST_FACTORS:
        half = count // 2
        halves = add("mul", (part(0, half), part(half, half)), (), (*rest, half))
        if count % 2:
            joined = (halves, part(count - 1, 1))
            halves = add("cat", joined, (("dim", len(rest)),), (*rest, half + 1))
        rows, count = halves, half + count % 2
    level = [part(i, 1) for i in range(count)]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [add("mul", (p[0], p[1]), (), (*rest, 1)) if len(p) == 2 else p[0] for p in pairs]
    made.append(
        Node(node.name, "view", (level[0],), (("shape", node.shape),), node.shape, node.dtype, node.source)
    )
    return made
