"""From members to one row for each set."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from equiset.nn.inputs import TakesSets, unpack
from equiset.nn.layout import Layout
from equiset.nn.reduce import set_max, set_mean, set_sum
from equiset.nn.sets import PackedSets

Pooling = Literal["sum", "mean", "max"]


class SetPool(nn.Module, TakesSets):
    """The sum, mean or maximum over the members of each set, f(x) = poolₙ xₙ (sec. 3): invariant to their order.

    The sum over an empty set is 0; its mean and its maximum do not exist and raise `ValueError`. A program made by
    torch.compile or torch.export gives NaN for them, since it cannot look at the sizes of packed sets. Members that
    share a maximum share its gradient evenly. NaN in a set gives NaN for that set and channel.

    Args:
        pooling: ``"sum"``, ``"mean"`` or ``"max"``.

    Shapes:
        (batch, members, channels) or `PackedSets` to (batch, channels).
    """

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        if pooling not in get_args(Pooling):
            raise ValueError(f"expected a pooling among {', '.join(get_args(Pooling))}, got {pooling!r}")
        self.pooling = pooling

    def forward(self, sets: Tensor | PackedSets) -> Tensor:
        values, layout = unpack(sets)
        if self.pooling == "sum":
            return set_sum(values, layout)
        empty = _first_empty(values, layout)
        if empty is not None:
            raise ValueError(f"the {self.pooling} of an empty set is undefined, and set {empty} is empty")
        pooled = set_mean(values, layout) if self.pooling == "mean" else set_max(values, layout)
        if layout is not None and torch.compiler.is_compiling():
            return pooled.masked_fill((layout.sizes == 0).unsqueeze(1), torch.nan)
        return pooled

    def extra_repr(self) -> str:
        return repr(self.pooling)


def _first_empty(values: Tensor, layout: Layout | None) -> int | None:
    if layout is not None:
        return None if torch.compiler.is_compiling() else layout.first_empty
    return 0 if values.shape[1] == 0 and values.shape[0] > 0 else None
