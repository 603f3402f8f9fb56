"""A stack of set layers and its pooling, with a backward pass over the winning members alone."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from equiset.nn.dropout import SetDropout
from equiset.nn.inputs import unpack
from equiset.nn.layer import Form, SetLayer
from equiset.nn.pool import Pooling, SetPool
from equiset.sets import Layout, PackedSets

# Bytes of one activation of the sets that go through the layers together: on a CPU what stays in its cache, on a GPU
# what keeps it busy. The number of sets is bounded because sums over sets are products with a (sets, rows) matrix.
_CHUNK_BYTES = {"cpu": 2**20}
_CHUNK_BYTES_ELSEWHERE = 2**28
_CHUNK_SETS = 64


class SetEncoder(nn.Module):
    r"""Set layers and a pooling over the members: the invariant part of the network for point clouds (sec. 3.2).

    f(x) = pool(h_k), h_l = s(b_l + (h_{l-1} - 1 max h_{l-1}) G_l) (eq. 5), h_0 = x; other forms as in `SetLayer`.
    `SetDropout` follows each layer if asked for.

    Where layers are max-normalised, the pooling is a maximum and no dropout acts, few members matter to the gradient.
    The pooled maximum passes it to the members that win a channel of h_k. The layer below passes it to the same
    members, and through -1 max h_{k-1} to those that win a channel of h_{k-1}; and so on down to the input. All other
    members have a gradient of exactly zero. So a few sets at a time go through all layers, only the rows of winners
    are kept, and the backward pass multiplies these rows alone. Nothing is approximated: values and gradients are
    those of `plain` up to rounding, and members that share a maximum share its gradient evenly. It takes a fraction of
    the memory, without gradient as well.

    `plain` runs instead, with the same parameters, wherever this does not hold: other forms, poolings or activations;
    dropout that acts; hooks on a layer; an empty batch; `torch.compile`; and half precision, be it of the values or
    by autocast, where so many members share a maximum that there is little to leave out.

    Args:
        widths: channels of the members and of each layer, [in, w_1, ..., w_k].
        form: of the layers, see `SetLayer`.
        activation: of the layers, see `SetLayer`; a module is shared by all layers.
        pool: ``"max"``, ``"mean"`` or ``"sum"``, see `SetPool`.
        dropout: the probability that a channel of a set is dropped after a layer while training.
        device: where the parameters are made.
        dtype: of the parameters.

    Shapes:
        (batch, members, in) or `PackedSets` to (batch, w_k). The maximum and mean of an empty set raise `ValueError`.

    Derivatives of the gradient (``create_graph=True``) are those of `plain`; the short way refuses them.

    >>> import torch
    >>> from equiset import PackedSets, SetEncoder
    >>> encoder = SetEncoder([3, 16, 8])
    >>> encoder(torch.randn(2, 5, 3)).shape
    torch.Size([2, 8])
    >>> encoder(PackedSets.from_list([torch.randn(5, 3), torch.randn(1, 3)])).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        widths: Sequence[int],
        form: Form = "max-norm",
        activation: str | nn.Module | None = "tanh",
        pool: Pooling = "max",
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(f"expected the channels of the input and of at least one layer, got {list(widths)}")
        place = {"device": device, "dtype": dtype}
        self.layers = nn.ModuleList(SetLayer(i, o, form, activation, **place) for i, o in pairwise(widths))
        self.dropout = SetDropout(dropout)
        self.pool = SetPool(pool)

    def forward(self, sets: Tensor | PackedSets) -> Tensor:
        values, layout = unpack(sets, self.layers[0].in_features)
        curve = self._curve(values, layout)
        if curve is None:
            return self.plain(sets)
        parameters = [parameter for layer in self.layers for parameter in (layer.weight, layer.bias)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (values, *parameters)):
            return _WinningRows.apply(values, layout, curve, *parameters)
        with torch.no_grad():
            folded = _fold(curve, parameters)
            return torch.cat([_climb(chunk, curve, folded, keep=False)[0] for chunk in _chunks(values, layout, folded)])

    def plain(self, sets: Tensor | PackedSets) -> Tensor:
        """Do the same layer by layer, over all members, with derivatives of any order."""
        for layer in self.layers:
            sets = self.dropout(layer(sets))
        return self.pool(sets)

    def _curve(self, values: Tensor, layout: Layout | None) -> "_Curve | None":
        """Give the activation if it is enough to follow the winners, else None."""
        curves = {_CURVES.get(type(layer.activation)) for layer in self.layers}
        forms = {layer.form for layer in self.layers}
        dropped = self.dropout.training and self.dropout.p > 0
        if len(curves) > 1 or forms != {"max-norm"} or dropped or self.pool.pooling != "max":
            return None
        # Sets without members, and types or devices that do not go together, are for `plain` to complain about.
        sizes = values.shape[:2] if layout is None else (layout.n_sets, *layout.host_sizes)
        kinds = {(tensor.dtype, tensor.device) for tensor in (values, *self.parameters())}
        if 0 in sizes or len(kinds) > 1 or values.dtype.itemsize < 4 or values.is_meta:
            return None
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        hooked = any(getattr(module, name) for module in self.modules() if module is not self for name in hooks)
        if hooked or torch.is_autocast_enabled(values.device.type) or torch.compiler.is_compiling():
            return None
        return curves.pop()


