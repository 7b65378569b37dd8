"""`Captured` -> `Graph`: every ATen node becomes nodes of the normal form, then the graph is simplified.

An operation without lowering is decomposed by torch, one node at a time; what then remains is reported in
one error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch import fx

from torchcalyx.capture import Captured
from torchcalyx.capture.source import node_source
from torchcalyx.errors import CaptureError
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.masks import infinite_masks
from torchcalyx.ir.normalform import verify
from torchcalyx.ir.typerules import DTYPES
from torchcalyx.normalize import (
    assertions,
    attention,
    bags,
    contraction,
    convolution,
    counts,
    distances,
    elementwise,
    fake_quantize,
    functions,
    indexing,
    layout,
    lookups,
    lookups_pools,
    lookups_writes,
    losses,
    movement,
    norms,
    order,
    pooling,
    powers,
    quantiles,
    reduction,
    resample,
    running,
    sampled,
    sampling,
    two_variables,
)
from torchcalyx.normalize.args import Lowering
from torchcalyx.normalize.builder import Builder, Known, dtype_name, in_numpy, torch_dtype
from torchcalyx.normalize.fold_linear import fold_into_linear
from torchcalyx.normalize.fold_padding import fold_padding
from torchcalyx.normalize.infinities import fold_infinities
from torchcalyx.normalize.lower import Lowerer, Refusal
from torchcalyx.normalize.mirror import mirror_minima
from torchcalyx.normalize.pair import border_shape, from_border, to_border
from torchcalyx.normalize.products import expand_products
from torchcalyx.normalize.report import unsupported
from torchcalyx.normalize.simplify import drop_dead, simplify_views

__all__ = ["LOWERINGS", "PASSES", "normalize"]

LOWERINGS: Mapping[Any, Lowering] = {
    **elementwise.LOWERINGS,
    **functions.LOWERINGS,
    **sampled.LOWERINGS,
    **two_variables.LOWERINGS,
    **powers.LOWERINGS,
    **contraction.LOWERINGS,
    **attention.LOWERINGS,
    **reduction.LOWERINGS,
    **order.LOWERINGS,
    **quantiles.LOWERINGS,
    **counts.LOWERINGS,
    **layout.LOWERINGS,
    **movement.LOWERINGS,
    **indexing.LOWERINGS,
    **lookups.LOWERINGS,
    **lookups_writes.LOWERINGS,
    **bags.LOWERINGS,
    **convolution.LOWERINGS,
    **pooling.LOWERINGS,
    **lookups_pools.LOWERINGS,
    **resample.LOWERINGS,
    **sampling.LOWERINGS,
    **norms.LOWERINGS,
    **distances.LOWERINGS,
    **fake_quantize.LOWERINGS,
    **losses.LOWERINGS,
    **running.LOWERINGS,
    **assertions.LOWERINGS,
}

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    expand_products,
    simplify_views,
    drop_dead,
    mirror_minima,
    fold_infinities,
    fold_into_linear,
    fold_padding,
    drop_dead,
)


def normalize(captured: Captured) -> Graph:
    """The captured model in normal form.

    Raises UnsupportedOpError listing every operation without kernel, CaptureError for parameters that are
    not finite.
    """
    graph = _lowered(captured)
    for rewrite in PASSES:
        graph = rewrite(graph)
        found = verify(graph)
        assert not found, f"{rewrite.__name__} broke the normal form:\n" + "\n".join(found)
    _check_finite(graph)
    return graph


def _lowered(captured: Captured) -> Graph:
    builder = Builder()
    lowerer = Lowerer(LOWERINGS, builder)
    env, inputs = _placeholders(captured, lowerer)
    lowerer.run(captured.graph, env)
    by_name = {node.name: value for node, value in env.items()}
    outputs = [
        _output(lowerer, by_name[s.node], s.node) for s in captured.tensor_outputs if s.node is not None
    ]
    if lowerer.refusals:
        raise unsupported(lowerer.refusals)
    return Graph(tuple(builder.nodes), inputs, tuple(outputs), builder.constants, builder.parameter_names)


def _placeholders(captured: Captured, lowerer: Lowerer) -> tuple[dict[fx.Node, Any], tuple[str, ...]]:
    env: dict[fx.Node, Any] = {}
    nodes = {n.name: n for n in captured.graph.nodes if n.op == "placeholder"}
    same: dict[object, Known] = {}  # tied parameters are separate placeholders of one tensor
    for name, tensor in captured.constants.items():
        tensor = in_numpy(tensor)
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) if tensor.numel() else name
        env[nodes[name]] = same.setdefault(key, Known(tensor, (captured.constant_names[name],)))
    inputs = []
    for spec in captured.tensor_inputs:
        assert spec.placeholder is not None and spec.dtype is not None
        border = border_shape(spec.shape, dtype_name(spec.dtype))
        ref = lowerer.builder.input(spec.placeholder, border.shape, torch_dtype(border.dtype))
        if ref.dtype not in DTYPES:
            reason = f"dtype {ref.dtype} of the input has no hardware form; use one of {', '.join(DTYPES)}"
            source = node_source(nodes[spec.placeholder])
            lowerer.refusals.append(
                Refusal(source, spec.path, (), (f"{ref.dtype}{list(ref.shape)}",), (reason,))
            )
        env[nodes[spec.placeholder]] = from_border(lowerer.builder, ref) if spec.dtype.is_complex else ref
        inputs.append(ref.name)
    return env, tuple(inputs)


def _output(lowerer: Lowerer, value: Any, name: str) -> str:
    try:
        return lowerer.builder.ref(to_border(lowerer.builder, value)).name
    except ValueError as error:
        shown = f"{value.dtype}{list(value.shape)}"
        lowerer.refusals.append(Refusal(lowerer.builder.source, name, (), (shown,), (str(error),)))
        return name


def _check_finite(graph: Graph) -> None:
    """Hardware numbers have no NaN and no infinity: a parameter that holds one is an error of the model, a
    literal (the -inf of a mask or of a padded maximum) belongs to an operation without kernel.
    """
    read = {a for node in graph.nodes for a in node.args}  # a result that nothing reads leaves as it is
    bad: list[str] = []
    refusals: list[Refusal] = []
    masks = infinite_masks(graph)
    for name, value in graph.constants.items():
        if name in masks and bool((np.asarray(value, np.float64) < np.inf).all()):
            continue  # `quantize` brings it near the scores
        if name not in read or not np.issubdtype(value.dtype, np.floating) or np.isfinite(value).all():
            continue
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
        parameter = graph.parameter_names.get(name)
        if parameter:
            count = int((~np.isfinite(value)).sum())
            what = f"parameter {parameter!r} holds {value[place]} at index {list(place)}"
            bad.append(f"  - {what} ({count} of {value.size} values)")
        else:
            reason = (
                f"no kernel yet for the value {value[place]}: hardware numbers are finite, and an infinity "
                "has a meaning as a bound (clamp, minimum, maximum) or in a comparison only"
            )
            shown = f"{value.dtype}{list(value.shape)}"
            refusals.append(Refusal(graph.node(name).source, name, (), (shown,), (reason,)))
    if bad:
        raise CaptureError(
            "the model holds values that are not finite; replace them before compiling:\n" + "\n".join(bad)
        )
    if refusals:
        raise unsupported(refusals)
