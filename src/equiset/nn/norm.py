"""Normalisation of point clouds."""

import torch
from torch import nn

from equiset.nn.inputs import Sets, TakesSets, pack, unpack
from equiset.nn.reduce import at_least_float32, set_max, set_mean, spread


class SetNorm(nn.Module, TakesSets):
    """Each set with zero mean per channel and unit standard deviation over all its values (sec. 3.2).

    y = (x − 1 mean x) / max(d, eps), where d² is the mean of (x − 1 mean x)² over members and channels: one number
    for each set, so that a cloud keeps its proportions. A set of one member or of identical members has d = 0 and
    becomes exactly zero; its gradient is finite, though as large as 1 / eps. Half precision is normalised in float32;
    every finite value can be normalised.

    Args:
        eps: the smallest standard deviation that is divided by; sets that spread less come out with less than one.

    Shapes:
        (batch, members, channels) to the same, or `PackedSets` to `PackedSets`. An empty set gives an empty set.
    """

    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        if not eps > 0:
            raise ValueError(f"expected eps above 0, got {eps}")
        self.eps = eps

    def forward(self, sets: Sets) -> Sets:
        given, layout = unpack(sets)
        if given.numel() == 0:
            return sets
        values = at_least_float32(given)
        # A set whose squares would overflow is made smaller first; y does not change. All others are multiplied by 1.
        limits = torch.finfo(values.dtype)
        limit = limits.max ** (1 / 3)
        largest = values.detach().abs().flatten(1).amax(1, keepdim=True)
        largest = largest if layout is None else set_max(largest, layout)
        factor = limit / largest.clamp(min=limit)
        values = values * spread(factor, layout)
        # Moving a set by its maxima first changes neither the result nor its gradient, and rounds better: identical
        # members become exact zeros, however far from the origin, where x - mean(x) alone would leave rounding noise.
        values = values - spread(set_max(values.detach(), layout), layout)
        centred = values - spread(set_mean(values, layout), layout)
        variance = set_mean(centred.square(), layout).mean(1, keepdim=True)
        # Clamping the variance, not its root, keeps the infinite slope of the root at zero out of the gradient.
        scale = torch.maximum(variance, (self.eps**2 * factor.square()).clamp(min=limits.tiny)).rsqrt()
        return pack((centred * spread(scale, layout)).to(given.dtype), sets)

    def extra_repr(self) -> str:
        return f"eps={self.eps}"
