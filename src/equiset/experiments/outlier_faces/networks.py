"""The network of appendix B.2 and its baseline."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.experiments.outlier_faces.settings import FaceVariant
from equiset.nn import SetDropout, SetLayer, SetPool
from equiset.nn.ways import may_look

SIDE = 64
POOLS = (2, 2, 5)  # after each three convolutions; 64-58-29-23-11-5-1 pixels


def build_network(settings: FaceVariant, sets: dict[str, Any]) -> nn.Module:
    """Return the network of a variant with its first weights; `sets` is the content of `sets.json`."""
    return OutlierNet(settings, sets["members"]).to(memory_format=torch.channels_last)


def input_shape(settings: FaceVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, sets["members"] if settings.model == "set-pooling" else -1, 3, SIDE, SIDE)


class Convolutions(nn.Module):
    """Nine 3x3 convolutions without padding, with batch normalisation, ELU and dropout.

    ELU is monotone, so it commutes with the maximum: pooling first gives the same values from a quarter of the
    activations. Feature maps lie channel by channel in memory (`channels_last`), which CPU and GPU convolve faster.

    Shapes: (images, 3, 64, 64) -> (images, channels).
    """

    def __init__(self, settings: FaceVariant):
        super().__init__()
        widths = [3, *settings.channels]
        # Batch normalisation subtracts the mean, so a bias before it would do nothing.
        self.layers = nn.ModuleList(nn.Conv2d(widths[i], widths[i + 1], 3, bias=False) for i in range(len(widths) - 1))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.dropout = nn.Dropout2d(settings.conv_dropout)
        if settings.conv_dropout_shape == "element":
            self.dropout = QuickDropout(settings.conv_dropout)

    def forward(self, x: Tensor) -> Tensor:
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = norm(layer(x))
            if number % 3 == 2:
                x = F.max_pool2d(x, POOLS[number // 3])
            x = self.dropout(F.elu(x, inplace=True))
        return x.flatten(1)


class QuickDropout(nn.Module):
    """Dropout of single values, with four decisions from every random number of 64 bits.

    On a CPU, `torch.nn.Dropout` spends a quarter of the training step on drawing one number for each value. Here the
    rate is rounded to a multiple of 2^-16. Elsewhere torch's own is as fast and serves.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        dense = x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)
        if not may_look(x) or not dense:
            return F.dropout(x, self.p)
        dropped = round(self.p * 2**16)
        longs = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        bits = longs.view(torch.int16)[: x.numel()]
        keep = torch.ge(bits, dropped - 2**15, out=x.new_empty(x.numel()))
        # Laid out in memory as x is, so that the product is a plain pass over both.
        return x * keep.mul_(2**16 / (2**16 - dropped)).as_strided(x.shape, x.stride())


class OutlierNet(nn.Module):
    """(batch, members, 3, 64, 64) images -> (batch, members) logits of being the outlier.

    The set layers are those of eq. 5. The baseline pools over the set first, and its fully connected layers then give
    one logit for each position.
    """

    def __init__(self, settings: FaceVariant, members: int):
        super().__init__()
        self.pooling = settings.model == "set-pooling"
        self.convolutions = Convolutions(settings)
        self.pool = SetPool(settings.set_pool)
        layers: list[nn.Module] = []
        width = settings.channels[-1]
        for after in settings.set_channels:
            if self.pooling:
                layers += [nn.Linear(width, after), nn.ELU(), nn.Dropout(settings.set_dropout)]
            else:
                dropout = SetDropout(settings.set_dropout, simultaneous=settings.simultaneous_dropout)
                layers += [SetLayer(width, after, activation="elu"), dropout]
            width = after
        layers.append(nn.Linear(width, members) if self.pooling else SetLayer(width, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        batch, members = images.shape[:2]
        features = self.convolutions(images.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        features = features.unflatten(0, (batch, members))
        return self.layers(self.pool(features)) if self.pooling else self.layers(features).squeeze(2)
