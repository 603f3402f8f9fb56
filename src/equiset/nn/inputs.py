"""What every layer does with its input: check it, and take it apart into values and layout."""

from typing import TypeVar

import torch
from torch import Tensor

from equiset.nn.layout import Layout
from equiset.nn.sets import PackedSets

# A layer gives back the representation that it was given.
Sets = TypeVar("Sets", Tensor, PackedSets)


class TakesSets:
    """Marks modules that take whole sets, for `SetSequential`."""


def inside_torch_func() -> bool:
    """Whether vmap or a derivative of `torch.func` is at work; torch has no public name for it."""
    return torch._C._are_functorch_transforms_active()


def unpack(
    sets: Tensor | PackedSets, channels: int | None = None, trailing: bool = False
) -> tuple[Tensor, Layout | None]:
    """Give the values of the sets, and the layout of packed sets or None for dense ones.

    Args:
        sets: the input of a layer.
        channels: how many channels the layer takes; None for any number.
        trailing: whether dense values may have dimensions after the channels.
    """
    if torch.jit.is_tracing():
        raise RuntimeError("torch.jit.trace would keep the sizes of its example for all sets; use torch.export")
    if isinstance(sets, PackedSets):
        values, layout, width = sets.rows, sets.layout, sets.channels
    elif isinstance(sets, Tensor):
        if sets.is_nested:
            raise TypeError("expected a dense tensor or PackedSets, got a nested tensor; use PackedSets.from_nested")
        if sets.ndim < 3 or (sets.ndim > 3 and not trailing):
            wanted = "(batch, members, channels, ...)" if trailing else "(batch, members, channels)"
            raise ValueError(f"expected dense sets {wanted}, got a tensor of shape {tuple(sets.shape)}")
        values, layout, width = sets, None, sets.shape[2]
    else:
        raise TypeError(f"expected a tensor (batch, members, channels) or PackedSets, got {type(sets).__name__}")
    if not values.is_floating_point():
        raise TypeError(f"expected floating-point values, got {values.dtype}")
    if channels is not None and width != channels:
        raise ValueError(f"expected {channels} channels, got {width} (values of shape {tuple(values.shape)})")
    return values, layout


def pack(values: Tensor, like: Sets) -> Sets:
    """Give `values` in the representation of the sets that they were made from."""
    return like.with_rows(values) if isinstance(like, PackedSets) else values
