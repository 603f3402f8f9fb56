"""A trained network of the MNIST sums, put together again from its files."""

from typing import Any

import torch
from torch import Tensor, nn

from equiset.experiments.mnist_sums.networks import SumNet
from equiset.experiments.mnist_sums.settings import MnistVariant


def input_shape(settings: MnistVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, sets["members"] if settings.model in ("I", "II") else -1, 28, 28)


def build(settings: MnistVariant, sets: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """Return the network that some weights belong to; `sets` is the content of its sets.json."""
    return SumNet(settings, sets["members"]).to(memory_format=torch.channels_last)