class _Curve(NamedTuple):
    """A monotone activation h = s(z), as h = 2 t - 1 from t = squash(-2 z) if it is `doubled`, else as squash(z)."""

    doubled: bool
    squash: Callable[[Tensor], Tensor]  # in place
    whole: Callable[[Tensor], Tensor]  # s itself
    slope: Callable[[Tensor], Tensor]  # s'(z) as a function of h


# tanh(z) = 2 / (1 + exp(-2 z)) - 1 takes half the time of tanh, and -2 goes into the weights without loss of a digit.
# torch.sigmoid would be faster still, but may round the last elements of a tensor in another way than the others:
# identical members would no longer tie. So does ELU, which is not here.
_CURVES = {
    nn.Tanh: _Curve(True, lambda z: z.exp_().add_(1).reciprocal_(), torch.tanh, lambda h: 1 - h * h),
    nn.ReLU: _Curve(False, torch.relu_, torch.relu, lambda h: h.gt(0).to(h.dtype)),
    type(None): _Curve(False, lambda z: z, lambda z: z, torch.ones_like),
}


class _Chunk(NamedTuple):
    """Some sets: rows (total, channels), and the number of members of each set."""

    rows: Tensor
    start: int
    sizes: list[int]

    @property
    def equal(self) -> bool:
        return min(self.sizes) == max(self.sizes)

    def subtract_max(self, rows: Tensor) -> Tensor:
        """Subtract from each member the maxima of its set, in place, and give them: (sets, channels)."""
        if self.equal:
            sets = rows.view(len(self.sizes), -1, rows.shape[1])
            largest = sets.amax(1)
            sets.sub_(largest.unsqueeze(1))
            return largest
        parts = rows.split(self.sizes)
        largest = torch.stack([part.amax(0) for part in parts])
        for part, maxima in zip(parts, largest, strict=True):
            part.sub_(maxima)
        return largest

    def set_of(self, places: Tensor) -> Tensor:
        """Number of the set that each row belongs to."""
        if self.equal:
            return places // self.sizes[0]
        ends = torch.tensor(self.sizes, device=places.device).cumsum(0)
        return torch.searchsorted(ends, places, right=True)


def _chunks(values: Tensor, layout: Layout | None, folded: list[tuple[Tensor, Tensor]]) -> Iterator[_Chunk]:
    """Cut the sets into chunks that are worked on together."""
    rows = values.detach().reshape(-1, values.shape[-1])
    sizes = [values.shape[1]] * values.shape[0] if layout is None else layout.host_sizes
    width = max(max(weight.shape) for weight, _ in folded)
    limit = _CHUNK_BYTES.get(rows.device.type, _CHUNK_BYTES_ELSEWHERE) // (width * rows.element_size())
    first = start = 0
    while first < len(sizes):
        last, stop = first + 1, start + sizes[first]
        while last < len(sizes) and last - first < _CHUNK_SETS and stop + sizes[last] - start <= limit:
            last, stop = last + 1, stop + sizes[last]
        yield _Chunk(rows[start:stop], start, sizes[first:last])
        first, start = last, stop


