"""Layers that draw random numbers, where several processes train one network.

Random numbers must not depend on the number of processes. So a layer draws them for all sets of the step, in every
process alike, and takes those of its own sets. With one process nothing is drawn in vain.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn


class Share(NamedTuple):
    """The sets from `first` on, `sets` of them, of the `total` of a step."""

    first: int
    sets: int
    total: int


class Draws(nn.Module):
    """A layer that draws random numbers. Set `share` where it sees only some of the sets of a step."""

    share: Callable[[], Share | None] | None = None
    """Says which sets the layer sees; None if it is all of them."""

    def draw(self, rows: int, make: Callable[[int], Tensor]) -> Tensor:
        """Return random values for the rows that the layer sees, cut out of those for all rows of the step.

        Args:
            rows: how many rows there are here: one for each set, or the same number for each.
            make: draws the values for any number of rows, (rows, ...).
        """
        share = self.share and self.share()
        if share is None:
            return make(rows)
        per_set, rest = divmod(rows, share.sets)
        if rest:
            raise ValueError(f"expected equally many rows for each of {share.sets} sets, got {rows}")
        return make(per_set * share.total)[per_set * share.first :][:rows]

    def dropout(self, x: Tensor, p: float) -> Tensor:
        """Do what `torch.nn.functional.dropout` does while training; dimension 0 of `x` counts the rows."""
        if self.share is None or self.share() is None:
            return F.dropout(x, p)
        return x * self.draw(len(x), lambda rows: F.dropout(x.new_ones(rows, *x.shape[1:]), p))
