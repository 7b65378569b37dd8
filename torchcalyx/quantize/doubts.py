"""What is doubtful before anything runs: inputs that calibration has seen with one value only, and formats
that do not hold the calibration data (`misfits`).
"""

from __future__ import annotations

from collections.abc import Sequence

from torchcalyx.errors import AccuracyWarning
from torchcalyx.ir.graph import Array, Graph
from torchcalyx.kernels.arith.numerics import product
from torchcalyx.options import Options
from torchcalyx.quantize import Typed
from torchcalyx.quantize.misfits import misfits
from torchcalyx.quantize.precision import Precisions
from torchcalyx.selection import Selection
from torchcalyx.warn import warn


def warn_of_doubts(
    typed: Typed,
    selection: Selection,
    samples: Sequence[Sequence[Array]],
    paths: Sequence[str],
    options: Options,
) -> None:
    """An AccuracyWarning for each kind of doubt, unless the user ignores inaccuracy. paths: how the user
    names each input.
    """
    if options.on_inaccurate == "ignore":
        return
    stored = {value.node: value.fmt for value in selection.values}
    texts = (
        constant_inputs(typed, samples, paths, options),
        misfits(typed, stored, samples, paths, options),
    )
    for text in texts:
        if text:
            warn(AccuracyWarning, text)


def constant_inputs(
    typed: Typed, samples: Sequence[Sequence[Array]], paths: Sequence[str], options: Options
) -> str:
    """The warning about float inputs of several elements that matter, have one and the same value in all
    calibration inputs, and decide over formats; "" without any. paths: how the user names each input.
    """
    graph = typed.graph
    nodes, precisions = graph.by_name, Precisions(graph, options)
    doubtful: list[str] = []
    for place, (name, path) in enumerate(zip(graph.inputs, paths, strict=True)):
        node = nodes[name]
        if not node.dtype.startswith("float") or product(node.shape) < 2:
            continue
        ends = {float(end) for sample in samples for end in (sample[place].min(), sample[place].max())}
        if len(ends) > 1:
            continue
        reached = _reached(graph, name)
        calibrated = any(
            nodes[n].dtype.startswith("float") and isinstance(precisions.choice(nodes[n]), int)
            for n in reached
        )
        if calibrated and not reached.isdisjoint(graph.outputs):
            doubtful.append(f"{path!r} ({ends.pop():g} everywhere)")
    if not doubtful:
        return ""
    return (
        f"argument{'s' if len(doubtful) > 1 else ''} {', '.join(doubtful)}: calibration has seen one value "
        "only, and the result depends on it, so the number formats may not hold what real calls bring; give "
        "typical values as example inputs or as calibration=[...]"
    )


def _reached(graph: Graph, name: str) -> set[str]:
    """The value and all that depend on it."""
    found = {name}
    for node in graph.nodes:
        if not found.isdisjoint(node.args):
            found.add(node.name)
    return found
