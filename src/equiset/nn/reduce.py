"""Sum, mean and maximum over the members of each set, and back from sets to members.

Dense values are (batch, members, channels) with layout None, packed values (total, channels). The autograd functions
are our own because the built-in ones fall short:

- the gradient of `scatter_reduce` counts its initial value among tied maxima, while dense sets divide the gradient
  evenly among the members alone;
- sums of half precision are carried in float32, as dense sums are, also those in the backward of a spread;
- `index_add` adds one row after the other, which costs a digit for every ten times more members. Dense sums add blocks
  of 16 and then their sums, and so on; so do these. `embedding_bag` adds contiguous rows without sorting an index;
- the gradient of `amax` goes through booleans, which takes three times as long as the same in floats.

Each backward is made of differentiable operations, so that there are derivatives of any order, in either mode.

Where torch.compile or torch.export traces, the built-in functions are used after all, and in such a way that the same
comes out: compilers fuse them, and cannot see through functions of our own. Sizes of sets are not known then, and sums
are carried in float64.

The reductions of an empty set are 0 here. Only its own members, of which there are none, would see another value,
but the gradient of a weight would see it as well: infinity times a gradient of zero.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from equiset.nn.inputs import inside_torch_func
from equiset.nn.layout import Layout


def at_least_float32(values: Tensor) -> Tensor:
    """Give `values` in a type that sums can be carried in."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def set_sum(values: Tensor, layout: Layout | None) -> Tensor:
    """Sum over the members of each set, (sets, channels)."""
    if layout is None:
        # On CUDA, autocast would make float32 of a sum whose type is not named.
        return values.sum(1, dtype=values.dtype)
    if torch.compiler.is_compiling():
        start = values.new_zeros(layout.n_sets, values.shape[1], dtype=torch.float64)
        return start.index_add(0, layout.set_index, values.double()).to(values.dtype)
    return _PackedSum.apply(values, layout)


def set_mean(values: Tensor, layout: Layout | None) -> Tensor:
    """Mean over the members of each set, (sets, channels)."""
    if layout is None:
        return values.mean(1) if values.shape[1] else values.sum(1)
    sums = set_sum(at_least_float32(values), layout)
    return (sums / layout.sizes.clamp(min=1).unsqueeze(1)).to(values.dtype)


def set_max(values: Tensor, layout: Layout | None) -> Tensor:
    """Maximum over the members of each set, (sets, channels); NaN if a member is NaN.

    Members that share the maximum share its gradient evenly.
    """
    if layout is None and not values.shape[1]:
        return values.sum(1)
    if not torch.compiler.is_compiling():
        return _Max.apply(values, layout)
    if layout is None:
        return values.amax(1)
    wide = at_least_float32(values)
    # NaN equals no member, so that the gradient does not count it among tied maxima.
    start = wide.new_full((layout.n_sets, values.shape[1]), torch.nan)
    index = layout.set_index.unsqueeze(1).expand_as(wide)
    largest = start.scatter_reduce(0, index, wide, "amax", include_self=False)
    return largest.masked_fill((layout.sizes == 0).unsqueeze(1), 0).to(values.dtype)


def spread(per_set: Tensor, layout: Layout | None) -> Tensor:
    """Give every member the row of its set: (sets, channels) to a shape that goes with the members' values."""
    if layout is None:
        return per_set.unsqueeze(1)
    if torch.compiler.is_compiling():
        return per_set.double().index_select(0, layout.set_index).to(per_set.dtype)
    return _Spread.apply(per_set, layout)


def _as_channels(function: type[Function], values: Tensor, dim: int, layout: Layout | None) -> tuple[Tensor, int]:
    """Apply `function` to what `vmap` maps over as if it were more channels."""
    moved = values.movedim(dim, -2)
    output = function.apply(moved.flatten(-2), layout)
    return output.unflatten(-1, moved.shape[-2:]), output.ndim - 1


class _PackedSum(Function):
    @staticmethod
    def forward(rows: Tensor, layout: Layout) -> Tensor:
        sums = at_least_float32(rows)
        for offsets in layout.levels:
            numbers = layout.row_index[: len(sums)]
            sums = F.embedding_bag(numbers, sums, offsets, mode="sum", include_last_offset=True)
        return sums.to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Layout], output: Tensor) -> None:
        ctx.layout = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Spread.apply(grad, ctx.layout), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _PackedSum.apply(tangent, ctx.layout)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], rows: Tensor, layout: Layout) -> tuple[Tensor, int]:
        return _as_channels(_PackedSum, rows, in_dims[0], layout)


class _Spread(Function):
    @staticmethod
    def forward(per_set: Tensor, layout: Layout) -> Tensor:
        return per_set.index_select(0, layout.set_index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Layout], output: Tensor) -> None:
        ctx.layout = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _PackedSum.apply(grad, ctx.layout), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _Spread.apply(tangent, ctx.layout)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], per_set: Tensor, layout: Layout) -> tuple[Tensor, int]:
        return _as_channels(_Spread, per_set, in_dims[0], layout)


class _Max(Function):
    @staticmethod
    def forward(values: Tensor, layout: Layout | None) -> Tensor:
        if layout is None:
            return values.amax(1)
        index = layout.set_index.unsqueeze(1).expand_as(values)
        largest = values.new_zeros(layout.n_sets, values.shape[1])
        return largest.scatter_reduce_(0, index, values, "amax", include_self=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Layout | None], output: Tensor) -> None:
        ctx.layout = inputs[1]
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        wins, ties = _winners(*ctx.saved_tensors, ctx.layout)  # type: ignore[call-arg]
        return spread((grad / ties).to(grad.dtype), ctx.layout) * wins, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        wins, ties = _winners(*ctx.saved_tensors, ctx.layout)  # type: ignore[call-arg]
        return (set_sum(at_least_float32(tangent * wins), ctx.layout) / ties).to(tangent.dtype)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], values: Tensor, layout: Layout | None) -> tuple[Tensor, int]:
        return _as_channels(_Max, values, in_dims[0], layout)


def _winners(values: Tensor, largest: Tensor, layout: Layout | None) -> tuple[Tensor, Tensor]:
    """Give 1 for each value that is the maximum of its set, else 0, and how many there are for each set and channel."""
    values, largest = values.detach(), largest.detach()
    largest = largest.unsqueeze(1) if layout is None else largest.index_select(0, layout.set_index)
    if inside_torch_func():  # vmap knows no eq_, which is quick because it goes round booleans
        wins = values.eq(largest).to(values.dtype)
    else:
        wins = values.clone().eq_(largest) if layout is None else largest.eq_(values)
    return wins, set_sum(at_least_float32(wins), layout)
