"""Complex operations and Fourier transforms: the normal form against torch in float64, and their refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.normalize.models import Function
from torchcalyx.capture import capture
from torchcalyx.errors import UnsupportedOpError
from torchcalyx.ir.graph import Graph
from torchcalyx.ir.reference import reference
from torchcalyx.normalize import normalize
from torchcalyx.pipeline import arrays_of


def z(*shape: int, seed: int = 0, dtype: torch.dtype = torch.complex128) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def x(*shape: int, seed: int = 0) -> Tensor:
    return z(*shape, seed=seed, dtype=torch.float64)


W = z(5, 4, seed=3)
ONES = torch.ones(10, dtype=torch.float64)

CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "parts": (lambda a: (a.real, a.imag, torch.view_as_real(a)), (z(2, 3),)),
    "conjugates": (lambda a: (a.conj(), a.conj().resolve_conj() * 2, a.mH), (z(2, 3),)),
    "made of parts": (lambda a, b: (torch.complex(a, b), torch.polar(a, b)), (x(2, 3), x(3, seed=1))),
    "view of pairs": (lambda a: torch.view_as_complex(a) * 2j, (x(4, 2),)),
    "sum with a real tensor": (lambda a, b: (a + b, b - a, torch.rsub(a, b, alpha=3)), (z(2, 3), x(3))),
    "sum with a number": (lambda a: (a + 2, a - 1j, 1j - a, torch.add(a, a, alpha=2j)), (z(2, 3),)),
    "real with a complex number": (lambda a: (a * 1j, a + 2j, a / 2j), (x(2, 3),)),
    "products": (lambda a, b: (a * b, a * 3, a * (1 + 2j), a.square()), (z(2, 3), z(3, seed=1))),
    "quotients": (lambda a, b: (a / b, a / 3, 1j / a, a.reciprocal()), (z(2, 3), z(3, seed=1))),
    "powers": (lambda a: (a**0, a**3, a**-2), (z(2, 3),)),
    "length": (lambda a: (a.abs(), a.sgn(), torch.linalg.norm(a)), (z(2, 3),)),
    "sign of zero": (lambda a: torch.sgn(a * 0), (z(2, 3),)),
    "exponentials": (lambda a: (a.exp(), torch.exp2(a), torch.expm1(a), torch.sigmoid(a)), (z(2, 3),)),
    "trigonometry": (
        lambda a: (a.sin(), a.cos(), a.tan(), a.sinh(), a.cosh(), a.tanh(), a.sqrt(), a.rsqrt()),
        (z(2, 3),),
    ),
    "comparisons": (lambda a, b: (a == b, a != b, a == 1j, a.to(torch.bool)), (z(2, 3), z(2, 3))),
    "casts": (lambda a, b: (a.to(torch.complex64), b.to(torch.complex128)), (z(2, 3), x(2, 3))),
    "movement": (
        lambda a: (a.T, a.reshape(3, 2), a[:, 1], a.flip(0), a.roll(1, 1), a[:, [2, 0]], a.expand(2, 2, 3)),
        (z(2, 3),),
    ),
    "joins": (lambda a, b: (torch.cat([a, b]), torch.stack([a, b]), *a.split(1)), (z(2, 3), x(2, 3))),
    "padding": (lambda a: torch.nn.functional.pad(a, (1, 2), value=3.0), (z(2, 3),)),
    "fills": (lambda a: (torch.full_like(a, 2j) * a, torch.zeros_like(a) + a, torch.ones_like(a)), (z(2),)),
    "choices": (lambda a, b: (torch.where(b > 0, a, 1j), a.masked_fill(b > 0, 2)), (z(2, 3), x(2, 3))),
    "sums": (lambda a: (a.sum(), a.mean(1), a.cumsum(0), a.var(), a.std(1)), (z(2, 3),)),
    "matrix products": (
        lambda a, b: (a @ W, a @ a.mT, b @ W.real, torch.einsum("ij,kj->ik", a, a.conj()), a @ a[0]),
        (z(2, 5), x(2, 5)),
    ),
    "products of vectors": (lambda a: (a @ W, a @ a, W.T @ a, torch.vdot(a, a)), (z(5),)),
    "transform of a vector": (torch.fft.fft, (z(6),)),
    "affine": (lambda a: torch.nn.functional.linear(a, W.T, W[0]), (z(2, 5),)),
    "batched products": (lambda a, b: (a.bmm(b), a.baddbmm(a, b)), (z(2, 3, 3), z(2, 3, 3, seed=1))),
    "constants returned": (lambda a: (a, W), (z(2),)),
    "shifts": (lambda a: (torch.fft.fftshift(a), torch.fft.ifftshift(a, 1)), (z(3, 4),)),
    "frequencies": (lambda a: a * torch.fft.fftfreq(4) + torch.fft.rfftfreq(7), (x(3, 4),)),
    "stft": (
        lambda a: torch.stft(a, 8, 3, window=torch.hann_window(8, dtype=a.dtype), return_complex=True),
        (x(2, 40),),
    ),
    "stft of long frames": (
        lambda a: torch.stft(a, 131, 2, 100, window=torch.ones(100, dtype=a.dtype), return_complex=True),
        (x(300),),
    ),
    "stft as pairs": (
        lambda a: torch.stft(a, 6, window=ONES[:6], normalized=True, return_complex=False),
        (x(20),),
    ),
    "stft of complex": (
        lambda a: torch.stft(a, 6, 2, window=ONES[:6], center=False, return_complex=True),
        (z(20),),
    ),
    "istft": (
        lambda a: torch.istft(a, 8, 2, window=torch.hann_window(8, dtype=torch.float64), length=30),
        (z(2, 5, 17),),
    ),
    "istft of uneven hops": (lambda a: torch.istft(a, 10, 4, window=ONES, normalized=True), (z(6, 7),)),
    "istft to complex": (
        lambda a: torch.istft(a, 8, 3, None, ONES[:8], False, False, False, return_complex=True),
        (z(8, 5),),
    ),
}

TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def graph_of(function: Callable[..., Any], *inputs: Tensor) -> Graph:
    return normalize(capture(Function(function), inputs))


def compare(function: Callable[..., Any], *inputs: Tensor) -> None:
    graph = graph_of(function, *inputs)
    found = reference(graph, arrays_of(list(inputs)))
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert len(found) == len(wanted)
    for want, array, node in zip(arrays_of(list(wanted)), found, graph.outputs, strict=True):
        assert graph.node(node).dtype == str(want.dtype)
        np.testing.assert_allclose(array, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.filterwarnings("ignore:stft with return_complex=False")
@pytest.mark.parametrize("name", CASES)
def test_computes_what_torch_computes(name: str) -> None:
    function, inputs = CASES[name]
    compare(function, *inputs)


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_transforms_of_every_kind(norm: str) -> None:
    def all_of(real: Tensor, pairs: Tensor) -> tuple[Tensor, ...]:
        found = []
        for name in TRANSFORMS:
            given = real if name in ("rfft", "ihfft") else pairs
            one, many, two = (getattr(torch.fft, name + dims) for dims in ("", "n", "2"))
            found += [one(given, n=n, norm=norm) for n in (None, 7, 4)]  # as it is, padded, trimmed
            found += [many(given, norm=norm), two(given, dim=(2, 0), norm=norm)]
        return tuple(found)

    compare(all_of, x(2, 3, 6), z(2, 3, 6))


@pytest.mark.parametrize("size", [67, 72, 96, 128, 143, 240])
def test_long_transforms_are_split(size: int) -> None:
    compare(
        lambda a, b, c: (torch.fft.fft(a), torch.fft.rfft(b), torch.fft.irfft(c, n=size)),
        z(2, size),
        x(2, size),
        z(2, size // 2 + 1),
    )
    widest = max(n.shape[0] for n in graph_of(torch.fft.fft, z(2, size)).nodes if n.op == "constant")
    assert widest <= (2 * size if size == 67 else 64), "only a prime length is one product"


def test_real_operands_cost_real_products() -> None:
    graph = graph_of(lambda a: (a + 0j) @ W, x(2, 5))
    assert sum(n.op == "linear" for n in graph.nodes) == 2
    graph = graph_of(lambda a: a @ W, z(2, 5))
    assert sum(n.op == "linear" for n in graph.nodes) == 4


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_half_precision_is_widened() -> None:
    given = z(2, 3, dtype=torch.complex64).to(torch.complex32)
    graph = graph_of(lambda a: a.to(torch.complex64) * 2, given)
    assert [(n.shape, n.dtype) for n in graph.nodes if n.op == "input"] == [((2, 2, 3), "float32")]


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda a: a.prod(), "- aten.prod (node 'prod', complex128[2, 3] -> complex128[])"),
        (lambda a: torch.linalg.eigvals(a @ a.mT), "- aten.linalg_eigvals (node"),
    ],
)
def test_refusals_name_the_operation(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        graph_of(function, z(2, 3))
    assert text in str(caught.value)
