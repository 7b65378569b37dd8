"""Whole convolutional networks with random weights, in eval mode and the same in every run.

Batch norms have statistics as training leaves them, so that folding them changes numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norms around a shortcut (1x1 convolution where the shape changes)."""

    def __init__(self, channels: int, features: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, features, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(features)
        self.conv2 = nn.Conv2d(features, features, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(features)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != features:
            self.shortcut = nn.Conv2d(channels, features, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width)."""
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet8(nn.Module):
    """Convolution, three residual blocks, global average pool, linear layer: MLPerf Tiny's CIFAR network."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.block1 = ResidualBlock(width, width, 1)
        self.block2 = ResidualBlock(width, 2 * width, 2)
        self.block3 = ResidualBlock(2 * width, 4 * width, 2)
        self.linear = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 3, height, width)."""
        y = torch.relu(self.norm(self.conv(x)))
        y = self.block3(self.block2(self.block1(y)))
        y = F.adaptive_avg_pool2d(y, 1).flatten(1)
        logits: Tensor = self.linear(y)
        return logits


class InvertedResidual(nn.Module):
    """MobileNetV2's block: expand 1x1, depthwise 3x3, project 1x1, add the input; batch norms, ReLU6."""

    def __init__(self, channels: int = 64, expand: int = 6) -> None:
        super().__init__()
        hidden = channels * expand
        self.body = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, 1, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width)."""
        y: Tensor = x + self.body(x)
        return y


def separable(channels: int, features: int) -> nn.Sequential:
    """Depthwise 3x3 and pointwise 1x1 convolutions, batch norm and ReLU behind each."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, 1, 1, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, features, 1, bias=False),
        nn.BatchNorm2d(features),
        nn.ReLU(),
    )


class KeywordSpotter(nn.Module):
    """DS-CNN: convolution over 49 frames of 10 coefficients, separable blocks, average pool, 12 words."""

    def __init__(self, width: int = 64, blocks: int = 4) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.ZeroPad2d((1, 1, 4, 5)),  # 'same' as frameworks with static shapes pad it, for stride 2
            nn.Conv2d(1, width, (10, 4), (2, 2), bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential(*(separable(width, width) for _ in range(blocks)))
        self.linear = nn.Linear(width, 12)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 1, 49, 10)."""
        y = self.blocks(self.stem(x))
        y = F.avg_pool2d(y, y.shape[2:]).flatten(1)
        logits: Tensor = self.linear(y)
        return logits


def double(channels: int, features: int) -> nn.Sequential:
    """Two 3x3 convolutions with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, features, 3, padding=1, bias=False),
        nn.BatchNorm2d(features),
        nn.ReLU(),
        nn.Conv2d(features, features, 3, padding=1, bias=False),
        nn.BatchNorm2d(features),
        nn.ReLU(),
    )


class UNet(nn.Module):
    """Two levels down by max pooling, up by transposed convolution and bilinearly, skips by concatenation."""

    def __init__(self, channels: int = 1, width: int = 8, classes: int = 2) -> None:
        super().__init__()
        self.down1 = double(channels, width)
        self.down2 = double(width, 2 * width)
        self.bottom = double(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.join2 = double(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join1 = double(3 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width), both multiples of 4."""
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        y = self.bottom(F.max_pool2d(second, 2))
        y = self.join2(torch.cat([self.up2(y), second], 1))
        y = self.join1(torch.cat([self.up1(y), first], 1))
        mask: Tensor = self.head(y)
        return mask


class SqueezeExcite(nn.Module):
    """A convolution whose channels are scaled by a small network that sees their means."""

    def __init__(self, channels: int = 16, squeeze: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.excite = nn.Conv2d(squeeze, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, channels, height, width)."""
        y = F.silu(self.conv(x))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        return y * gate


class PaperCnn(nn.Sequential):
    """The network of the published PyTorch-to-Calyx flow, for 80x60 colour images and two classes."""

    def __init__(self, height: int = 80, width: int = 60) -> None:
        pooled = ((height - 4) // 2, (width - 4) // 3)
        super().__init__(
            nn.Conv2d(3, 8, 5),
            nn.ReLU(),
            nn.MaxPool2d((2, 3)),
            nn.Flatten(),
            nn.Linear(8 * pooled[0] * pooled[1], 2),
        )


def trained_like(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """The network in eval mode with random weights, batch norm statistics and scales away from 0 and 1."""
    torch.manual_seed(seed)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.uniform_(part.bias, -0.3, 0.3)
            nn.init.uniform_(part.running_mean, -0.3, 0.3)  # type: ignore[arg-type]
            nn.init.uniform_(part.running_var, 0.3, 1.0)  # type: ignore[arg-type]
    return module


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "ResNet-8": (ResNet8, (1, 3, 32, 32)),
    "MobileNetV2 block": (InvertedResidual, (1, 64, 14, 14)),
    "DS-CNN": (KeywordSpotter, (1, 1, 49, 10)),
    "U-Net": (UNet, (1, 1, 32, 32)),
    "squeeze and excite": (SqueezeExcite, (1, 16, 8, 8)),
    "paper's CNN": (PaperCnn, (1, 3, 80, 60)),
}
"""Name -> constructor, shape of the input."""


def example(shape: tuple[int, ...], seed: int = 1) -> Tensor:
    """A random input, standard normal."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
