"""Matrix products: linear and matmul, with the elementwise operations behind them in the drain of the
engine.
"""

from __future__ import annotations

from torchcalyx.building.builder import Located
from torchcalyx.building.view import GraphView
from torchcalyx.ir.graph import Node
from torchcalyx.match import Match, Reject, Rule
from torchcalyx.rules.dot_product import dot_candidate, flattened_candidate
from torchcalyx.rules.drain import fused_head
from torchcalyx.rules.product import Candidate, Product
from torchcalyx.rules.systolic_product import systolic_candidate
from torchcalyx.rules.tree import Tree, tree_of

HEADS = ("linear", "matmul")


def _fused(view: GraphView, node: Node) -> Match | Reject:
    """A product and the elementwise tree behind it, of the same shape."""
    found = fused_head(view, node, HEADS)
    if isinstance(found, Reject):
        return found
    return _match(view, found[0], found[1], node)


def _alone(view: GraphView, node: Node) -> Match | Reject:
    if node.op not in HEADS:
        return Reject(f"{node.op} is not a matrix product", related=False)
    return _match(view, node, tree_of(view, set()), node)


def _match(view: GraphView, head: Node, tree: Tree, root: Node) -> Match | Reject:
    others = tuple(name for name in tree.leaves if name != head.name)
    covers = [head.name, *(n.name for n in tree.nodes)]
    operands = list(head.args)
    flat = _flattened(view, head)
    if flat is not None:  # the product reads the tensor before it was flattened
        operands[0] = flat.name
        if view.inside(head.args[0], {head.name}):
            covers.append(head.args[0])
    return Match(
        tuple(covers), (*operands, *others), lambda builder: _build(Product(builder, head, tree, root, flat))
    )


def _flattened(view: GraphView, head: Node) -> Node | None:
    """The tensor [..., d1, d2, ...] whose trailing axes a view has merged to the K of a linear layer."""
    x, weight = view.args(head)[:2]
    if head.op != "linear" or weight.op != "constant" or x.op != "view":
        return None
    source = view.args(x)[0]
    lead = len(x.shape) - 1
    if len(source.shape) <= lead + 1 or source.shape[:lead] != x.shape[:lead]:
        return None
    return source


def _build(p: Product) -> Located:
    """The cheaper of the dot array (constant right operand) and the systolic array."""
    spec, reads = min(_candidates(p), key=lambda c: c.cycles).make()
    buffer = p.builder.buffer(p.root.name, p.fmt, p.out.layout)
    p.builder.call(spec, reads, [buffer])
    access = p.out.access.reshape(p.root.shape)
    assert access is not None
    return Located(buffer, access, p.fmt)


def _candidates(p: Product) -> list[Candidate]:
    if p.flat is not None and p.left.shape == p.flat.shape:
        return [flattened_candidate(p)]
    found = [systolic_candidate(p)]
    if p.constant_right and p.head.op == "linear":
        found.append(dot_candidate(p))
    return found


RULES = (Rule("matmul with epilogue", _fused), Rule("matmul", _alone))
