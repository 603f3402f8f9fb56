"""Which sets of a step are this process's, where several processes train one network.

Random numbers must not depend on the number of processes. So a layer draws them for all sets of the step, in every
process alike, and takes those of its own sets. With one process nothing is drawn in vain.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Share(NamedTuple):
    """The sets from `first` on, `sets` of them, of the `total` of a step."""

    first: int
    sets: int
    total: int


_share: Share | None = None


def current_share() -> Share | None:
    """Return what this process works on; None if it is all sets."""
    return _share


def set_share(share: Share | None) -> None:
    global _share
    _share = share


def draw(rows: int, make: Callable[[int], Tensor]) -> Tensor:
    """Return random values for this process's rows, cut out of those for all rows of the step.

    Args:
        rows: how many rows there are here: one for each set, or the same number for each.
        make: draws the values for any number of rows, (rows, ...).
    """
    if _share is None:
        return make(rows)
    per_set, rest = divmod(rows, _share.sets)
    if rest:
        raise ValueError(f"expected equally many rows for each of {_share.sets} sets, got {rows}")
    return make(per_set * _share.total)[per_set * _share.first :][:rows]


def dropout(x: Tensor, p: float) -> Tensor:
    """Do what `torch.nn.functional.dropout` does while training; dimension 0 of `x` counts the rows."""
    if _share is None:
        return F.dropout(x, p)
    return x * draw(len(x), lambda rows: F.dropout(x.new_ones(rows, *x.shape[1:]), p))
