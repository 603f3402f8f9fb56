"""The network of set layers and the multi-layer perceptron."""

from itertools import pairwise

from torch import Tensor, nn

from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.nn import SetDropout, SetLayer
from equiset.nn.sets import PackedSets


class RedshiftNet(nn.Module):
    """Four layers, 17-128-128-128-1: a number for each member.

    Shapes: `PackedSets` of (total, features), for the perceptron a tensor of that shape -> (total,).
    """

    def __init__(self, settings: RedshiftVariant, features: int):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise([features, *settings.channels]):
            if settings.model == "set":
                layers += [SetLayer(before, after, settings.form, "tanh"), SetDropout(settings.dropout)]
            else:
                layers += [nn.Linear(before, after), nn.Tanh(), nn.Dropout(settings.dropout)]
        width = settings.channels[-1]
        layers.append(SetLayer(width, 1, settings.form) if settings.model == "set" else nn.Linear(width, 1))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor | PackedSets) -> Tensor:
        y = self.layers(x)
        return (y.rows if isinstance(y, PackedSets) else y).squeeze(1)
