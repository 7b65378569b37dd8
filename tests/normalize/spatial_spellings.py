"""Small models over spatial axes, one for each way of writing an operation: name -> (forward, inputs)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.normalize.bundles import Case
from tests.normalize.spellings import known, t


def seeded(module: nn.Module, seed: int = 5) -> nn.Module:
    """The module with parameters and buffers on multiples of 1/8, variances positive, in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                low = 1 if name.endswith("var") else -8
                tensor.copy_(torch.randint(low, 9, tensor.shape, generator=generator) / 8)
    return module.eval()


def on(module: nn.Module, *shape: int) -> Case:
    return seeded(module), (t(*shape),)


def negative(*shape: int) -> Tensor:
    """Values below zero only: padding that counts as zero would win every maximum."""
    return -t(*shape).abs() - 1


W2, B6 = known(6, 4, 3, 2), known(6)
T2, T2G = known(4, 6, 3, 2), known(4, 3, 3, 2)
PICTURE, SQUARE = known(2, 4, 5, 5), known(4, 4, 1, 1)
X1, X2, X3 = (2, 4, 9), (2, 4, 9, 7), (1, 2, 5, 4, 6)

CONVOLUTION: dict[str, Case] = {
    "conv1d": on(nn.Conv1d(4, 6, 3), *X1),
    "conv1d_strided": on(nn.Conv1d(4, 6, 3, stride=2, padding=1), *X1),
    "conv1d_dilated": on(nn.Conv1d(4, 6, 3, dilation=3, padding=4), *X1),
    "conv1d_same": on(nn.Conv1d(4, 6, 4, padding="same", dilation=3), *X1),
    "conv1d_valid": on(nn.Conv1d(4, 6, 4, padding="valid"), *X1),
    "conv1d_depthwise": on(nn.Conv1d(4, 4, 3, groups=4), *X1),
    "conv2d": on(nn.Conv2d(4, 6, 3), *X2),
    "conv2d_no_bias": on(nn.Conv2d(4, 6, (3, 2), bias=False), *X2),
    "conv2d_pointwise": on(nn.Conv2d(4, 6, 1), *X2),
    "conv2d_whole_input": on(nn.Conv2d(4, 6, (9, 7)), *X2),
    "conv2d_unequal": on(nn.Conv2d(4, 6, (3, 2), stride=(2, 3), padding=(2, 1), dilation=(1, 2)), *X2),
    "conv2d_much_padding": on(nn.Conv2d(4, 6, 2, padding=5), *X2),
    "conv2d_stride_beyond_kernel": on(nn.Conv2d(4, 6, 2, stride=4), *X2),
    "conv2d_same": on(nn.Conv2d(4, 6, 3, padding="same"), *X2),
    "conv2d_same_even": on(nn.Conv2d(4, 6, (4, 2), padding="same"), *X2),
    "conv2d_same_even_dilated": on(nn.Conv2d(4, 6, (4, 2), padding="same", dilation=(1, 3)), *X2),
    "conv2d_valid_strided": on(nn.Conv2d(4, 6, 3, padding="valid", stride=2), *X2),
    "conv2d_groups": on(nn.Conv2d(4, 6, 3, groups=2, padding=1), *X2),
    "conv2d_depthwise": on(nn.Conv2d(4, 4, 3, groups=4, padding=1, stride=(1, 2)), *X2),
    "conv2d_depthwise_multiplier": on(nn.Conv2d(4, 12, 3, groups=4, bias=False), *X2),
    "conv2d_reflect": on(nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode="reflect"), *X2),
    "conv2d_replicate": on(nn.Conv2d(4, 6, 3, padding=(3, 1), padding_mode="replicate"), *X2),
    "conv2d_circular": on(nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="circular", stride=2), *X2),
    "conv2d_reflect_same": on(nn.Conv2d(4, 6, (4, 3), padding="same", padding_mode="reflect"), *X2),
    "conv2d_unbatched": (lambda x: F.conv2d(x, W2, B6, 2, 1), (t(4, 9, 7),)),
    "conv2d_functional": (lambda x: F.conv2d(x, W2, padding="same", dilation=(2, 3)), (t(*X2),)),
    "conv2d_weight_computed": (lambda x, w: F.conv2d(x, w, B6), (t(*X2), t(6, 4, 3, 2, seed=1))),
    "conv2d_bias_computed": (lambda x, b: F.conv2d(x, W2, b), (t(*X2), t(6, seed=1))),
    "conv2d_known_input": (lambda w: F.conv2d(PICTURE, w), (t(6, 4, 3, 2),)),
    "conv2d_float64": (lambda x: F.conv2d(x, W2.double()), (t(*X2).double(),)),
    "conv2d_after_pad": (lambda x: F.conv2d(F.pad(x, (2, 0, 1, 3)), W2, padding=1), (t(*X2),)),
    "conv2d_after_value_pad": (lambda x: F.conv2d(F.pad(x, (2, 0, 1, 3), value=1.5), W2), (t(*X2),)),
    "conv2d_after_channel_pad": (lambda x: F.conv2d(F.pad(x, (0, 0, 0, 0, 1, 1)), W2), (t(2, 2, 9, 7),)),
    "conv2d_after_crop": (lambda x: F.conv2d(F.pad(x, (-2, 1)), W2), (t(*X2),)),
    "conv3d": on(nn.Conv3d(2, 4, (3, 2, 3), stride=(1, 2, 2), padding=(1, 0, 2)), *X3),
    "conv3d_groups_same": on(nn.Conv3d(2, 4, 2, padding="same", groups=2), *X3),
    "convolution": (
        lambda x: torch.ops.aten.convolution(x, W2, B6, [2, 1], [0, 1], [1, 2], False, [0, 0], 1),
        (t(*X2),),
    ),
}

