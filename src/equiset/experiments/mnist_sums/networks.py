"""The four models of figure 1."""

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.experiments.mnist_sums.settings import MnistVariant
from equiset.nn import SetDropout, SetLayer, SetPool

SIDE = 28


def build_network(settings: MnistVariant, sets: dict[str, Any]) -> nn.Module:
    """Return the network of a variant with its first weights; `sets` is the content of `sets.json`."""
    return SumNet(settings, sets["members"]).to(memory_format=torch.channels_last)


def input_shape(settings: MnistVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, sets["members"] if settings.model in ("I", "II") else -1, SIDE, SIDE)


class Convolutions(nn.Module):
    """5x5 convolutions, each with 2x2 max pooling, ELU and dropout.

    ELU is monotone, so it commutes with the maximum: pooling first gives the same values from a quarter of the
    activations.

    Shapes: (batch, members, channels, height, width) -> (batch, members, features). Models I and II see one
    member.
    """

    def __init__(self, settings: MnistVariant, in_channels: int, dropout: nn.Module):
        super().__init__()
        widths = [in_channels, *settings.channels]
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, kernel_size=5, padding=2) for before, after in pairwise(widths)
        )
        self.round_up = settings.pool_rounding == "up"
        self.dropout = dropout

    def features(self, height: int, width: int) -> int:
        """Return the number of features of one image."""
        for _ in self.layers:
            height, width = ((size + self.round_up) // 2 for size in (height, width))
        return self.layers[-1].out_channels * height * width

    def forward(self, x: Tensor) -> Tensor:
        batch, members = x.shape[:2]
        h = x.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        for layer in self.layers:
            h = F.elu(F.max_pool2d(layer(h), 2, ceil_mode=self.round_up))
            h = self.dropout(h.unflatten(0, (batch, members))).flatten(0, 1)
        return h.flatten(1).unflatten(0, (batch, members))


class SumNet(nn.Module):
    """Models I to IV: (batch, members, 28, 28) images -> (batch, 9 * members + 1) logits of the sum."""

    def __init__(self, settings: MnistVariant, members: int):
        super().__init__()
        self.model = settings.model
        in_channels = members if self.model == "II" else 1
        width = SIDE * members if self.model == "I" else SIDE
        self.convolutions = Convolutions(settings, in_channels, ConvDropout(settings))
        features, hidden = self.convolutions.features(SIDE, width), settings.hidden
        set_layer = self.model == "IV"
        first = SetLayer(features, hidden) if set_layer else nn.Linear(features, hidden)
        self.member_layers = nn.Sequential(first, nn.ELU(), SetDropout(settings.dropout))
        # Models I and II have one member by now, which every pooling leaves as it is.
        self.pool = SetPool(settings.set_pool)
        self.set_layers = nn.Sequential(
            nn.Linear(hidden, hidden), nn.ELU(), nn.Dropout(settings.dropout), nn.Linear(hidden, 9 * members + 1)
        )
        if settings.initialisation == "glorot":
            self.apply(_glorot)

    def forward(self, images: Tensor) -> Tensor:
        match self.model:
            case "I":  # side by side: (batch, 1, 1, 28, 28 * members)
                x = images.transpose(1, 2).flatten(2)[:, None, None]
            case "II":  # as channels: (batch, 1, members, 28, 28)
                x = images[:, None]
            case _:  # one by one: (batch, members, 1, 28, 28)
                x = images[:, :, None]
        return self.set_layers(self.pool(self.member_layers(self.convolutions(x))))


class ConvDropout(nn.Module):
    """Dropout of feature maps, the same for all members of a set or each its own (models I and II have one member)."""

    def __init__(self, settings: MnistVariant):
        super().__init__()
        self.p = settings.dropout if settings.conv_dropout is None else settings.conv_dropout
        self.whole_maps = settings.conv_dropout_shape == "channel"
        self.shared = settings.conv_dropout_members == "shared"

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        batch, members, *rest = x.shape
        if self.whole_maps:
            rest = [rest[0], 1, 1]
        masks = 1 if self.shared else members
        keep = x.new_empty(batch, masks, *rest).bernoulli_(1 - self.p)
        return x * keep.div_(1 - self.p)


def _glorot(module: nn.Module) -> None:
    if isinstance(module, (nn.Conv2d, nn.Linear, SetLayer)):
        for parameter in module.parameters(recurse=False):
            nn.init.xavier_uniform_(parameter) if parameter.ndim > 1 else nn.init.zeros_(parameter)
