"""The fastest relayout kernel for a copy: words where rows or blocks allow it, else one element a cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..contract import KernelParameterError
from ..ports.access import Operand
from .gather import Gather, GatherSource, gather
from .splice import Splice, splice
from .transpose import Transpose, transpose

__all__ = ["GatherSource", "relayout"]


def relayout(
    sources: Sequence[GatherSource], out: Operand, fill: int = 0, sizes: tuple[int, ...] | None = None
) -> Gather | Splice | Transpose:
    """The kernel with the fewest cycles of `gather`, `splice` and `transpose`; all compute the same.

    Arguments and errors as `gather`; ports are numbered in the order in which sources name them.
    """
    slow = gather(sources, out, fill, sizes)
    found: list[Gather | Splice | Transpose] = [slow]
    if _domain(sources, sizes) in (None, out.access.sizes):
        tries: list[Callable[[], Splice | Transpose]] = [lambda: splice(sources, out, fill)]
        if len(sources) == 1 and sources[0].operand.access.sizes == out.access.sizes:
            tries.append(lambda: transpose(sources[0].operand, sources[0].expr, out))
        for make in tries:
            try:
                found.append(make())
            except KernelParameterError:
                continue  # the other kernels serve it
    return min(found, key=lambda kernel: kernel.cycles())


def _domain(sources: Sequence[GatherSource], sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The domain when it may differ from the output's."""
    if sizes is None and len(sources) == 1 and sources[0].starts is None:
        return sources[0].operand.access.sizes
    return sizes