TRANSPOSED: dict[str, Case] = {
    "transposed_1d": on(nn.ConvTranspose1d(4, 6, 3), *X1),
    "transposed_1d_strided": on(nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1), *X1),
    "transposed_1d_output_padding": on(
        nn.ConvTranspose1d(4, 6, 3, stride=3, padding=2, output_padding=2), *X1
    ),
    "transposed_1d_stride_beyond_kernel": on(nn.ConvTranspose1d(4, 6, 2, stride=5, output_padding=4), *X1),
    "transposed_1d_stride_beyond_kernel_no_bias": on(nn.ConvTranspose1d(4, 6, 1, stride=3, bias=False), *X1),
    "transposed_1d_dilation_and_stride_share_a_factor": on(
        nn.ConvTranspose1d(4, 6, 3, stride=4, dilation=6, padding=5, output_padding=3), *X1
    ),
    "transposed_2d": on(nn.ConvTranspose2d(4, 6, (3, 2)), *X2),
    "transposed_2d_merged": on(nn.ConvTranspose2d(4, 6, 2, stride=2), *X2),
    "transposed_2d_merged_wide": on(nn.ConvTranspose2d(4, 6, (4, 3), stride=(2, 3), bias=False), *X2),
    "transposed_2d_unequal": on(
        nn.ConvTranspose2d(
            4, 6, (3, 4), stride=(2, 3), padding=(1, 2), output_padding=(1, 0), dilation=(2, 1)
        ),
        *X2,
    ),
    "transposed_2d_groups": on(nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, output_padding=1), *X2),
    "transposed_2d_depthwise": on(
        nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4, bias=False), *X2
    ),
    "transposed_2d_all_but_a_row": on(nn.ConvTranspose2d(4, 6, 3, padding=(2, 4), stride=(1, 2)), *X2),
    "transposed_2d_padding_beyond_kernel": on(nn.ConvTranspose2d(4, 6, 2, padding=4, stride=(2, 3)), *X2),
    "transposed_2d_one_element": on(
        nn.ConvTranspose2d(4, 6, 5, stride=2, padding=2, output_padding=1), 2, 4, 1, 1
    ),
    "transposed_2d_unbatched": (lambda x: F.conv_transpose2d(x, T2, B6, stride=2), (t(4, 5, 3),)),
    "transposed_2d_weight_computed": (
        lambda x, w: F.conv_transpose2d(x, w, B6, stride=2, groups=2),
        (t(2, 4, 5, 3), t(*T2G.shape, seed=1)),
    ),
    "transposed_2d_bias_computed": (
        lambda x, b: F.conv_transpose2d(x, T2, b, stride=4),
        (t(2, 4, 5, 3), t(6)),
    ),
    "transposed_2d_output_size": (
        lambda x: F.conv_transpose2d(x, T2, stride=(3, 2), output_padding=(2, 1), padding=1),
        (t(2, 4, 5, 3),),
    ),
    "transposed_3d": on(
        nn.ConvTranspose3d(2, 4, 3, stride=(2, 1, 2), padding=1, output_padding=(1, 0, 1)), *X3
    ),
    "convolution_transposed": (
        lambda x: torch.ops.aten.convolution(x, T2G, B6, [2, 1], [0, 1], [1, 2], True, [1, 0], 2),
        (t(*X2),),
    ),
}