def _fold(curve: _Curve, parameters: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Give weight and bias of each layer such that they lead from t - max t of one level to the input of `squash`."""
    pairs = [*zip(parameters[::2], parameters[1::2], strict=True)]
    if not curve.doubled:
        return pairs
    into = [1] + [2] * (len(pairs) - 1)
    out = [-2] * (len(pairs) - 1) + [1]
    return [(i * o * weight, o * bias) for i, o, (weight, bias) in zip(into, out, pairs, strict=True)]


def _climb(
    chunk: _Chunk, curve: _Curve, folded: list[tuple[Tensor, Tensor]], keep: bool
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Take some sets through all layers: the output, and if they are kept t - max t and max t of each level.

    The last level is z itself, since the maximum of an activation is the activation of the maximum.
    """
    below = chunk.rows.clone()
    belows, tops = [below], [chunk.subtract_max(below)]
    for number, (weight, bias) in enumerate(folded):
        below = torch.addmm(bias, below, weight.t())
        if number + 1 < len(folded):
            curve.squash(below)
        top = chunk.subtract_max(below)
        if keep:
            belows.append(below)
            tops.append(top)
    return curve.whole(top), belows, tops


def _wins(below: Tensor) -> Tensor:
    # Written so that NaN wins too: it is then in the gradients, as it is with all members.
    return below.lt(0).logical_not_()


class _WinningRows(Function):
    """The max-normalised layers and the maximum over the members, (sets, w_k), for first derivatives."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, layout: Layout | None, curve: _Curve, *parameters: Tensor) -> Tensor:
        folded = _fold(curve, parameters)
        # Nothing below the first level that leads to a wanted gradient has to be kept.
        wanted = [ctx.needs_input_grad[0], *(any(pair) for pair in zip(*[iter(ctx.needs_input_grad[3:])] * 2))]
        ctx.bottom = max(0, wanted.index(True) - 1)
        ctx.curve, ctx.shape, ctx.chunks, outputs, kept = curve, values.shape, [], [], []
        for chunk in _chunks(values, layout, folded):
            output, belows, tops = _climb(chunk, curve, folded, keep=True)
            outputs.append(output)
            winner = False
            for level in range(len(folded), ctx.bottom - 1, -1):
                winner = _wins(belows[level].amax(1)) | winner
                places = winner.nonzero().squeeze(1)
                rows = belows[level].index_select(0, places)
                kept += [places, _wins(rows) if level == len(folded) else rows, tops[level]]
            ctx.chunks.append(chunk._replace(rows=None))
        output = torch.cat(outputs)
        ctx.save_for_backward(output, *parameters, *kept)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            # Not left to once_differentiable, which gives a gradient without its own derivative if `grad` is constant.
            raise RuntimeError("SetEncoder has first derivatives only; with create_graph=True use encoder.plain(sets)")
        wants_values, _, _, *wanted = ctx.needs_input_grad
        output, *saved = ctx.saved_tensors
        parameters, kept = saved[: len(wanted)], iter(saved[len(wanted) :])
        weights = parameters[::2]
        grads = [torch.zeros_like(each) if want else None for each, want in zip(parameters, wanted, strict=True)]
        grad_values = grad.new_zeros(ctx.shape) if wants_values else None
        grad_top = grad * ctx.curve.slope(output)
        for chunk, per_set in zip(ctx.chunks, grad_top.split([len(each.sizes) for each in ctx.chunks]), strict=True):
            places, wins, _ = next(kept), next(kept), next(kept)
            members = _Members(chunk, places)
            # The gradient of z, for each winner, and summed over each set.
            rows, sums = wins * members.spread(per_set / members.sum(wins.to(grad.dtype))), per_set
            for level in range(len(weights) - 1, ctx.bottom - 1, -1):
                above, places, below, top = places, next(kept), next(kept), next(kept)
                among = torch.searchsorted(places, above)
                scale = 2 if ctx.curve.doubled and level else 1
                if wanted[2 * level]:
                    grads[2 * level].addmm_(rows.t(), below.index_select(0, among), alpha=scale)
                if wanted[2 * level + 1]:
                    grads[2 * level + 1] += sums.sum(0)
                if level == ctx.bottom and not wants_values:
                    break
                # Of h - max h the first part goes to the same members, the second to those with the maximum.
                members = _Members(chunk, places)
                wins = _wins(below).to(grad.dtype)
                share = members.spread(sums @ weights[level] / members.sum(wins))
                rows = (wins.mul_(share).neg_()).index_add_(0, among, rows @ weights[level])
                if level:
                    h = scale * (below + members.spread(top)) + (1 - scale)
                    rows *= ctx.curve.slope(h)
                    sums = members.sum(rows)
                else:
                    grad_values.view(-1, ctx.shape[-1])[chunk.start :][: sum(chunk.sizes)].index_copy_(0, places, rows)
        return grad_values, None, None, *grads


class _Members:
    """Some members of the sets of a chunk, by their places among its rows."""

    def __init__(self, chunk: _Chunk, places: Tensor) -> None:
        self.sets = chunk.set_of(places) if len(chunk.sizes) > 1 else None
        self.count = len(chunk.sizes)

    def spread(self, per_set: Tensor) -> Tensor:
        return per_set if self.sets is None else per_set.index_select(0, self.sets)

    def sum(self, rows: Tensor) -> Tensor:
        """Sum over each set as a matrix product: in the same order in every run, on a GPU as well."""
        if self.sets is None:
            return rows.sum(0, keepdim=True)
        return (torch.arange(self.count, device=rows.device).unsqueeze(1) == self.sets).to(rows.dtype) @ rows
