"""Dropout of whole channels of a set."""

import torch.nn.functional as F
from torch import Tensor, nn

from equiset.nn.inputs import Sets, TakesSets, pack, unpack


class SetDropout(nn.Module, TakesSets):
    """Dropout that drops a channel for all members of a set at once (sec. 2).

    While training, y = x m / (1 − p), where m holds one draw for each set and channel, 0 with probability p and else
    1, and is shared by all members. Dropped independently, a channel could be read off the other members. In
    evaluation mode the input is passed through. The same state of the random generator drops the same channels of
    dense and of packed sets.

    Args:
        p: the probability that a channel is dropped.
        simultaneous: False for ordinary dropout, one draw for every single value.

    Shapes:
        (batch, members, channels) to the same, or `PackedSets` to `PackedSets`. Dense sets may have more dimensions
        after the channels, as the features of images have; they share the draw of their channel.
    """

    def __init__(self, p: float = 0.5, simultaneous: bool = True) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"expected a probability from 0 to 1, got {p}")
        self.p = p
        self.simultaneous = simultaneous

    def forward(self, sets: Sets) -> Sets:
        values, layout = unpack(sets, trailing=True)
        if not self.training or self.p == 0:
            return sets
        if not self.simultaneous:
            return pack(F.dropout(values, self.p), sets)
        if layout is not None:
            kept = self.factors(values, layout.n_sets, values.shape[1])
            return pack(values * kept.index_select(0, layout.set_index), sets)
        batch, _, channels, *trailing = values.shape
        kept = self.factors(values, batch, channels)
        return pack(values * kept.view(batch, 1, channels, *(1 for _ in trailing)), sets)

    def factors(self, like: Tensor, sets: int, channels: int) -> Tensor:
        """Draw what each channel of each set is multiplied by, 0 or 1 / (1 - p): (sets, channels)."""
        return F.dropout(like.new_ones(sets, channels), self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}, simultaneous={self.simultaneous}"