POOLING: dict[str, Case] = {
    "max_1d": (lambda x: F.max_pool1d(x, 3), (negative(*X1),)),
    "max_1d_padded": (lambda x: F.max_pool1d(x, 4, 3, 2, 2), (negative(*X1),)),
    "max_2d": (lambda x: F.max_pool2d(x, 2), (t(*X2),)),
    "max_2d_padded": (lambda x: F.max_pool2d(x, 3, 2, 1), (negative(*X2),)),
    "max_2d_unequal": (lambda x: F.max_pool2d(x, (3, 2), (1, 3), (1, 0)), (negative(*X2),)),
    "max_2d_dilated": (lambda x: F.max_pool2d(x, 3, 2, 1, (2, 3)), (negative(*X2),)),
    "max_2d_ceil": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (negative(*X2),)),
    "max_2d_ceil_padded": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (negative(2, 3, 8, 6),)),
    "max_2d_ceil_window_dropped": (
        lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        (negative(2, 3, 5, 8),),
    ),
    "max_2d_ceil_dilated": (lambda x: F.max_pool2d(x, 2, 3, 1, 2, ceil_mode=True), (negative(*X2),)),
    "max_2d_unbatched": (nn.MaxPool2d(3, 1, 1), (negative(4, 5, 6),)),
    "max_2d_with_values_only": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], (negative(*X2),)),
    "max_2d_after_pad": (lambda x: F.max_pool2d(F.pad(x, (1, 1, 0, 1)), 2), (negative(*X2),)),
    "max_2d_int": (lambda x: F.max_pool2d(x, 3, 2, 1), (negative(*X2).long(),)),
    "max_3d": (lambda x: F.max_pool3d(x, 2, (1, 2, 2), 1, ceil_mode=True), (negative(*X3),)),
    "avg_1d": (lambda x: F.avg_pool1d(x, 4, 3, 1), (t(*X1),)),
    "avg_1d_not_padding": (nn.AvgPool1d(4, 2, 2, ceil_mode=True, count_include_pad=False), (t(*X1),)),
    "avg_2d": (lambda x: F.avg_pool2d(x, 2), (t(*X2),)),
    "avg_2d_unequal": (lambda x: F.avg_pool2d(x, (3, 2), (1, 2), (1, 0)), (t(*X2),)),
    "avg_2d_not_padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (t(*X2),)),
    "avg_2d_ceil": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (t(*X2),)),
    "avg_2d_ceil_padded": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (t(2, 3, 8, 6),)),
    "avg_2d_ceil_not_padding": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        (t(2, 3, 8, 6),),
    ),
    "avg_2d_ceil_window_dropped": (lambda x: F.avg_pool2d(x, 2, 3, 1, ceil_mode=True), (t(2, 3, 5, 8),)),
    "avg_2d_divisor": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (t(*X2),)),
    "avg_2d_divisor_ceil_not_padding": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False, divisor_override=-3),
        (t(2, 3, 8, 6),),
    ),
    "avg_2d_unbatched": (nn.AvgPool2d(3), (t(4, 9, 6),)),
    "avg_2d_after_pad": (lambda x: F.avg_pool2d(F.pad(x, (1, 1, 0, 1)), 2), (t(*X2),)),
    "avg_3d": (lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), True, False), (t(*X3),)),
    "lp_2d": (lambda x: F.lp_pool2d(x, 2, 2), (t(*X2),)),
    "lp_1d_norm_1": (lambda x: F.lp_pool1d(x.abs(), 1, 3, stride=2), (t(*X1),)),
}

