"""The network of set layers and the multi-layer perceptron."""

from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from equiset.experiments.redshift.settings import RedshiftVariant
from equiset.nn import SetDropout, SetLayer
from equiset.nn.sets import PackedSets

FOOTNOTE = ("RA", "DEC", *(f"MODEL_{kind}_{band}" for kind in ("MAG", "MAGERR") for band in "UGRIZ"))
"""The columns of members that the paper's footnote lists, to which the likelihoods of the centres are added."""


def build_network(settings: RedshiftVariant, sets: dict[str, Any]) -> nn.Module:
    """Return the network of a variant with its first weights; `sets` is the content of `sets.json`."""
    centres = sum(name.startswith("P_CEN_") for name in sets["scales"])
    columns = len(sets["scales"]) - centres - 1  # and Z_SPEC
    return RedshiftNet(settings, columns if settings.features == "columns" else len(FOOTNOTE) + centres)


def input_shape(settings: RedshiftVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, -1)


class RedshiftNet(nn.Module):
    """Four layers, 17-128-128-128-1: a number for each member.

    Shapes: `PackedSets` of (total, features) -> (total,). A tensor (members, features) is one set; to the perceptron
    all members are alike.
    """

    def __init__(self, settings: RedshiftVariant, features: int):
        super().__init__()
        self.of_sets = settings.model == "set"
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
        y = self.layers(PackedSets.from_list([x]) if self.of_sets and isinstance(x, Tensor) else x)
        return (y.rows if isinstance(y, PackedSets) else y).squeeze(1)
