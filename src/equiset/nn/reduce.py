"""Sum, mean and maximum over the members of each set, and back from sets to members.

Dense values are (batch, members, channels) with layout None, packed values (total, channels). The autograd functions
are our own because the built-in ones fall short:

- the gradient of `scatter_reduce` counts its initial value among tied maxima, while dense sets divide the gradient
  evenly among the members alone;
- sums of half precision are carried in float32, as dense sums are, also those in the backward of a spread;
- `index_add_` adds one row after the other, which costs a digit for every ten times more members. Dense sums add blocks
  of 16 and then their sums, and so on; so do these;
- the gradient of `amax` goes through booleans, which takes three times as long as the same in floats.

Each backward is made of differentiable operations, so that there are derivatives of any order.

The reductions of an empty set are 0 here. Only its own members, of which there are none, would see another value,
but the gradient of a weight would see it as well: infinity times a gradient of zero.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from equiset.sets import Layout


def at_least_float32(values: Tensor) -> Tensor:
    """Give `values` in a type that sums can be carried in."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def set_sum(values: Tensor, layout: Layout | None) -> Tensor:
    """Sum over the members of each set, (sets, channels)."""
    # On CUDA, autocast would make float32 of a sum whose type is not named.
    return values.sum(1, dtype=values.dtype) if layout is None else _PackedSum.apply(values, layout)


def set_mean(values: Tensor, layout: Layout | None) -> Tensor:
    """Mean over the members of each set, (sets, channels)."""
    if layout is None:
        return values.mean(1) if values.shape[1] else values.sum(1)
    sums = _PackedSum.apply(at_least_float32(values), layout)
    return (sums / layout.sizes.clamp(min=1).unsqueeze(1)).to(values.dtype)


def set_max(values: Tensor, layout: Layout | None) -> Tensor:
    """Maximum over the members of each set, (sets, channels); NaN if a member is NaN.

    Members that share the maximum share its gradient evenly.
    """
    if layout is None:
        return _DenseMax.apply(values) if values.shape[1] else values.sum(1)
    return _PackedMax.apply(values, layout)


def spread(per_set: Tensor, layout: Layout | None) -> Tensor:
    """Give every member the row of its set: (sets, channels) to a shape that goes with the members' values."""
    return per_set.unsqueeze(1) if layout is None else _Spread.apply(per_set, layout)


class _PackedSum(Function):
    @staticmethod
    def forward(rows: Tensor, layout: Layout) -> Tensor:
        sums = at_least_float32(rows)
        while layout.blocks is not None:
            index, layout = layout.blocks
            sums = sums.new_zeros(layout.n_rows, rows.shape[1]).index_add_(0, index, sums)
        return sums.new_zeros(layout.n_sets, rows.shape[1]).index_add_(0, layout.set_index, sums).to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Layout], output: Tensor) -> None:
        ctx.layout = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Spread.apply(grad, ctx.layout), None


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


class _PackedMax(Function):
    @staticmethod
    def forward(rows: Tensor, layout: Layout) -> Tensor:
        index = layout.set_index.unsqueeze(1).expand_as(rows)
        largest = rows.new_zeros(layout.n_sets, rows.shape[1])
        return largest.scatter_reduce_(0, index, rows, "amax", include_self=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Layout], output: Tensor) -> None:
        ctx.layout = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rows, largest = (saved.detach() for saved in ctx.saved_tensors)
        wins = largest.index_select(0, ctx.layout.set_index).eq_(rows)
        ties = _PackedSum.apply(at_least_float32(wins), ctx.layout)
        return _Spread.apply((grad / ties).to(grad.dtype), ctx.layout) * wins, None


class _DenseMax(Function):
    @staticmethod
    def forward(values: Tensor) -> Tensor:
        return values.amax(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        values, largest = (saved.detach() for saved in ctx.saved_tensors)
        wins = torch.eq(values, largest.unsqueeze(1), out=torch.empty_like(values))
        ties = wins.sum(1, dtype=torch.promote_types(wins.dtype, torch.float32))
        return wins * (grad / ties).to(grad.dtype).unsqueeze(1)