ADAPTIVE: dict[str, Case] = {
    "max_pool_indices": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[2:]),
        (t(*X2),),
    ),
    "adaptive_max_indices": (lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True), (t(*X2),)),
    "adaptive_max_1d_of_many_runs": (lambda x: F.adaptive_max_pool1d(x, 150), (t(1, 2, 220),)),
    "adaptive_avg_1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (t(*X1),)),
    "adaptive_avg_1d_uneven": (lambda x: F.adaptive_avg_pool1d(x, 4), (t(*X1),)),
    "adaptive_avg_1d_overlapping": (lambda x: F.adaptive_avg_pool1d(x, 3), (t(2, 4, 7),)),
    "adaptive_avg_1d_more": (lambda x: F.adaptive_avg_pool1d(x, 14), (t(*X1),)),
    "adaptive_avg_2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (t(2, 4, 9, 8),)),
    "adaptive_avg_2d_uneven": (lambda x: F.adaptive_avg_pool2d(x, (4, 5)), (t(*X2),)),
    "adaptive_avg_2d_one_axis": (nn.AdaptiveAvgPool2d((None, 3)), (t(*X2),)),
    "adaptive_avg_2d_as_it_is": (lambda x: F.adaptive_avg_pool2d(x, (9, 7)) * 2, (t(*X2),)),
    "adaptive_avg_2d_from_one": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (t(2, 4, 1, 5),)),
    "adaptive_avg_2d_unbatched": (nn.AdaptiveAvgPool2d((2, 3)), (t(4, 9, 7),)),
    "adaptive_avg_3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 2, 4)), (t(*X3),)),
    "global_avg": (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), (t(*X2),)),
    "global_avg_by_mean": (lambda x: x.mean((-2, -1)), (t(*X2),)),
    "global_max": (lambda x: F.adaptive_max_pool2d(x, 1), (negative(*X2),)),
    "global_max_by_amax": (lambda x: x.amax((2, 3)), (negative(*X2),)),
    "adaptive_max_1d": (lambda x: F.adaptive_max_pool1d(x, 4), (negative(*X1),)),
    "adaptive_max_2d": (lambda x: F.adaptive_max_pool2d(x, (3, 4)), (negative(2, 4, 9, 8),)),
    "adaptive_max_2d_uneven": (nn.AdaptiveMaxPool2d((4, 5)), (negative(*X2),)),
    "adaptive_max_2d_more": (lambda x: F.adaptive_max_pool2d(x, (11, 3)), (negative(*X2),)),
    "adaptive_max_3d": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 3)), (negative(*X3),)),
    "resize_by_area": (lambda x: F.interpolate(x, size=(4, 3), mode="area"), (t(*X2),)),
}

