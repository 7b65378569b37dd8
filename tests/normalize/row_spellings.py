"""Small models over rows: losses, distances, running products, fake quantisation, histograms, norms."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tests.normalize.spellings import Case, bools, ints, known, t

WEIGHT = torch.tensor([0.5, 1.0, 0.25, 2.0, 1.5])
SCALE, ZERO = torch.tensor([0.3, 0.05, 0.11]), torch.tensor([2, -1, 0], dtype=torch.int32)
CLASSES = torch.tensor([1, 4, 0])
MASK = torch.tensor([[True, False, True, True], [False, True, False, False]])
KNOWN, MEAN = known(3), known(6).abs()
aten = torch.ops.aten


def _classes(*shape: int, count: int = 5, ignored: int | None = None) -> torch.Tensor:
    """Class indices of any order; flipping them keeps them valid."""
    found = torch.arange(math.prod(shape)).mul(7).remainder(count).reshape(shape)
    return found if ignored is None else found.where(found != 3, ignored)


def _entropy(**options: Any) -> Any:
    return lambda x, y: F.cross_entropy(x, y, **options)


LOSSES: dict[str, Case] = {
    "nll": (lambda x, y: F.nll_loss(x, y), (t(4, 5), _classes(4))),
    "nll_none": (lambda x, y: F.nll_loss(x, y, WEIGHT, reduction="none"), (t(4, 5), _classes(4))),
    "nll_weighted": (lambda x, y: F.nll_loss(x, y, WEIGHT), (t(7, 5), _classes(7, ignored=-100))),
    "nll_ignored": (lambda x, y: F.nll_loss(x, y, WEIGHT, ignore_index=2), (t(7, 5), _classes(7))),
    "nll_one": (lambda x, y: F.nll_loss(x, y), (t(5), torch.tensor(3))),
    "nll_planes": (lambda x, y: F.nll_loss(x, y, WEIGHT), (t(2, 5, 3, 2), _classes(2, 3, 2))),
    "nll_sum": (lambda x, y: F.nll_loss(x, y, reduction="sum"), (t(2, 5, 3), _classes(2, 3))),
    "entropy": (_entropy(), (t(4, 5), _classes(4, ignored=-100))),
    "entropy_smooth": (_entropy(weight=WEIGHT, label_smoothing=0.2), (t(7, 5), _classes(7, ignored=-100))),
    "entropy_none": (
        _entropy(reduction="none", label_smoothing=0.2, ignore_index=1), (t(4, 5), _classes(4))
    ),
    "entropy_planes": (_entropy(weight=WEIGHT), (t(2, 5, 3), _classes(2, 3))),
    "entropy_one": (_entropy(), (t(5), torch.tensor(3))),
    "entropy_probabilities": (_entropy(label_smoothing=0.1, weight=WEIGHT), (t(3, 5), t(3, 5, seed=1).abs())),
    "entropy_probabilities_sum": (_entropy(reduction="sum"), (t(2, 5, 3), t(2, 5, 3, seed=1).abs())),
    "margin_ranking": (
        lambda x, y, z: F.margin_ranking_loss(x, y, z.sign(), 0.5, reduction="sum"),
        (t(3, 4), t(3, 4, seed=1), t(3, 4, seed=2)),
    ),
    "hinge_embedding": (
        lambda x, y: (F.hinge_embedding_loss(x, y.sign()), F.hinge_embedding_loss(x, y, 2.0)),
        (t(3, 4), t(3, 4, seed=1)),
    ),
    "multilabel_margin": (
        lambda x, y: F.multilabel_margin_loss(x, y),
        (t(2, 4), torch.tensor([[3, 0, -1, 1], [2, 1, 0, -1]])),
    ),
    "multilabel_margin_one": (
        lambda x, y: F.multilabel_margin_loss(x, y), (t(4), torch.tensor([1, 2, -1, 3]))
    ),
    "poisson": (lambda x, y: F.poisson_nll_loss(x, y.abs(), full=True), (t(3, 4), t(3, 4, seed=1))),
    "poisson_plain": (
        lambda x, y: F.poisson_nll_loss(x.abs(), y, log_input=False, reduction="none"),
        (t(3, 4), t(3, 4, seed=1)),
    ),
    "soft_margin": (lambda x, y: F.soft_margin_loss(9 * x, y), (t(3, 4), t(3, 4, seed=1))),
}  # fmt: skip

ROWS: dict[str, Case] = {
    **{
        f"cdist_{p}": (lambda x, y, p=p: torch.cdist(x, y, p), (t(2, 4, 3), t(5, 3, seed=1)))
        for p in (0.0, 1.0, 2.0, 4.0, math.inf)
    },
    "cdist_product_form": (
        lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), (t(30, 3), t(30, 3, seed=1))
    ),
    "pdist": (lambda x: (F.pdist(x), F.pdist(x, 1.0), F.pdist(x[:1])), (t(5, 3),)),
    "cumprod": (lambda x: torch.cumprod(x, 1), (t(3, 9),)),
    "cumprod_int": (lambda x: torch.cumprod(x, 0), (ints(5, 2),)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(9 * x, 0), (t(7, 2),)),
    "logsumexp": (lambda x: (torch.logsumexp(9 * x, (0, 1)), torch.logsumexp(x, 1, True)), (t(7, 2),)),
    "prod_of_many": (lambda x: (torch.prod(1 + x / 8), torch.prod(1 + x / 8, 1)), (t(2, 131),)),
    "fake_quantize": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 9), (t(3, 9),)),
    "fake_quantize_ties": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -3, 3), (t(9, 9),)),
    "fake_quantize_channels": (
        lambda x: torch.fake_quantize_per_channel_affine(x, SCALE, ZERO, 1, -8, 7), (t(4, 3, 5),)
    ),
    "histogram": (lambda x: torch.histogram(x, 4, range=(-1.0, 1.0)), (t(3, 9),)),
    "histogram_density": (lambda x: torch.histogram(x, 3, density=True), (t(30),)),
    "histogram_edges": (
        lambda x, w: torch.histogram(x, torch.tensor([-1.0, 0.0, 0.25, 2.0]), weight=w),
        (t(30), t(30, seed=1)),
    ),
    "batch_norm_computed": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v.abs() + 1, w, b),
        (t(4, 3, 2), t(3, seed=1), t(3, seed=2), t(3, seed=3), t(3, seed=4)),
    ),
    "batch_norm_computed_scale": (
        lambda x, w: F.batch_norm(x, KNOWN, KNOWN.abs() + 1, w), (t(4, 3, 2), t(3, seed=3))
    ),
    "native_norms": (
        lambda x: (
            aten.native_layer_norm(x, (4,), None, None, 1e-5),
            aten.native_layer_norm(x, (4,), None, None, 1e-5)[0],
            aten.native_group_norm(x, None, None, 2, 6, 4, 3, 1e-5)[2],
            aten._native_batch_norm_legit_no_training(x, None, None, MEAN, MEAN + 2, 0.1, 1e-3)[0],
        ),
        (t(2, 6, 4),),
    ),
    "masked_extremes": (
        lambda x, m: (
            torch.masked.amax(x, 1, mask=MASK), torch.masked.amin(x, 0, mask=m | ~m),
            torch.masked.argmax(x, 1, mask=MASK), torch.masked.argmin(x, 1, mask=MASK),
        ),
        (t(2, 4), bools(2, 4)),
    ),
    "masked_logsumexp": (lambda x: torch.masked.logsumexp(x, 1, mask=MASK), (t(2, 4),)),
    "bool_of_rows": (
        lambda x: (torch.sum(x, 1, dtype=torch.bool), torch.prod(x, 0, dtype=torch.bool)), (t(3, 5),)
    ),
    "threshold_int": (lambda x: F.threshold(x, 2, 20), (ints(9),)),
}  # fmt: skip

FAMILIES: dict[str, dict[str, Case]] = {"losses": LOSSES, "rows": ROWS}
