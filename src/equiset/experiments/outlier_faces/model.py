"""A trained network of the outlier faces, put together again from its files."""

from typing import Any

import torch
from torch import Tensor, nn

from equiset.experiments.outlier_faces.networks import OutlierNet
from equiset.experiments.outlier_faces.settings import FaceVariant


def input_shape(settings: FaceVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, sets["members"] if settings.model == "set-pooling" else -1, 3, 64, 64)


def build(settings: FaceVariant, sets: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """Return the network that some weights belong to; `sets` is the content of its sets.json."""
    return OutlierNet(settings, sets["members"]).to(memory_format=torch.channels_last)