NORMS: dict[str, Case] = {
    "batch_norm_after_conv": on(nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6)), *X2),
    "batch_norm_after_conv_no_bias": on(
        nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)), *X2
    ),
    "batch_norm_after_groups": on(
        nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.BatchNorm1d(6, eps=0.5)), *X1
    ),
    "batch_norm_after_transposed": on(
        nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.BatchNorm2d(6)), *X2
    ),
    "batch_norm_after_linear_3d": on(nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(3)), 2, 3, 7),
    "batch_norm_before_padded_conv": on(
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, padding=2)), *X2
    ),
    "batch_norm_before_max_pool": on(nn.Sequential(nn.BatchNorm2d(4), nn.MaxPool2d(3, 2, 1)), *X2),
    "batch_norm_3d": on(nn.BatchNorm3d(2), *X3),
    "batch_norm_of_the_batch": on(nn.BatchNorm2d(4, track_running_stats=False), *X2),
    "instance_norm": on(nn.InstanceNorm2d(4), *X2),
    "instance_norm_affine": on(nn.InstanceNorm1d(4, affine=True, eps=0.25), *X1),
    "instance_norm_running": on(nn.InstanceNorm2d(4, affine=True, track_running_stats=True), *X2),
    "group_norm": on(nn.GroupNorm(2, 4), *X2),
    "group_norm_one_group": on(nn.GroupNorm(1, 4, eps=0.5), *X2),
    "group_norm_each_channel": on(nn.GroupNorm(4, 4, affine=False), *X1),
    "group_norm_of_rows": on(nn.GroupNorm(2, 6), 3, 6),
    "layer_norm": on(nn.LayerNorm(7), *X2),
    "layer_norm_3_axes": on(nn.LayerNorm((4, 9, 7), eps=0.125), *X2),
    "layer_norm_no_affine": on(nn.LayerNorm((9, 7), elementwise_affine=False), *X2),
    "layer_norm_no_bias": on(nn.LayerNorm(7, bias=False), *X2),
    "layer_norm_far_from_zero": (nn.LayerNorm(7), (t(3, 7) + 8,)),
    "layer_norm_of_constants": (nn.LayerNorm(7), (torch.full((3, 7), 1.5),)),
    "rms_norm": on(nn.RMSNorm(7), *X2),
    "rms_norm_eps": on(nn.RMSNorm((9, 7), eps=0.5), *X2),
    "unit_length": (lambda x: F.normalize(x, dim=1), (t(*X2) + 3,)),
    "squeeze_and_excitation": (
        lambda x: x * F.hardsigmoid(F.conv2d(F.adaptive_avg_pool2d(x, 1), SQUARE)),
        (t(*X2),),
    ),
    "clamped_functions": (lambda x: (F.relu6(x * 4), F.hardsigmoid(x), F.hardswish(x * 3)), (t(*X2),)),
}

