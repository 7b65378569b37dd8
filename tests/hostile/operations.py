"""Operations called directly, with every result; types of reductions; refusals of what the user wrote."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.hostile.arguments import X
from tests.hostile.case import Case, refused, works
from torchcalyx.errors import InputError, UnsupportedOpError

ONES = torch.ones(4)
HALVES = torch.arange(1, 32) / 32

CASES: tuple[Case, ...] = (
    works("layer-norm-all", lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), X, hardware=True),
    works(
        "layer-norm-first",
        lambda x: torch.native_layer_norm(x, (4,), x.new_ones(4), x.new_ones(4), 1e-5)[0],
        X,
    ),
    works("layer-norm-statistics", lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[1:], X),
    works("group-norm-all", lambda x: torch.native_group_norm(x[None], None, None, 1, 3, 4, 3, 1e-5), X),
    works("group-norm-one", lambda x: torch.native_group_norm(x[None], None, None, 1, 3, 4, 1, 1e-5), X),
    works(
        "batch-norm-eval",
        lambda x: torch.native_batch_norm(x, None, None, ONES * 2, ONES, False, 0.1, 1e-5),
        X,
        wanted=lambda: ((X.double() - 2) / (1 + 1e-5) ** 0.5, torch.empty(0), torch.empty(0)),
    ),
    works(
        "batch-norm-of-batch",
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
        X,
    ),
    works("rms-norm-all", lambda x: torch.ops.aten._fused_rms_norm(x, [4], None, 1e-5), X),
    works("any-of-floats", lambda x: (x.any(), x.any(1), x.all(0), x.all()), X),
    works("any-of-bytes", lambda x: (x.any(), x.any(1), x.all(0)), (X > 0).to(torch.uint8)),
    works(
        "to-bool", lambda x: (x.sum(dtype=torch.bool), x.prod(1, dtype=torch.bool)), X - 0.5, hardware=True
    ),
    works(
        "to-others",
        lambda x: (
            x.sum(1, dtype=torch.bool),
            x.mean(1, dtype=torch.float64),
            (x * 2).cumsum(1, dtype=torch.int32),
        ),
        X,
    ),
    works("counted", lambda x: ((x > 0).sum(1), (x > 0).amax(1), (x > 0).prod(1)), X),
    works("threshold", lambda x: F.threshold(x, 1.0, 20.0), X),
    works(
        "threshold-of-integers",
        lambda x: (F.threshold(x, 1, 5), torch.threshold(x.long(), 1, 20)),
        X.to(torch.int32),
    ),
    works("soft-margin", lambda x, t: F.soft_margin_loss(x, t), X, X.flip(0).sign()),
    works("soft-margin-each", lambda x, t: F.soft_margin_loss(x, t, reduction="none"), X, X.flip(0).sign()),
    works("soft-margin-sum", lambda x, t: F.soft_margin_loss(x * 9, t, reduction="sum"), X, X.flip(0).sign()),
    works("logit", lambda x: torch.logit(x), HALVES, hardware=True),
    works("logit-near-ends", lambda x: torch.logit(x), torch.tensor([2.0**-12, 0.5, 1 - 2.0**-12])),
    works("logit-bounded", lambda x: torch.logit(x, 2.0**-10), torch.tensor([0.0, 2.0**-13, 0.5, 1.0])),
    works("logit-special", lambda x: torch.special.logit(x), HALVES),
    refused(
        "logit-of-zero",
        lambda x: torch.logit(x),
        torch.tensor([0.0, 0.5]),
        says="makes logit (node",
        by=InputError,
    ),
    works(
        "divergence",
        lambda x: F.kl_div(x.log_softmax(1), x.flip(0).softmax(1), reduction="batchmean"),
        X,
        error=2.0**-8,
    ),
    works("cross-entropy", lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])), X),
    works("shrinks", lambda x: (F.hardshrink(x), F.softshrink(x, 1.0), F.tanhshrink(x)), X),
    works("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 3.0])), X),
    refused(
        "histogramdd",
        lambda x: torch.histogramdd(x, [2, 2, 2, 2])[0],
        X,
        says="- aten.histogramdd (node",
        by=UnsupportedOpError,
    ),
    works("histc", lambda x: torch.histc(x, 4), X),
    refused("svd", lambda x: torch.linalg.svd(x), X, says="- aten.linalg_svd (node", by=UnsupportedOpError),
    works("cdist", lambda x: torch.cdist(x, x, p=3.0), X),
    works("complex-inside", lambda x: torch.fft.rfft(x).abs(), X),
    works("complex-number", lambda x: (x * 1j).imag, X),
    refused(
        "sparse-inside",
        lambda x: x.to_sparse().to_dense(),
        X,
        says="- aten.to_sparse (node",
        by=UnsupportedOpError,
    ),
)
