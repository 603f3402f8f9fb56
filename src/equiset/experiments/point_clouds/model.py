"""A trained network of the point clouds, put together again from its files."""

from typing import Any

from torch import Tensor, nn

from equiset.experiments.point_clouds.networks import CloudNet
from equiset.experiments.point_clouds.settings import CloudVariant


def input_shape(settings: CloudVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, -1, 3)


def build(settings: CloudVariant, sets: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """Return the network that some weights belong to; `sets` is the content of its sets.json."""
    return CloudNet(settings, sets["classes"], sets["particles"])