RESAMPLING: dict[str, Case] = {
    "nearest_1d": (lambda x: F.interpolate(x, scale_factor=3), (t(*X1),)),
    "nearest_2d": (nn.Upsample(scale_factor=2), (t(*X2),)),
    "nearest_2d_unequal": (lambda x: F.interpolate(x, scale_factor=(1, 3)), (t(*X2),)),
    "nearest_2d_size": (lambda x: F.interpolate(x, size=(18, 21)), (t(*X2),)),
    "nearest_2d_fraction": (lambda x: F.interpolate(x, scale_factor=1.5), (t(*X2),)),
    "nearest_2d_fraction_recomputed": (
        lambda x: F.interpolate(x, scale_factor=1.3, recompute_scale_factor=True),
        (t(*X2),),
    ),
    "nearest_2d_smaller": (lambda x: F.interpolate(x, size=(3, 5)), (t(*X2),)),
    "nearest_2d_mixed": (lambda x: F.interpolate(x, size=(27, 4)), (t(*X2),)),
    "nearest_exact": (lambda x: F.interpolate(x, size=(13, 5), mode="nearest-exact"), (t(*X2),)),
    "nearest_1d_many_runs": (lambda x: F.interpolate(x, size=200), (t(1, 2, 130),)),
    "nearest_1d_many_runs_float64": (lambda x: F.interpolate(x, size=200), (t(1, 2, 130).double(),)),
    "nearest_float16": (lambda x: F.interpolate(x, size=(13, 5)), (t(*X2).half(),)),
    "nearest_3d": (lambda x: F.interpolate(x, scale_factor=2), (t(*X3),)),
    "nearest_int": (lambda x: F.interpolate(x, scale_factor=2), (t(*X2).abs().to(torch.uint8),)),
    "linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (t(*X1),)),
    "linear_corners": (lambda x: F.interpolate(x, size=14, mode="linear", align_corners=True), (t(*X1),)),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), (t(*X2),)),
    "bilinear_corners": (nn.UpsamplingBilinear2d(scale_factor=2), (t(*X2),)),
    "bilinear_fraction": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (t(*X2),)),
    "bilinear_smaller": (lambda x: F.interpolate(x, size=(4, 7), mode="bilinear"), (t(*X2),)),
    "bilinear_antialias": (
        lambda x: F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True),
        (t(*X2),),
    ),
    "bilinear_to_one": (
        lambda x: F.interpolate(x, size=(1, 5), mode="bilinear", align_corners=True),
        (t(*X2),),
    ),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (t(*X2),)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=(1, 2, 2), mode="trilinear"), (t(*X3),)),
    "pixel_shuffle": (nn.PixelShuffle(2), (t(2, 12, 3, 5),)),
    "pixel_shuffle_more_batches": (lambda x: F.pixel_shuffle(x, 2), (t(2, 3, 8, 2, 3),)),
    "pixel_unshuffle": (nn.PixelUnshuffle(3), (t(2, 2, 6, 9),)),
    "channel_shuffle": (nn.ChannelShuffle(2), (t(*X2),)),
    "pads": (
        nn.Sequential(
            nn.ZeroPad2d(1),
            nn.ConstantPad2d((2, 0, 1, 0), -1.5),
            nn.ReflectionPad2d((1, 2, 3, 0)),
            nn.ReplicationPad2d(2),
            nn.CircularPad2d(1),
        ),
        (t(*X2),),
    ),
    "pads_1d": (
        nn.Sequential(nn.ReflectionPad1d(3), nn.ReplicationPad1d((0, 2)), nn.ConstantPad1d(-1, 0)),
        (t(*X1),),
    ),
}


def _skip_network() -> nn.Module:
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.up = nn.Conv2d(4, 6, 3, 2, 1), nn.ConvTranspose2d(6, 4, 2, 2)
            self.norm, self.out = nn.BatchNorm2d(6), nn.Conv2d(8, 2, 1)

        def forward(self, x: Tensor) -> Any:
            y = F.relu(self.norm(self.down(x)))
            return self.out(torch.cat([x, self.up(y)], 1))

    return Skip()


NETWORKS: dict[str, Case] = {
    "skip_connection": on(_skip_network(), 2, 4, 8, 6),
    "inverted_residual": on(
        nn.Sequential(
            nn.Conv2d(4, 12, 1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU6(),
            nn.Conv2d(12, 12, 3, 2, 1, groups=12, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU6(),
            nn.Conv2d(12, 6, 1, bias=False),
            nn.BatchNorm2d(6),
        ),
        *X2,
    ),
    "norm_behind_the_function": on(
        nn.Sequential(
            nn.ZeroPad2d((0, 0, 2, 1)),
            nn.Conv2d(1, 4, (4, 1), stride=(2, 1)),
            nn.ReLU(),
            nn.BatchNorm2d(4, eps=0.001),
            nn.MaxPool2d((2, 1)),
            nn.ZeroPad2d((0, 0, 2, 1)),
            nn.Conv2d(4, 4, (4, 1)),
        ),
        2, 1, 20, 1,
    ),
}  # fmt: skip

FAMILIES: dict[str, dict[str, Case]] = {
    "convolution": CONVOLUTION,
    "transposed": TRANSPOSED,
    "pooling": POOLING,
    "adaptive": ADAPTIVE,
    "norms": NORMS,
    "resampling": RESAMPLING,
    "networks": NETWORKS,
}
