"""Rows of which masks of minus infinity leave nothing: what torch gives there has no fixed-point value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchcalyx.errors import InputError, UnsupportedOpError
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.ir.masks import Head, infinite_leaves, inputs_of_masks, left_out_completely

NOT_A_NUMBER = (
    "with minus infinity torch gives NaN there, which has no fixed-point value; leave one position, or mask "
    "with a finite number"
)
INFINITE = (
    "torch gives an infinity there, which has no fixed-point value; leave one position, or mask with a "
    "finite number"
)


def refuse_constant_masks(graph: Graph, head: Head, masks: set[str]) -> None:
    """UnsupportedOpError where masks known at compile time leave nothing of a row."""
    scores = {leaf.name for leaf in head.leaves} - masks
    if inputs_of_masks(graph, head) - scores:
        return  # the call decides
    zeros = {n: np.zeros(graph.node(n).shape) for n in graph.inputs}
    row = left_out_completely(graph, head, zeros)
    if row is not None:
        place = graph.node(head.value).source
        raise UnsupportedOpError(
            f"the mask in front of the {_reader(head)} at {place} leaves nothing of row {list(row)}: "
            f"{INFINITE if head.extreme else NOT_A_NUMBER}"
        )


def refuse_empty_rows(graph: Graph, heads: Sequence[Head], arrays: Sequence[Array]) -> None:
    """InputError where the masks of a call leave nothing of a row. arrays: one for each of the inputs."""
    given = dict(zip(graph.inputs, arrays, strict=True))
    for head in heads:
        names = inputs_of_masks(graph, head)
        infinite = {n for n in names if np.isneginf(np.asarray(given[n], np.float64)).any()}
        if not names or not (infinite or infinite_leaves(graph, head)):
            continue
        row = left_out_completely(graph, head, given)
        if row is not None:
            place = graph.node(head.value).source
            masks = infinite | {n for n in names if graph.node(n).dtype == "bool"} or names
            raise InputError(
                f"the mask in front of the {_reader(head)} at {place} leaves nothing of row {list(row)} "
                f"(it depends on {', '.join(sorted(masks))}): {INFINITE if head.extreme else NOT_A_NUMBER}"
            )


def _reader(head: Head) -> str:
    return "extreme" if head.extreme else "softmax"
