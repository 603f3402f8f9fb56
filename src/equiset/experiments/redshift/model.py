"""A trained network of the redshifts, put together again from its files."""

from typing import Any

from torch import Tensor, nn

from equiset.experiments.redshift.networks import RedshiftNet
from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.nn.sets import PackedSets


class OneSet(RedshiftNet):
    """Takes the members of one cluster, (members, features), also as a plain tensor."""

    def forward(self, x: Tensor | PackedSets) -> Tensor:
        return super().forward(PackedSets.from_list([x]) if self.of_sets and isinstance(x, Tensor) else x)


def input_shape(settings: RedshiftVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, -1)


def build(settings: RedshiftVariant, sets: dict[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """Return the network that some weights belong to; `sets` is the content of its sets.json."""
    features = next(tensor.shape[1] for tensor in weights.values() if tensor.dim() == 2)
    network = OneSet(settings, features)
    network.of_sets = settings.model == "set"
    return network
