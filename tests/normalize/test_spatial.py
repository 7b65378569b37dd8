"""Operations over spatial axes: every spelling against torch, and the form that each takes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.normalize.bundles import assert_computes_what_torch_computes, in_bundles
from tests.normalize.models import Function
from tests.normalize.spatial_spellings import FAMILIES
from tests.normalize.spellings import known, t
from torchcalyx.capture import capture
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.normalform import infer
from torchcalyx.ir.typerules import TensorType
from torchcalyx.normalize import normalize

BUNDLES = in_bundles(FAMILIES)


@pytest.mark.parametrize("bundle", BUNDLES)
def test_normal_form_computes_what_torch_computes(bundle: str) -> None:
    assert_computes_what_torch_computes(BUNDLES[bundle])


def graph_of(function: Any, *inputs: Tensor) -> Graph:
    return normalize(capture(function if isinstance(function, nn.Module) else Function(function), inputs))


def forms(graph: Graph) -> list[str]:
    """Operations without inputs and constants."""
    return [n.op for n in graph.nodes if n.op not in ("input", "constant")]


X = t(2, 4, 9, 7)
W, CHANNELS, COLUMNS = known(5, 4, 3, 3), known(5, 1, 1), known(1, 5)
PADDED_CONV = nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, padding=1))

FORMS: dict[str, tuple[Any, list[str]]] = {
    "norm behind a convolution": (nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6)), ["conv"]),
    "norm before a padded convolution": (PADDED_CONV, ["mul", "add", "conv"]),
    "norm behind the function": (
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)),
        ["conv", "relu", "mul", "add", "conv"],
    ),
    "addend of each channel": (lambda x: F.conv2d(x, W) + CHANNELS, ["conv"]),
    "addend of each column": (lambda x: F.conv2d(x, W) + COLUMNS, ["conv", "add"]),
    "zeros around": (nn.Sequential(nn.ZeroPad2d((1, 2, 3, 0)), nn.Conv2d(4, 6, 3, padding=1)), ["conv"]),
    "zeros around twice": (lambda x: F.avg_pool2d(F.pad(F.pad(x, (1, 0)), (0, 1)), 2), ["sum_pool", "mul"]),
    "ones around": (lambda x: F.conv2d(F.pad(x, (1, 1), value=1.0), W), ["pad", "conv"]),
    "zeros around before a maximum": (lambda x: F.max_pool2d(F.pad(x, (1, 1)), 2), ["pad", "max_pool"]),
    "mirrored border": (
        nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
        ["slice", "slice", "cat"] * 2 + ["conv"],
    ),
    "transposed without overlap": (
        nn.ConvTranspose2d(4, 6, 2, stride=2),
        ["conv", "view", "permute", "view"],
    ),
    "transposed of stride 1": (nn.ConvTranspose2d(4, 6, 3), ["conv"]),
    "average of whole windows": (lambda x: F.avg_pool2d(x, 3), ["sum_pool", "div_const"]),
    "average with varying divisors": (lambda x: F.avg_pool2d(x, 3, 2, 1, False, False), ["sum_pool", "mul"]),
    "average with one divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, False, False, 4), ["sum_pool", "mul"]),
    "adaptive average that divides": (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), ["sum_pool", "div_const"]),
    "adaptive average with equal overlap": (
        lambda x: F.adaptive_avg_pool2d(x, (9, 3)),
        ["sum_pool", "div_const"],
    ),
    "adaptive size that x has": (lambda x: F.adaptive_avg_pool2d(x, (9, 7)) * x, ["mul"]),
    "repeated elements": (nn.Upsample(scale_factor=2), ["upsample"]),
    "every third element": (lambda x: F.interpolate(x, size=(3, 7)), ["slice"]),
    "interpolation along the last axis": (
        lambda x: F.interpolate(x, size=(9, 14), mode="bilinear", align_corners=True),
        ["linear"],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_form_is_as_small_as_it_can_be(name: str) -> None:
    function, expected = FORMS[name]
    graph = graph_of(function.eval() if isinstance(function, nn.Module) else function, X)
    assert [op for op in forms(graph) if op != "permute" or "permute" in expected] == expected


def test_a_norm_of_a_result_that_is_read_elsewhere_stays() -> None:
    conv, norm = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6).eval()

    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        y = conv(x)
        return norm(y), y

    module = Function(forward)
    module.conv, module.norm = conv, norm
    assert forms(graph_of(module.eval(), X)) == ["conv", "mul", "add"]


def test_folded_constants_name_all_their_parents() -> None:
    graph = graph_of(nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)).eval(), X)
    (conv,) = (n for n in graph.nodes if n.op == "conv")
    parents = "0.weight, 1.running_mean, 1.running_var, 1.weight, 1.bias"
    assert [graph.parameter_names[name] for name in conv.args[1:]] == [parents, parents]


def attrs_of(function: Any, x: Tensor, op: str) -> dict[str, Any]:
    (node,) = (n for n in graph_of(function, x).nodes if n.op == op)
    return dict(node.attrs)


def test_even_kernels_get_the_odd_zero_behind() -> None:
    attrs = attrs_of(nn.Conv2d(4, 6, (4, 2), padding="same", dilation=(1, 3)), X, "conv")
    assert (attrs["before"], attrs["after"]) == ((1, 1), (2, 2))
    attrs = attrs_of(nn.Conv2d(4, 6, 2, padding="same"), X, "conv")
    assert (attrs["before"], attrs["after"]) == ((0, 0), (1, 1))


def test_ceil_mode_becomes_padding_behind() -> None:
    attrs = attrs_of(lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), t(2, 3, 8, 6), "max_pool")
    assert (attrs["before"], attrs["after"]) == ((1, 1), (2, 2))
    attrs = attrs_of(lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True), t(2, 3, 5, 8), "max_pool")
    assert attrs["after"] == (0, 0)


def refusal(function: Any, *inputs: Tensor) -> str:
    with pytest.raises(UnsupportedOpError) as caught:
        graph_of(function, *inputs)
    return str(caught.value)


REFUSED: dict[str, tuple[Any, Tensor, str]] = {
    "interpolation of integers": (
        lambda x: F.interpolate(x, size=(5, 5), mode="bilinear"),
        X.abs().to(torch.uint8),
        "no kernel yet for interpolation of uint8, which rounds",
    ),
    "window of padding alone": (
        lambda x: F.max_pool2d(x, 2, 2, 1, 2),
        t(1, 1, 1, 1),
        "no kernel yet for the value -inf",
    ),
    "assertion": (
        lambda x: (torch._assert((x > 0).all(), "no zeros"), x + 1)[1],
        X,
        "the assertion 'no zeros' depends on tensor values and hardware cannot stop the caller",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operation(name: str) -> None:
    function, x, text = REFUSED[name]
    assert text in refusal(function, x)


def test_a_refused_result_is_named_at_its_reader() -> None:
    index, starts = torch.tensor([0, 1, 1]), torch.tensor([0, 2])
    text = refusal(lambda x: torch.embedding_bag(x[0, 0], index, starts)[2] + 1, X)
    assert text.startswith("1 operation of the model cannot be compiled:\n- aten.embedding_bag"), text
    assert "(node 'getitem" in text


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_an_assertion_of_parameters_is_checked_while_compiling(value: float) -> None:
    module = Function(
        lambda x: (torch._assert((module.scale > 0).all(), "a scale is negative"), x * module.scale)[1]
    )
    module.scale = nn.Parameter(torch.full((7,), value))
    if value > 0:
        assert forms(graph_of(module, X)) == ["mul"]
    else:
        assert "a scale is negative" in refusal(module, X)


BAD_TYPES: dict[str, tuple[str, list[tuple[int, ...]], dict[str, Any], str]] = {
    "axes": ("upsample", [(2, 3)], {"scales": ()}, "has not the axes"),
    "scale": ("upsample", [(2, 3, 4)], {"scales": (0,)}, "must hold ints of at least 1"),
    "count": ("upsample", [(2, 3, 4)], {"scales": (2, 2)}, "needs one int for each of 1 axes"),
    "groups": ("conv", [(1, 4, 5), (6, 4, 3)], {"groups": 2}, "2 groups do not split 4 channels"),
    "uneven groups": ("conv", [(1, 4, 5), (5, 2, 3)], {"groups": 2}, "or 5 results"),
    "bias": ("conv", [(1, 4, 5), (6, 4, 3), (5,)], {}, "bias must have shape [6]"),
    "long kernel": (
        "conv",
        [(1, 4, 5), (6, 4, 3)],
        {"dilation": (3,)},
        "is longer than the padded axis of 5",
    ),
    "negative padding": ("conv", [(1, 4, 5), (6, 4, 3)], {"before": (-1,)}, "must hold ints of at least 0"),
    "nothing but padding": (
        "max_pool",
        [(1, 4, 1)],
        {"kernel": (2,), "stride": (1,), "before": (1,), "after": (1,), "dilation": (2,)},
        "a window of spatial axis 0 holds nothing but padding",
    ),
    "rank of the weight": ("conv", [(1, 4, 5), (6, 4)], {}, "does not fit"),
}


@pytest.mark.parametrize("name", BAD_TYPES)
def test_type_rules_say_what_does_not_fit(name: str) -> None:
    op, shapes, attrs, text = BAD_TYPES[name]
    base = (
        {"groups": 1, "stride": (1,), "before": (0,), "after": (0,), "dilation": (1,)} if op == "conv" else {}
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        infer(op, tuple(TensorType(shape, "float32") for shape in shapes), {**base, **attrs})
