"""Small models of order: sorting and what follows from it, running extremes, counts of comparisons."""

from __future__ import annotations

import torch

from tests.normalize.spellings import Case, bools, ints, t

EDGES = torch.tensor([-1.5, -0.25, 0.0, 0.0, 1.125])
Q = torch.tensor([0.0, 0.21, 0.5, 1.0])

SORTING: dict[str, Case] = {
    "sort": (lambda x: torch.sort(x, stable=True), (t(3, 9),)),
    "sort_dim": (lambda x: torch.sort(x, dim=1, descending=True, stable=True), (t(2, 7, 3),)),
    "sort_int": (lambda x: torch.sort(x, dim=0, stable=True), (ints(9, 2),)),
    "sort_bool": (lambda x: torch.sort(x, stable=True, descending=True), (bools(9),)),
    "sort_one": (lambda x: torch.sort(x, 1), (t(3, 1),)),
    "sort_scalar": (lambda x: torch.sort(x), (t(),)),
    "argsort": (lambda x: torch.argsort(x, dim=-1, descending=True, stable=True), (t(3, 9),)),
    "msort": (lambda x: torch.msort(x), (t(5, 3),)),
    "topk": (lambda x: torch.topk(x, 3, 1)[0], (t(2, 9, 2),)),
    "topk_smallest": (lambda x: torch.topk(x, 2, largest=False)[0], (t(9),)),
    "topk_where": (lambda x: torch.topk(x + torch.arange(9) * 8, 3)[1], (t(9),)),
    "kthvalue": (lambda x: torch.kthvalue(x, 4, 0, True)[0], (t(5, 3),)),
    "median": (lambda x: torch.median(x), (t(3, 4),)),
    "median_dim": (lambda x: torch.median(x, 1)[0], (t(3, 6),)),
    "median_where": (lambda x: torch.median(x + torch.arange(7) * 8, 1, True), (t(3, 7),)),
    "nanmedian": (lambda x: (torch.nanmedian(x), torch.nanmedian(x, 0)[0]), (t(3, 5),)),
    "mode": (lambda x: torch.mode(x), (t(4, 15),)),
    "mode_dim": (lambda x: torch.mode(x, 0, True), (ints(15, 3),)),
    "mode_bool": (lambda x: torch.mode(x, 1), (bools(3, 5),)),
    "cummax": (lambda x: torch.cummax(x, 1), (t(3, 9),)),
    "cummin": (lambda x: torch.cummin(x, 0), (ints(9, 3),)),
    "cummax_one": (lambda x: torch.cummax(x, 1), (t(3, 1),)),
    "cummax_bool": (lambda x: torch.cummax(x, 0), (bools(9),)),
}  # fmt: skip

QUANTILES: dict[str, Case] = {
    **{
        f"quantile_{how}": (
            lambda x, how=how: torch.quantile(x, Q, 1, True, interpolation=how), (t(3, 7),)
        )
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    "quantile_scalar": (lambda x: torch.quantile(x, 0.3), (t(3, 7),)),
    "quantile_keepdim": (lambda x: torch.quantile(x, 0.3, keepdim=True), (t(3, 7),)),
    "quantile_of_one": (lambda x: torch.quantile(x, Q, 0), (t(1, 3),)),
    "quantile_computed": (lambda x, q: torch.quantile(x, q * 0 + Q, 1), (t(3, 7), t(4))),
    "quantile_computed_scalar": (lambda x, q: torch.quantile(x, q * 0 + 0.4), (t(3, 7), t())),
    "nanquantile": (lambda x: torch.nanquantile(x, 0.75, 0), (t(6, 2),)),
}  # fmt: skip

COUNTS: dict[str, Case] = {
    "searchsorted": (lambda x: torch.searchsorted(EDGES, x), (t(3, 5),)),
    "searchsorted_right": (lambda x: torch.searchsorted(EDGES, x, right=True), (t(3, 5),)),
    "searchsorted_side": (lambda x: torch.searchsorted(EDGES, x, side="right", out_int32=True), (t(5),)),
    "searchsorted_rows": (lambda s, x: torch.searchsorted(s.sort(1)[0], x), (t(2, 6), t(2, 3, seed=1))),
    "searchsorted_scalar": (lambda s: torch.searchsorted(s.sort()[0], 0.25), (t(6),)),
    "bucketize": (lambda x: torch.bucketize(x, EDGES), (t(3, 5),)),
    "bucketize_right": (lambda x: torch.bucketize(x, EDGES, right=True), (t(),)),
    "bucketize_int": (lambda x: torch.bucketize(x, EDGES), (ints(5),)),
    "isin": (lambda x, y: torch.isin(x, y), (ints(3, 5), ints(2, 2, seed=4))),
    "isin_invert": (lambda x: torch.isin(x, EDGES, invert=True), (t(9),)),
    "isin_number": (lambda x: (torch.isin(x, 2), torch.isin(3, x)), (ints(9),)),
    "count_nonzero": (lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, (0, 2))), (t(2, 3, 9),)),
    "aminmax": (lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=1, keepdim=True)), (t(2, 3),)),
    "histc": (lambda x: torch.histc(x, 5, -1, 1), (t(3, 9),)),
    "histc_own_range": (lambda x: torch.histc(x, 4), (t(30),)),
    "histc_one": (lambda x: torch.histc(x, 1, -1, 2), (t(30),)),
}  # fmt: skip

FAMILIES: dict[str, dict[str, Case]] = {"sorting": SORTING, "quantiles": QUANTILES, "counts": COUNTS}
