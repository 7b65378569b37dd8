"""Domains of kernels that fold dimensions: kept ones first, both kinds merged where accesses allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import KernelParameterError
from .access import Access, Operand
from .stage import coalesce, positions


def split_domain(
    operands: Sequence[Operand],
    reduced: tuple[int, ...],
    results: Sequence[Operand],
    *,
    ordered: bool = False,
) -> Iterator[tuple[tuple[Access, ...], int, bool]]:
    """Equal domains for a fold of dimensions: (accesses, number of kept dimensions, other lanes).

    operands loop over the whole domain, `results` over the kept dimensions in their order. In the accesses
    the kept dimensions come first; folded ones are sorted by the first operand's steps, then each of them
    in turn stands last (`other lanes` after the first), or, with `ordered`, they keep their order. Both
    kinds have at least one dimension. Raises KernelParameterError when the dimensions do not fit together.
    """
    sizes = operands[0].access.sizes if operands else ()
    if not operands or any(o.access.sizes != sizes for o in operands):
        raise KernelParameterError(f"operands to fold loop over {[o.access.sizes for o in operands]}")
    if len(set(reduced)) != len(reduced) or any(not 0 <= d < len(sizes) for d in reduced):
        raise KernelParameterError(f"cannot fold dimensions {reduced} of {sizes}")
    kept = tuple(d for d in range(len(sizes)) if d not in reduced)
    shape = tuple(sizes[d] for d in kept)
    for result in results:
        if result.access.sizes != shape and (shape or result.access.sizes != (1,)):
            raise KernelParameterError(
                f"folding dimensions {reduced} of {sizes} leaves {shape}, a result has {result.access.sizes}"
            )
    steps = positions(operands[0])[1]
    order = tuple(sorted(reduced) if ordered else sorted(reduced, key=lambda d: -abs(steps[d])))
    folded = _at_least_one(coalesce([o.access.permute(order) for o in operands]))
    plain = [o.access.permute(kept) for o in operands] + [r.access for r in results]
    merged = coalesce(plain)
    # Where the last dimension has size 1, only the unmerged form may be writable: rows of one element each.
    forms = [merged, tuple(plain)] if shape and merged[0].sizes != shape else [merged]
    for form in forms:
        form = _at_least_one(form)
        for last in range(len(folded[0].sizes) - 1, -1, -1)[: 1 if ordered else None]:
            turned = (*(d for d in range(len(folded[0].sizes)) if d != last), last)
            parts = [
                _joined(k, f.permute(turned)) for k, f in zip(form[: len(operands)], folded, strict=True)
            ]
            yield (*parts, *form[len(operands) :]), len(form[0].sizes), last != len(folded[0].sizes) - 1


def _at_least_one(accesses: Sequence[Access]) -> tuple[Access, ...]:
    if accesses[0].sizes:
        return tuple(accesses)
    return tuple(a.over((1,), tuple((0,) for _ in a.steps)) for a in accesses)


def _joined(kept: Access, folded: Access) -> Access:
    steps = tuple(k + f for k, f in zip(kept.steps, folded.steps, strict=True))
    return kept.over(kept.sizes + folded.sizes, steps)
