"""Regions of a relayout's domain: what is legal, and the fewest dimensions that describe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ..arith.expr import Expr
from ..arith.numerics import product
from ..ports.access import Access, Operand
from ..ports.stage import writing_refusal


@dataclass(frozen=True, slots=True)
class GatherSource:
    """One operand of a relayout.

    operand: access over the source's own sizes, one dimension per domain dimension. starts: where its region
    begins in the domain (None: at 0). expr: one input, narrowed to the output's format. port: number of the
    memory port; sources that lie in one memory have one number (None: a port of its own; `gather` numbers
    the ports).
    """

    operand: Operand
    starts: tuple[int, ...] | None
    expr: Expr
    port: int | None = None

    @property
    def begin(self) -> tuple[int, ...]:
        """`starts`, given or not."""
        return (0,) * len(self.operand.access.sizes) if self.starts is None else self.starts

    @property
    def region(self) -> tuple[slice, ...]:
        """The part of the domain it covers."""
        return tuple(slice(s, s + n) for s, n in zip(self.begin, self.operand.access.sizes, strict=True))

    def over(self, sizes: tuple[int, ...]) -> Operand:
        """The operand continued over the whole domain; only inside the region it points into the memory."""
        starts = tuple(-s for s in self.begin)
        return replace(self.operand, access=self.operand.access.slice(starts, (1,) * len(sizes), sizes))


def covers_all(sources: Sequence[GatherSource], sizes: Sequence[int]) -> bool:
    """Whether no element of the domain is left to the fill value (regions do not overlap)."""
    return sum(product(s.operand.access.sizes) for s in sources) == product(sizes)


def output_refusal(out: Operand) -> str | None:
    """Why the assembled words cannot be written (None: they can)."""
    problem = writing_refusal(out, len(out.access.sizes) - 1)
    return f"output: {problem}" if problem else None


def regions_refusal(
    sources: Sequence[GatherSource], out: Operand, sizes: tuple[int, ...], fill: int
) -> str | None:
    """What is wrong with the sources of a relayout (None: nothing)."""
    if not sizes or not sources or not out.access.sizes:
        return "it needs at least one dimension and one source"
    if product(sizes) != product(out.access.sizes):
        return f"{product(sizes)} elements for an output of {product(out.access.sizes)}"
    if not out.fmt.min <= fill <= out.fmt.max:
        return f"fill value {fill} is not a stored integer of {out.fmt}"
    for number, source in enumerate(sources):
        problem = _source_refusal(source, out, sizes)
        if problem:
            return f"source {number}: {problem}"
    for (i, a), (j, b) in combinations(enumerate(sources), 2):
        memories = [(s.operand.fmt, s.operand.layout) for s in (a, b)]
        if a.port is not None and a.port == b.port and memories[0] != memories[1]:
            return f"sources {i} and {j} see port {a.port} in different formats or layouts"
        if all(x.start < y.stop and y.start < x.stop for x, y in zip(a.region, b.region, strict=True)):
            return f"the regions of sources {i} and {j} overlap"
    return None


def _source_refusal(source: GatherSource, out: Operand, sizes: tuple[int, ...]) -> str | None:
    own = source.operand.access.sizes
    if len(own) != len(sizes) or len(source.begin) != len(sizes):
        return f"{len(own)} dimensions and {len(source.begin)} starts for {len(sizes)} domain dimensions"
    if any(s < 0 or n < 1 or s + n > size for s, n, size in zip(source.begin, own, sizes, strict=True)):
        return f"region of {own} at {source.begin} leaves the domain {sizes}"
    if len(source.expr.inputs) != 1 or source.expr.multiplications:
        return "its expression must have one operand and no multiplication"
    if source.expr.out != out.fmt:
        return f"its expression gives {source.expr.out}, the output holds {out.fmt}"
    if source.operand.layout.lanes != out.layout.lanes:
        return f"{source.operand.layout.lanes} lanes, the output has {out.layout.lanes}"
    return None


def written(out: Operand) -> Operand:
    """The output over as few dimensions as its own map allows, the last one over the lanes."""
    merged = replace(out, access=grouped(out.access.coalesce(), None))
    # Rows of one element each do not merge into one dimension over the lanes.
    return out if out.access.sizes and output_refusal(merged) else merged


def merge_dimensions(sources: Sequence[GatherSource], sizes: Sequence[int]) -> list[list[int]]:
    """Dimensions longer than 1, grouped where one step serves every source and the inner is covered."""
    accesses = [s.operand.access for s in sources]
    groups: list[list[int]] = []
    for dim, size in enumerate(sizes):
        if size == 1:
            continue
        if (
            groups
            and all(a.sizes[dim] == size for a in accesses)
            and all(_follows(a, groups[-1][-1], dim) for a in accesses)
        ):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups or [[len(sizes) - 1]]


def _follows(access: Access, outer: int, inner: int) -> bool:
    """Whether a step of `outer` is as long as all of `inner`."""
    step = tuple(k * access.sizes[inner] for k in access.column(inner))
    return access.sizes[outer] == 1 or access.column(outer) == step


def grouped(access: Access, groups: Sequence[Sequence[int]] | None) -> Access:
    """The access over merged dimensions (None: each is its own group); a dimension of size 1 has step 0."""
    groups = [[d] for d in range(len(access.sizes))] if groups is None else groups
    if not groups:
        return access.over((1,), tuple((0,) for _ in access.steps))
    sizes = tuple(product(access.sizes[d] for d in g) for g in groups)
    steps = tuple(
        tuple(row[g[-1]] if n > 1 else 0 for g, n in zip(groups, sizes, strict=True)) for row in access.steps
    )
    return access.over(sizes, steps)
