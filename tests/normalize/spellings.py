"""Small models, one for each way of writing an operation: name -> (forward, example inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def t(*shape: int, seed: int = 0) -> Tensor:
    """Multiples of 1/8 in [-2, 2]; ties are frequent."""
    return torch.randint(-16, 17, shape, generator=torch.Generator().manual_seed(seed)).float() / 8


def ints(*shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> Tensor:
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def bools(*shape: int, seed: int = 0) -> Tensor:
    return ints(*shape, seed=seed) > 0


def known(*shape: int) -> Tensor:
    """A tensor that the forward functions close over: known at compile time."""
    return t(*shape, seed=9)


ZERO = torch.tensor(0)
W, B, V4, W243, B25 = known(5, 4), known(5), known(4), known(2, 4, 3), known(2, 5)

CONTRACTIONS: dict[str, Case] = {
    "linear": (lambda x: F.linear(x, W, B), (t(2, 4),)),
    "linear_no_bias_rank1": (lambda x: F.linear(x, W), (t(4),)),
    "linear_rank4": (lambda x: F.linear(x, W, B), (t(2, 3, 2, 4),)),
    "linear_weight_vector": (lambda x: F.linear(x, V4), (t(2, 4),)),
    "linear_weight_computed": (lambda x, w: F.linear(x, w, B), (t(2, 4), t(5, 4, seed=1))),
    "linear_bias_computed": (lambda x, b: F.linear(x, W, b), (t(2, 4), t(5, seed=1))),
    "matmul_2d_2d": (lambda x, y: x @ y, (t(2, 4), t(4, 3, seed=1))),
    "matmul_1d_1d": (lambda x, y: x @ y, (t(4), t(4, seed=1))),
    "matmul_1d_2d": (lambda x, y: x @ y, (t(4), t(4, 3, seed=1))),
    "matmul_2d_1d": (lambda x, y: x @ y, (t(3, 4), t(4, seed=1))),
    "matmul_3d_1d": (lambda x, y: x @ y, (t(2, 3, 4), t(4, seed=1))),
    "matmul_1d_3d": (lambda x, y: x @ y, (t(4), t(2, 4, 3, seed=1))),
    "matmul_broadcast": (lambda x, y: x @ y, (t(2, 1, 3, 4), t(5, 4, 2, seed=1))),
    "matmul_known_right": (lambda x: x @ W.t(), (t(2, 4),)),
    "matmul_known_vector": (lambda x: x @ V4, (t(2, 3, 4),)),
    "matmul_known_left": (lambda x: W @ x, (t(4, 3),)),
    "matmul_known_batch": (lambda x: x @ W243, (t(2, 5, 4),)),
    "matmul_int": (lambda x, y: x @ y, (ints(2, 4), ints(4, 3, seed=1))),
    "mm": (lambda x, y: torch.mm(x, y), (t(2, 4), t(4, 3, seed=1))),
    "bmm": (lambda x, y: torch.bmm(x, y), (t(3, 2, 4), t(3, 4, 2, seed=1))),
    "mv": (lambda x, y: torch.mv(x, y), (t(2, 4), t(4, seed=1))),
    "dot": (lambda x, y: torch.dot(x, y), (t(4), t(4, seed=1))),
    "outer": (lambda x, y: torch.outer(x, y), (t(4), t(3, seed=1))),
    "addmm": (lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), (t(3), t(2, 4), t(4, 3, seed=1))),
    "addmm_known": (lambda x: torch.addmm(B, x, W.t(), beta=2, alpha=0.5), (t(2, 4),)),
    "addmm_known_full_bias": (lambda x: torch.addmm(B25, x, W.t()), (t(2, 4),)),
    "addmm_beta_zero": (lambda c, x: torch.addmm(c, x, W.t(), beta=0), (t(2, 5), t(2, 4))),
    "addmv": (lambda c, x, y: torch.addmv(c, x, y), (t(2), t(2, 4), t(4, seed=1))),
    "addbmm": (lambda c, x, y: torch.addbmm(c, x, y), (t(2, 3), t(5, 2, 4), t(5, 4, 3, seed=1))),
    "baddbmm": (
        lambda c, x, y: torch.baddbmm(c, x, y, beta=2, alpha=0.5),
        (t(3, 2, 2), t(3, 2, 4), t(3, 4, 2, seed=1)),
    ),
    "einsum_matrix": (lambda x, y: torch.einsum("ij,kj->ik", x, y), (t(2, 4), t(3, 4, seed=1))),
    "einsum_heads": (
        lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y),
        (t(2, 3, 2, 4), t(2, 5, 2, 4, seed=1)),
    ),
    "einsum_known": (lambda x: torch.einsum("bi,oi->bo", x, W), (t(2, 4),)),
    "tensordot": (lambda x, y: torch.tensordot(x, y, 2), (t(2, 3, 4), t(3, 4, 5, seed=1))),
    "kron": (lambda x, y: torch.kron(x, y), (t(2, 3), t(2, 2, seed=1))),
    "powers": (lambda x: torch.stack([x**0, x**1, x**2, x**3], 1), (t(4),)),
}

X, Y = t(2, 3), t(2, 3, seed=1)
ELEMENTWISE: dict[str, Case] = {
    "add": (lambda x, y: x + y, (X, Y)),
    "add_alpha": (lambda x, y: torch.add(x, y, alpha=2.5), (X, Y)),
    "add_scalar_left": (lambda x: 1.5 + x, (X,)),
    "add_int_float": (lambda x, y: x + y, (ints(2, 3), Y)),
    "add_bool_int": (lambda x: x + 2, (bools(2, 3),)),
    "add_bools": (lambda x, y: x + y, (bools(2, 3), bools(2, 3, seed=1))),
    "add_broadcast": (lambda x, y: x + y, (t(3, 1), t(2, 1, 4))),
    "add_expanded": (lambda x, y: x + y.expand(2, 3), (X, t(3, seed=1))),
    "add_float64_scalar_tensor": (lambda x: x + torch.tensor(0.25, dtype=torch.float64), (X,)),
    "add_float64_vector": (lambda x: x + torch.tensor([0.25, 1, 2], dtype=torch.float64), (X,)),
    "sub_alpha": (lambda x, y: torch.sub(x, y, alpha=3), (X, Y)),
    "rsub": (lambda x: 2 - x, (X,)),
    "rsub_alpha": (lambda x, y: torch.rsub(x, y, alpha=2), (X, Y)),
    "mul": (lambda x, y: x * y, (X, Y)),
    "mul_scalar_int": (lambda x: x * 3, (ints(2, 3, dtype=torch.int8),)),
    "mul_int_by_float": (lambda x: x * 0.5, (ints(2, 3),)),
    "mul_self": (lambda x: x * x, (X,)),
    "div_power_of_two": (lambda x: x / 8, (X,)),
    "div_number": (lambda x: x / 3, (X,)),
    "div_negative": (lambda x: x / -0.3, (X,)),
    "div_int": (lambda x: x / 5, (ints(2, 3),)),
    "div_known_vector": (lambda x: x / torch.tensor([3.0, 7.0, -0.5]), (X,)),
    "div_known_equal_broadcast": (lambda x: x / torch.full((4, 1, 3), 3.0), (X,)),
    "floor_divide": (lambda x: x // -2, (ints(2, 3),)),
    "floor_divide_tensor": (lambda x: x // torch.tensor([3]), (ints(2, 3),)),
    "div_trunc": (lambda x: torch.div(x, 3, rounding_mode="trunc"), (ints(2, 3, dtype=torch.int32),)),
    "div_trunc_negative": (lambda x: torch.div(x, -4, rounding_mode="trunc"), (ints(4, 5),)),
    "div_floor": (lambda x: torch.div(x, 3, rounding_mode="floor"), (ints(2, 3),)),
    "remainder": (lambda x: x % 3, (ints(2, 3),)),
    "remainder_negative": (lambda x: x % -3, (ints(4, 5),)),
    "fmod": (lambda x: torch.fmod(x, 3), (ints(4, 5),)),
    "fmod_negative": (lambda x: torch.fmod(x, -3), (ints(4, 5),)),
    "maximum": (lambda x, y: torch.maximum(x, y), (X, Y)),
    "minimum": (lambda x, y: torch.minimum(x, y), (X, Y)),
    "max_two": (lambda x, y: torch.max(x, y), (X, ints(2, 3))),
    "fmax": (lambda x, y: torch.fmax(x, y), (X, Y)),
    "maximum_bool": (lambda x, y: torch.maximum(x, y), (bools(2, 3), bools(2, 3, seed=1))),
    "neg": (lambda x: -x, (X,)),
    "abs": (lambda x: x.abs(), (X,)),
    "abs_int": (lambda x: abs(x), (ints(2, 3),)),
    "sign": (lambda x: torch.sign(x), (X,)),
    "sgn": (lambda x: torch.sgn(x), (X,)),
    "relu": (lambda x: F.relu(x), (X,)),
    "relu_inplace_on_copy": (lambda x: x.clone().relu_().add_(1), (X,)),
    "relu_int": (lambda x: F.relu(x), (ints(2, 3),)),
    "relu6": (lambda x: F.relu6(x * 8), (X,)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 0.75), (X,)),
    "clamp": (lambda x: x.clamp(-0.5, 1), (X,)),
    "clamp_min": (lambda x: x.clamp(min=0.1), (X,)),
    "clamp_max_inf": (lambda x: x.clamp(-float("inf"), 0.1), (X,)),
    "clamp_both_infinite": (lambda x: x.clamp(-float("inf"), float("inf")), (X,)),
    "clamp_crossed": (lambda x: x.clamp(1, -1), (X,)),
    "clamp_int_by_float": (lambda x: x.clamp(-1.5, 2.5), (ints(2, 3),)),
    "clamp_tensor": (lambda x, y: torch.clamp(x, min=y), (X, Y)),
    "clamp_known": (lambda x: torch.clamp(x, torch.tensor([-1.0, 0, 1]), torch.tensor(1.0)), (X,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), (X,)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.1, 0.2, -0.3])), (X,)),
    "threshold": (lambda x: F.threshold(x, 0.5, -3), (X,)),
    "hardswish": (lambda x: F.hardswish(x * 2), (X,)),
    "hardsigmoid": (lambda x: F.hardsigmoid(x * 2), (X,)),
    "hardshrink": (lambda x: F.hardshrink(x), (X,)),
    "softshrink": (lambda x: F.softshrink(x), (X,)),
    "square": (lambda x: torch.square(x), (X,)),
    "pow_two": (lambda x: x**2, (X,)),
    "pow_five": (lambda x: torch.pow(x, 5), (X,)),
    "pow_six_int": (lambda x: x**6, (ints(2, 3),)),
    "pow_zero": (lambda x: x**0, (X,)),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), (X, Y)),
    "addcdiv_known": (lambda x: torch.addcdiv(x, x, torch.tensor(3.0), value=2), (X,)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
    "lerp_tensor": (lambda x, y: torch.lerp(x, y, x), (X, Y)),
    "mse": (lambda x, y: F.mse_loss(x, y), (X, Y)),
    "l1": (lambda x, y: F.l1_loss(x, y), (X, Y)),
    "cast_to_int": (lambda x: (x * 3).to(torch.int32), (X,)),
    "cast_to_bool": (lambda x: x.bool(), (X,)),
    "cast_to_double": (lambda x: x.double() + 0.1, (X,)),
    "cast_same": (lambda x: x.float() + 1, (X,)),
    "type_as": (lambda x, y: x.type_as(y), (ints(2, 3), Y)),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), (X, Y)),
    "where_scalar": (lambda x: torch.where(x > 0, x, 0.5), (X,)),
    "where_scalars": (lambda x: torch.where(x > 0, 1.0, -1.0), (X,)),
    "where_int": (lambda x, y: torch.where(x > 0, x, y), (ints(2, 3), Y)),
    "masked_fill": (lambda x, m: x.masked_fill(m, 3.5), (X, bools(2, 3))),
    "masked_fill_known": (lambda x: x.masked_fill(torch.tensor([True, False, True]), -9), (X,)),
    "masked_fill_tensor": (lambda x, m: x.masked_fill(m, torch.tensor(2.0)), (X, bools(2, 3))),
    "compare_scalar": (lambda x: (x > 0, x >= 0, x < 0.125, x <= 0, x == 0, x != 0), (X,)),
    "compare_tensor": (lambda x, y: (x > y, x >= y, x < y, x <= y, x == y, x != y), (X, X.flip(0))),
    "compare_int_float": (lambda x: (x > 0.5, x == 1.0), (ints(2, 3),)),
    "compare_bool": (lambda x, y: (x == y, x != y), (bools(2, 3), bools(2, 3, seed=1))),
    "logical": (
        lambda x, y: (
            torch.logical_and(x, y),
            torch.logical_or(x, y),
            torch.logical_xor(x, y),
            torch.logical_not(x),
        ),
        (bools(2, 3), Y),
    ),
    "bitwise_int": (lambda x, y: (x & y, x | y, x ^ y, ~x), (ints(2, 3), ints(2, 3, seed=1))),
    "bitwise_scalar": (lambda x: (x & 3, x | 4, x ^ 1), (ints(2, 3, dtype=torch.int16),)),
    "bitwise_bool": (lambda x, y: (x & y, x | y, x ^ y, ~x), (bools(2, 3), bools(2, 3, seed=1))),
    "no_ops": (lambda x: F.dropout(x.clone().contiguous().detach(), 0.5, False) + 0, (X,)),
    "copy_into": (lambda x, y: torch.zeros(2, 3).copy_(x) + y, (t(3), Y)),
    "isnan": (lambda x: torch.isnan(x), (X,)),
    "float64": (lambda x: F.relu(x) * 0.1, (X.double(),)),
    "float16": (lambda x: F.relu(x) + 0.5, (X.half(),)),
    "uint8": (lambda x: x + 3, (ints(2, 3).abs().to(torch.uint8),)),
}

R = t(2, 3, 5)
REDUCTIONS: dict[str, Case] = {
    "sum_all": (lambda x: x.sum(), (R,)),
    "sum_negative_dims": (lambda x: x.sum((-1, 0), keepdim=True), (R,)),
    "sum_empty_dims": (lambda x: x.sum(()), (R,)),
    "sum_int": (lambda x: x.sum(0), (ints(2, 3, dtype=torch.int32),)),
    "sum_bool": (lambda x: x.sum(), (bools(2, 3),)),
    "sum_dtype": (lambda x: x.sum(0, dtype=torch.float64), (ints(2, 3),)),
    "sum_size_one": (lambda x: x.sum(1), (t(2, 1, 3),)),
    "sum_zero_dim": (lambda x: x.sum(), (t(1)[0],)),
    "mean": (lambda x: x.mean(), (R,)),
    "mean_dims": (lambda x: x.mean((0, 2)), (R,)),
    "mean_dtype": (lambda x: x.mean(dtype=torch.float32), (ints(2, 3),)),
    "amax": (lambda x: x.amax(-1, keepdim=True), (R,)),
    "amax_all": (lambda x: torch.amax(x), (R,)),
    "amax_bool": (lambda x: x.amax(0), (bools(2, 3),)),
    "amin_dims": (lambda x: x.amin((0, 1)), (R,)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), (R,)),
    "max_all": (lambda x: x.max(), (R,)),
    "max_dim": (lambda x: x.max(1), (R,)),
    "max_dim_size_one": (lambda x: x.max(1, keepdim=True), (t(2, 1, 3),)),
    "max_dim_bool": (lambda x: x.max(1), (bools(2, 3),)),
    "min_dim": (lambda x: x.min(-1, keepdim=True), (R,)),
    "prod": (lambda x: x.prod(), (t(2, 3),)),
    "prod_dim": (lambda x: x.prod(1, keepdim=True), (R,)),
    "any_all": (lambda x: (x.any(), x.all(), x.any(1), x.all(0, keepdim=True)), (bools(2, 3),)),
    "any_float": (lambda x: (x.any(), x.all(-1)), (X,)),
    "any_uint8": (lambda x: x.any(1), (ints(2, 3).abs().to(torch.uint8),)),
    "any_dims": (lambda x: torch.any(x, dim=(0, 1)), (bools(2, 3),)),
    "argmax": (lambda x: x.argmax(), (R,)),
    "argmax_dim": (lambda x: x.argmax(1, keepdim=True), (R,)),
    "argmin_dim": (lambda x: x.argmin(-2), (R,)),
    "argmax_size_one": (lambda x: x.argmax(1), (t(2, 1),)),
    "argmax_keepdim_all": (lambda x: x.argmax(keepdim=True), (X,)),
    "cumsum": (lambda x: x.cumsum(-1), (R,)),
    "cumsum_int": (lambda x: x.cumsum(0), (ints(3, 2, dtype=torch.int32),)),
    "cumsum_bool": (lambda x: x.cumsum(0), (bools(3, 2),)),
    "var": (lambda x: x.var(1), (R,)),
    "var_biased": (lambda x: x.var((0, 1), correction=0), (R,)),
    "var_mean": (lambda x: torch.var_mean(x, 2), (R,)),
    "count_nonzero": (lambda x: torch.count_nonzero(x, 1), (R,)),
    "nansum": (lambda x: torch.nansum(x), (R,)),
    "trace": (lambda x: torch.trace(x), (t(3, 3),)),
    "l1_norm": (lambda x: x.abs().sum(1), (R,)),
    "adaptive_pool": (lambda x: F.adaptive_avg_pool2d(x, 1), (t(1, 2, 3, 4),)),
    "logical_chain": (lambda x: ((x > 0) & (x < 1)).sum(-1), (R,)),
}

L = t(2, 3, 4)
LAYOUT: dict[str, Case] = {
    "view": (lambda x: x.view(6, 4), (L,)),
    "view_infer": (lambda x: x.view(-1, 2), (L,)),
    "reshape_of_transposed": (lambda x: x.transpose(1, 2).reshape(2, 12), (L,)),
    "flatten": (lambda x: torch.flatten(x, 1), (L,)),
    "unflatten": (lambda x: x.unflatten(2, (2, 2)), (L,)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(1), x.squeeze((1, 3)), x.squeeze(0)), (t(2, 1, 3, 1),)),
    "unsqueeze": (lambda x: (x.unsqueeze(0), x.unsqueeze(-1)), (L,)),
    "index_none": (lambda x: x[:, None, ..., 0], (L,)),
    "view_as": (lambda x, y: x.view_as(y), (t(2, 6), t(3, 4))),
    "ravel": (lambda x: x.ravel(), (L,)),
    "permute": (lambda x: x.permute(2, 0, 1), (L,)),
    "permute_negative": (lambda x: x.permute(-1, 0, -2), (L,)),
    "permute_twice": (lambda x: x.permute(2, 0, 1).permute(1, 2, 0) + 1, (L,)),
    "transpose": (lambda x: x.transpose(0, -1), (L,)),
    "t": (lambda x: x.t(), (X,)),
    "T": (lambda x: x.T, (X,)),
    "mT": (lambda x: x.mT, (L,)),
    "movedim": (lambda x: x.movedim(0, 2), (L,)),
    "swapaxes": (lambda x: x.swapaxes(0, 1), (L,)),
    "rot90": (lambda x: torch.rot90(x), (X,)),
    "select": (lambda x: (x[1], x[:, -1], x.select(2, 0)), (L,)),
    "slice": (lambda x: (x[:, 1:], x[..., ::2], x[:, -2:], x[:, :-1, 1:3], x[:, :100]), (L,)),
    "slice_of_slice": (lambda x: x[:, 1:][..., ::2][:, :1], (L,)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (L,)),
    "split": (lambda x: x.split(2, dim=1), (L,)),
    "split_sizes": (lambda x: torch.split(x, [1, 3], -1), (L,)),
    "chunk": (lambda x: x.chunk(3, -1), (L,)),
    "tensor_split": (lambda x: torch.tensor_split(x, 3, 2), (L,)),
    "unbind": (lambda x: x.unbind(1), (L,)),
    "flip": (lambda x: x.flip(0, -1), (L,)),
    "flip_twice": (lambda x: x.flip(1).flip(1), (L,)),
    "flip_slice": (lambda x: x.flip(-1)[..., 1:3], (L,)),
    "fliplr": (lambda x: torch.fliplr(x), (X,)),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1)), (t(3, 4),)),
    "diagonal_dims": (lambda x: x.diagonal(0, 0, 2), (L,)),
    "expand": (lambda x: x.expand(4, 2, 3), (X,)),
    "expand_keep": (lambda x: x.expand(-1, 5), (t(3, 1),)),
    "expand_as": (lambda x, y: x.expand_as(y), (t(3), X)),
    "broadcast_to": (lambda x: torch.broadcast_to(x, (2, 2, 3)), (X,)),
    "broadcast_tensors": (torch.functional.broadcast_tensors, (t(3, 1), t(1, 2))),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), (t(3), t(2))),
    "windows": (lambda x: torch.stack([x[i : i + 2] for i in range(3)]), (t(4),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (t(1, 4, 2, 3),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (t(1, 4, 2, 2),)),
    "zero_dim_moved": (
        lambda x: (x.flip(0), x.roll(1), x.transpose(0, -1), x.permute(()), x.expand(2), x.repeat(2), x.T),
        (t(1)[0],),
    ),
    "zero_dim_reduced": (
        lambda x: (
            x.sum(0),
            x.mean(-1),
            x.amax(0),
            x.max(0),
            x.argmax(0),
            x.argmin(),
            x.cumsum(0),
            x.prod(0),
        ),
        (t(1)[0],),
    ),
    "zero_dim_indexed": (
        lambda x: (x.gather(0, ZERO), x.index_select(0, ZERO), x.unfold(0, 1, 1), x[None], x[..., None]),
        (t(1)[0],),
    ),
    "zero_dim_product": (lambda x, y: (x * y, y @ (y * x), torch.outer(y, y) * x), (t(1)[0], t(3))),
    "zero_dim": (lambda x: x.reshape(1, 1).squeeze(), (t(1)[0],)),
}

MOVEMENT: dict[str, Case] = {
    "cat": (lambda x, y: torch.cat([x, y, x], 1), (X, Y)),
    "cat_negative": (lambda x, y: torch.cat([x, y], -1), (X, Y)),
    "cat_promotes": (lambda x, y: torch.cat([x, y]), (X, ints(1, 3))),
    "cat_known": (lambda x: torch.cat([torch.zeros(1, 3), x]), (X,)),
    "cat_empty": (lambda x: torch.cat([x[:, :0], x, x[:, :0]], 1), (X,)),
    "cat_of_empty": (lambda x: torch.cat([x[:, :0], x[:, :0]], 1).sum(1), (X,)),
    "hstack_vstack": (lambda x, y: (torch.hstack([x, y]), torch.vstack([x, y])), (X, Y)),
    "stack": (lambda x, y: torch.stack([x, y], -1), (X, Y)),
    "pad": (lambda x: F.pad(x, (1, 2), value=1.5), (X,)),
    "pad_two_axes": (lambda x: F.pad(x, (0, 1, 2, 0)), (X,)),
    "pad_negative": (lambda x: F.pad(x, (-1, 2)), (X,)),
    "pad_only_negative": (lambda x: F.pad(x, (-1, -1)), (X,)),
    "pad_bool": (lambda x: F.pad(x, (1, 0), value=True), (bools(2, 3),)),
    "pad_reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), (t(1, 2, 4),)),
    "pad_replicate": (lambda x: F.pad(x, (2, 1), mode="replicate"), (t(1, 2, 4),)),
    "pad_circular": (lambda x: F.pad(x, (2, 1), mode="circular"), (t(1, 2, 4),)),
    "repeat": (lambda x: x.repeat(2, 1, 3), (X,)),
    "tile": (lambda x: x.tile(2, 2), (X,)),
    "repeat_interleave": (lambda x: (x.repeat_interleave(2, 1), x.repeat_interleave(3)), (X,)),
    "roll": (lambda x: (x.roll(1, 1), x.roll(-1), x.roll((1, 2), (0, 1)), x.roll(3, 1)), (X,)),
    "index_select": (lambda x: x.index_select(1, torch.tensor([2, 0, 0, 1])), (X,)),
    "index_list": (lambda x: x[:, [2, 0]], (X,)),
    "index_negative": (lambda x: x[[-1, 0, -1]], (X,)),
    "index_known_matrix": (lambda x: x[torch.tensor([[0, 1], [1, 1]])], (X,)),
    "index_two": (lambda x: x[[0, 1, 1], [2, 0, 1]], (X,)),
    "index_apart": (lambda x: x[[0, 1], :, [2, 3]], (L,)),
    "index_mask_known": (lambda x: x * torch.tensor([True, False, True]), (X,)),
    "write_slice": (lambda x, y: _written(x, y[:, :2]), (X, Y)),
    "write_step": (lambda x: _written_step(x), (t(2, 6),)),
    "write_element": (lambda x: _written_row(x), (X,)),
    "write_index": (lambda x, y: _written_at(x, y), (t(3, 4), t(2, 4, seed=1))),
    "write_two_indices": (lambda x: _written_points(x), (t(3, 4),)),
    "tril": (lambda x: (x.tril(), x.triu(1), x.tril(-1)), (t(3, 4),)),
    "full_like": (lambda x: (torch.full_like(x, 2.5) + x, torch.ones_like(x), torch.zeros_like(x)), (X,)),
    "new_zeros": (lambda x: x.new_zeros(2, 3) + x.new_full((3,), 2), (X,)),
    "arange": (lambda x: x + torch.arange(3), (X,)),
    "times_eye": (lambda x: x @ torch.eye(3), (X,)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (t(1, 2, 2, 3),)),
    "unfold": (lambda x: x.unfold(1, 2, 1), (X,)),
    "diag": (lambda x: torch.diag(x), (t(3, 3),)),
    "unfold_step": (lambda x: x.unfold(0, 3, 2), (t(7, 2),)),
    "index_put_twice": (
        lambda x: x.index_put((torch.tensor([0, 0]),), torch.ones(3), accumulate=True),
        (X,),
    ),
    "index_of_many_runs": (lambda x: x[:, torch.arange(200) * 7 % 11 % 3], (X,)),
    "gather_known": (lambda x: x.gather(0, torch.tensor([[1, 0, 1], [0, 0, 1]])), (X,)),
    "take_along_known": (lambda x: torch.take_along_dim(x, torch.tensor([[0], [2]]), 1), (X,)),
}


def _written(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] = y
    return x


def _written_step(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, ::2] = 7.0
    return x


def _written_row(x: Tensor) -> Tensor:
    x = x.clone()
    x[1] = x[0] + 1
    return x


def _written_at(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[torch.tensor([2, 0])] = y
    return x


def _written_points(x: Tensor) -> Tensor:
    x = x.clone()
    x[torch.tensor([2, 0]), torch.tensor([1, 3])] = torch.tensor(7.0)
    return x


def _seeded(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                values = torch.rand(tensor.shape, generator=generator)
                tensor.copy_(values + 0.5 if name.endswith("var") else values * 2 - 1)
    return module.eval()


MODULES: dict[str, Case] = {
    "mlp": (_seeded(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))), (t(2, 4),)),
    "norm_after_linear": (_seeded(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU())), (t(3, 4),)),
    "norm_no_affine": (_seeded(nn.BatchNorm1d(3, eps=0.5, affine=False)), (t(2, 3, 4),)),
    "norm_2d": (_seeded(nn.BatchNorm2d(3)), (t(2, 3, 2, 2),)),
    "flatten_module": (_seeded(nn.Sequential(nn.Flatten(), nn.Linear(12, 2))), (t(2, 3, 4),)),
    "identity": (nn.Identity(), (X,)),
    "zero_pad": (nn.ZeroPad2d((1, 0, 2, 1)), (t(1, 1, 2, 3),)),
    "weight_norm": (_seeded(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))), (t(2, 4),)),
}

FAMILIES: dict[str, dict[str, Case]] = {
    "contractions": CONTRACTIONS,
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "layout": LAYOUT,
    "movement": MOVEMENT,
    "modules": MODULES,
}
