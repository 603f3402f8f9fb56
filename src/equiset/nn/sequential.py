"""Layers one after the other, those for sets and those for single members."""

from torch import Tensor, nn

from equiset.nn.inputs import TakesSets
from equiset.nn.sets import PackedSets


class SetSequential(nn.Sequential, TakesSets):
    """`torch.nn.Sequential` for sets: modules that know nothing of sets act on each member alone.

    A module that is or contains one of this package's gets the sets. Any other, such as `torch.nn.Linear`, `LayerNorm`,
    `BatchNorm1d`, `ELU` or `Dropout`, gets the members of all sets as rows, (total, channels), whichever form the sets
    have, so that both forms give the same. After a pooling it gets the rows of all sets.

    Shapes:
        (batch, members, channels) or `PackedSets`, to what the last module gives.

    >>> import torch
    >>> from torch import nn
    >>> from equiset import PackedSets, SetLayer, SetPool, SetSequential
    >>> network = SetSequential(SetLayer(3, 8), nn.ELU(), nn.LayerNorm(8), SetPool("mean"), nn.Linear(8, 2))
    >>> network(torch.randn(4, 5, 3)).shape
    torch.Size([4, 2])
    >>> network(PackedSets.from_list([torch.randn(5, 3), torch.randn(1, 3)])).shape
    torch.Size([2, 2])
    """

    def forward(self, sets: Tensor | PackedSets) -> Tensor | PackedSets:
        for module in self:
            if any(isinstance(part, TakesSets) for part in module.modules()):
                sets = module(sets)
            elif isinstance(sets, PackedSets):
                sets = sets.map(module)
            elif sets.ndim > 2:
                sets = module(sets.flatten(0, 1)).unflatten(0, sets.shape[:2])
            else:
                sets = module(sets)
        return sets
