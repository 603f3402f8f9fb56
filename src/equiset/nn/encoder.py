"""A stack of set layers and its pooling, with a backward pass over the winning members alone."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.forward_ad import unpack_dual

from equiset.nn.dropout import SetDropout
from equiset.nn.inputs import Sets, TakesSets, inside_torch_func, pack, unpack
from equiset.nn.layer import Form, SetLayer
from equiset.nn.layout import Layout
from equiset.nn.pool import Pooling, SetPool
from equiset.nn.reduce import set_max, spread
from equiset.nn.sets import PackedSets
from equiset.nn.ways import may_look

# Bytes of one activation of the sets that go through the layers together: on a CPU what stays in its cache, on a GPU
# what keeps it busy.
CHUNK_BYTES = {"cpu": 2**21, "cuda": 2**28}
# Bytes of activations that `plain` may keep on a GPU for its backward pass. See `SetEncoder._fits`.
KEPT_BYTES = 2**32


class SetEncoder(nn.Module, TakesSets):
    r"""Set layers and a pooling over the members: the invariant part of the network for point clouds (sec. 3.2).

    f(x) = pool(hₖ), hₗ = σ((hₗ₋₁ − 1 max hₗ₋₁) Γₗ + βₗ) (eq. 5), h₀ = x; other forms as in `SetLayer`.
    `SetDropout` follows each layer if asked for.

    Where a layer sees the other members by their maximum (eq. 4, eq. 5) and the pooling is one, few members matter to
    the gradient. The pooled maximum passes it to the members that win a channel of hₖ. The layer below passes it to the
    same members, and through max hₖ₋₁ to those that win a channel of hₖ₋₁; and so on down to the input. Dropout changes
    no winner, since all members share it. A channel that is dropped, or whose maximum is so large that σ is flat there,
    passes nothing, however many members share it. All other members have a gradient of exactly zero. So a few sets at a
    time go through all layers, only the rows of winners are kept, and the backward pass multiplies these rows alone.
    Nothing is approximated: values and gradients are those of `plain` up to rounding, and members that share a maximum
    share its gradient evenly. It takes a fraction of the memory, without gradient as well.

    `plain` runs instead, with the same parameters, on a GPU that has room for it (`_fits`), where a CUDA graph is
    captured, and wherever this does not hold: other forms, poolings or activations (None and relu go the short way as
    well); a layer, pooling, dropout or activation that is not exactly this package's or torch's own (a subclass, a
    replaced `forward`, a hook, dropout that is not simultaneous); an empty batch; `torch.compile`,
    `torch.export` and `torch.func`; forward derivatives; half precision of the values or by autocast, which is left to
    the rules of torch for each operation. Derivatives of the gradient (``create_graph=True``) are refused, except by
    `plain`.

    Args:
        widths: channels of the members and of each layer, [in, w₁, ..., wₖ].
        form: of the layers, see `SetLayer`.
        activation: of the layers, see `SetLayer`; a module is shared by all layers.
        pool: ``"max"``, ``"mean"`` or ``"sum"``, see `SetPool`.
        dropout: the probability that a channel of a set is dropped after a layer while training.
        device: where the parameters are made.
        dtype: of the parameters.
        bias: whether the layers have one.

    Shapes:
        (batch, members, in) or `PackedSets` to (batch, wₖ). The maximum and mean of an empty set raise `ValueError`.

    >>> import torch
    >>> from equiset import SetEncoder
    >>> SetEncoder([3, 16, 8])(torch.randn(2, 5, 3)).shape
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
        bias: bool = True,
    ) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(f"expected the channels of the input and of at least one layer, got {list(widths)}")
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.layers = nn.ModuleList(SetLayer(i, o, form, activation, **options) for i, o in pairwise(widths))  # type: ignore[arg-type]
        self.dropout = SetDropout(dropout)
        self.pool = SetPool(pool)

    def forward(self, sets: Tensor | PackedSets) -> Tensor:
        if torch.compiler.is_compiling() or inside_torch_func() or self._changed():
            return self.plain(sets)
        values, layout = unpack(sets, self.layers[0].in_features)  # type: ignore[arg-type]
        if self._fits(values):
            return self.plain(sets)
        curve = self._curve(values, layout)
        if curve is None:
            return self.plain(sets)
        biases = [values.new_zeros(layer.out_features) if layer.bias is None else layer.bias for layer in self.layers]
        weights = [(layer.weight, layer.set_weight) for layer in self.layers]
        parameters = [parameter for pair, bias in zip(weights, biases, strict=True) for parameter in (*pair, bias)]
        factors = self._factors(values, len(values) if layout is None else layout.n_sets)
        if torch.is_grad_enabled() and any(each.requires_grad for each in (values, *self.parameters())):
            pooled = _WinningRows.apply(values, layout, curve, factors, *parameters)
        else:
            with torch.no_grad():
                climb = _Climb(curve, parameters, values, layout, factors)  # type: ignore[arg-type]
                pooled = torch.cat([climb(chunk, climb.sets_of(chunk))[0] for chunk in climb.chunks])
        return pooled * factors[-1] if factors else pooled

    def _factors(self, values: Tensor, sets: int) -> list[Tensor]:
        """Draw the dropout of each layer as `plain` does; nothing if none acts."""
        if not self.dropout.training or self.dropout.p == 0:
            return []
        return [self.dropout.factors(values, sets, layer.out_features) for layer in self.layers]  # type: ignore[arg-type]

    def plain(self, sets: Tensor | PackedSets) -> Tensor:
        """Do the same layer by layer, over all members, with derivatives of any order."""
        for layer in self.layers:
            sets = self.dropout(layer(sets))
        return self.pool(sets)

    @torch.no_grad()
    def winners(self, sets: Sets, every_layer: bool = False) -> Sets:
        """Count for each member the channels of the pooled maximum that it wins: which members decide the output.

        Members that share a maximum all win it. They are compared before the activation if that is tanh, relu or none:
        these keep the order, but many members share a 1 or a 0 after them. Dropout is left out.

        Would the winners alone give the same output? The layers compare the members, too, so that those count as well
        that win a maximum inside a layer. With `every_layer`, and in the forms "max" and "max-norm", the members that
        win anything alone give exactly the same output. In the other forms every member is part of a sum or a mean.

        Args:
            sets: (batch, members, in) or `PackedSets`.
            every_layer: whether to add the channels of the maxima that the layers subtract.

        Returns:
            int64, (batch, members); of `PackedSets`, the same sets with the counts as their one channel.

        >>> import torch
        >>> from equiset import SetEncoder
        >>> SetEncoder([3, 16, 8]).winners(torch.randn(2, 5, 3)).sum(1)  # without ties, one for each channel
        tensor([8, 8])
        """
        if self.pool.pooling != "max":
            raise ValueError(f"expected an encoder that pools by the maximum, got {self.pool.pooling!r}")
        counts: Tensor | int = 0
        x: Any = sets
        compared, layout = unpack(sets)
        for layer in self.layers:
            if every_layer and layer.form in ("max", "max-norm"):
                counts = counts + _count_wins(compared, layout)
            before = layer.before_activation(x)  # type: ignore[operator]
            after = before if layer.activation is None else layer.activation(before)  # type: ignore[operator]
            compared, x = before if type(layer.activation) in _CURVES else after, pack(after, x)
        counts = counts + _count_wins(compared, layout)
        return pack(counts.unsqueeze(1), sets) if isinstance(sets, PackedSets) else counts

    def _fits(self, values: Tensor) -> bool:
        """Say whether `plain` is the better way on a GPU.

        It keeps two activations for each level, h and h - max h. With three layers it launches 50 kernels forward and
        backward (65 for packed sets), however many sets there are, and never waits. The short way launches 138 (149)
        for each chunk and waits for each level, since how many rows win is a value on the GPU; it multiplies half as
        much. 64 clouds of 1000 and 256 channels keep 0.4 GB and are multiplied in some milliseconds: nothing is left
        to save. 64 clouds of 5000 and 512 channels keep 3.9 GB. Above `KEPT_BYTES` memory decides.
        """
        if may_look(values):
            return False
        if values.is_cuda and torch.cuda.is_current_stream_capturing():
            return True
        widths = [self.layers[0].in_features, *(layer.out_features for layer in self.layers)]
        rows = values.numel() // max(1, values.shape[-1])
        return 2 * rows * sum(widths) * values.element_size() <= KEPT_BYTES  # type: ignore[arg-type]

    def _curve(self, values: Tensor, layout: Layout | None) -> "_Curve | None":
        """Give the activation if it is enough to follow the winners, else None."""
        curves = {_CURVES.get(type(layer.activation)) for layer in self.layers}
        other = self.pool.pooling != "max" or any(layer.form not in ("max", "max-norm") for layer in self.layers)
        # Sets without members, and types or devices that do not go together, are for `plain` to complain about.
        sizes = values.shape[:2] if layout is None else (layout.n_sets, *layout.host_sizes)
        kinds = {(tensor.dtype, tensor.device) for tensor in (values, *self.parameters())}
        if max(len(curves), len(kinds)) > 1 or other or 0 in sizes or values.dtype.itemsize < 4 or values.is_meta:
            return None
        forward = any(unpack_dual(tensor).tangent is not None for tensor in (values, *self.parameters()))
        if forward or torch.is_autocast_enabled(values.device.type):
            return None
        return curves.pop()

    def _changed(self) -> bool:
        """Say whether somebody made a part compute something else than this module knows of."""
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        parts = [module for module in self.modules() if module is not self]
        replaced = any(type(layer) is not SetLayer for layer in self.layers) or type(self.pool) is not SetPool
        if replaced or type(self.dropout) is not SetDropout or not self.dropout.simultaneous:
            return True
        return any("forward" in vars(part) or any(getattr(part, name) for name in hooks) for part in parts)


class _Curve(NamedTuple):
    """A monotone activation h = s(z)."""

    apply: Callable[[Tensor], Tensor]  # s itself
    apply_: Callable[[Tensor], Tensor]  # s in place
    slope: Callable[[Tensor], Tensor]  # s'(z) as a function of h
    dies: bool = False  # whether the slope jumps to zero at h = 0: it is then noted, since a rounded h may be wrong


# ELU is not here: torch may round the last elements of a tensor in another way than the others, so that identical
# members would no longer tie.
_CURVES = {
    nn.Tanh: _Curve(torch.tanh, torch.tanh_, lambda h: 1 - h * h),
    # NaN has a slope, as in torch.
    nn.ReLU: _Curve(torch.relu, torch.relu_, lambda h: h.le(0).logical_not_().to(h.dtype), dies=True),
    type(None): _Curve(lambda z: z, lambda z: z, torch.ones_like),
}


class _Chunk(NamedTuple):
    """Some sets that are worked on together: where they and their rows begin, and the number of members of each."""

    first: int
    start: int
    sizes: list[int]

    def winners(self, below: Tensor, flat: Tensor | None, sets: Tensor) -> Tensor:
        """Say which rows win a channel that is not flat in their set: (rows,), from h - max h and (sets, channels)."""
        if flat is not None and flat.any():
            # In a trained network many members share a maximum of tanh that was rounded to 1.
            flat = flat.to(below.dtype)
            members, flat = self.spread(flat, below, sets)
            below = (members - flat).view_as(below)
        return _wins(below.amax(1))

    def subtract_max(self, rows: Tensor, sets: Tensor) -> Tensor:
        """Subtract from each member the maxima of its set, in place, and give them: (sets, channels)."""
        if min(self.sizes) == max(self.sizes):
            dense = rows.view(len(self.sizes), -1, rows.shape[1])
            largest = dense.amax(1)
            dense.sub_(largest.unsqueeze(1))
            return largest
        largest = rows.new_zeros(len(self.sizes), rows.shape[1])
        largest.scatter_reduce_(0, sets.unsqueeze(1).expand_as(rows), rows, "amax", include_self=False)
        rows.sub_(largest.index_select(0, sets))
        return largest

    def spread(self, per_set: Tensor, rows: Tensor, sets: Tensor) -> tuple[Tensor, Tensor]:
        """Give the members, and what their sets have, in shapes that go together."""
        if min(self.sizes) == max(self.sizes):
            return rows.view(len(self.sizes), -1, rows.shape[1]), per_set.unsqueeze(1)
        return rows, per_set.index_select(0, sets)

    def of(self, per_set: list[Tensor]) -> list[Tensor]:
        """Cut what these sets have out of what all have."""
        return [values[self.first :][: len(self.sizes)] for values in per_set]


class _Climb:
    """The way up through all layers, for some sets at a time."""

    def __init__(
        self,
        curve: _Curve,
        parameters: Sequence[Tensor | None],
        values: Tensor,
        layout: Layout | None,
        factors: list[Tensor],
    ) -> None:
        self.curve = curve
        self.factors = factors
        self.layers = []
        for weight, set_weight, bias in zip(*(parameters[i::3] for i in range(3)), strict=True):
            # x Λ - 1 max x Γ = (x - 1 max x) Λ + 1 max x (Λ - Γ)
            self.layers.append((weight, None if set_weight is None else weight - set_weight, bias))
        self.rows = values.detach().reshape(-1, values.shape[-1])
        sizes = [values.shape[1]] * len(values) if layout is None else layout.host_sizes
        numbers = torch.arange(len(sizes), device=values.device)
        self.set_index = numbers.repeat_interleave(values.shape[1]) if layout is None else layout.set_index
        widths = [self.rows.shape[1], *(len(bias) for *_, bias in self.layers)]
        limit = CHUNK_BYTES.get(values.device.type, 2**28) // (max(widths) * values.element_size())
        self.chunks: list[_Chunk] = []
        room = start = 0
        for number, size in enumerate(sizes):
            if size > room:
                self.chunks.append(_Chunk(number, start, []))
                room = max(limit, size)
            self.chunks[-1].sizes.append(size)
            start, room = start + size, room - size
        # One memory for all chunks: freed and taken anew, it would lie scattered among the rows that are kept.
        most = max(sum(chunk.sizes) for chunk in self.chunks)
        self.memory = [self.rows.new_empty(most, width) for width in widths]
        self.dead = [self.rows.new_empty(most, width, dtype=torch.bool) for width in widths[1:-1] if curve.dies]

    def sets_of(self, chunk: _Chunk) -> Tensor:
        """Give the number of the set of the chunk that each of its rows belongs to."""
        return self.set_index[chunk.start :][: sum(chunk.sizes)] - chunk.first

    def __call__(self, chunk: _Chunk, sets: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Give the output of the sets, and h - max h (until the next call) and max h of each level.

        The last level is z itself, since the maximum of an activation is the activation of the maximum. Dropout has
        multiplied h - max h, except at the last level. `dead` then says where the slope is zero, if it jumps.
        """
        belows = [memory[: sum(chunk.sizes)] for memory in self.memory]
        belows[0].copy_(self.rows[chunk.start :][: sum(chunk.sizes)])
        tops, factors = [chunk.subtract_max(belows[0], sets)], chunk.of(self.factors)
        for level, (weight, more, bias) in enumerate(self.layers, start=1):
            torch.addmm(bias, belows[level - 1], weight.t(), out=belows[level])
            if more is not None:
                of_max = _dropped(tops[level - 1], level - 1, factors) @ more.t()
                members, of_max = chunk.spread(of_max, belows[level], sets)
                members.add_(of_max)
            if level < len(self.layers):
                self.curve.apply_(belows[level])
                if self.dead:
                    torch.le(belows[level], 0, out=self.dead[level - 1][: sum(chunk.sizes)])
            tops.append(chunk.subtract_max(belows[level], sets))
            if factors and level < len(self.layers):
                members, factor = chunk.spread(factors[level - 1], belows[level], sets)
                members.mul_(factor)
        return self.curve.apply(tops[-1]), belows, tops


def _dropped(top: Tensor, level: int, factors: list[Tensor]) -> Tensor:
    """Give max h of a level after its dropout: (sets, channels)."""
    return top * factors[level - 1] if factors and level else top


def _wins(below: Tensor) -> Tensor:
    # Written so that NaN wins too: it is then in the gradients, as it is with all members.
    return below.lt(0).logical_not_()


class _WinningRows(Function):
    """The layers and the maximum over the members, (sets, w_k), for first derivatives."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        layout: Layout | None,
        curve: _Curve,
        factors: list[Tensor],
        *parameters: Tensor | None,
    ) -> Tensor:
        climb = _Climb(curve, parameters, values, layout, factors)
        # Below the lowest layer whose gradient is wanted, nothing has to be kept.
        ctx.bottom = 0 if ctx.needs_input_grad[0] else ctx.needs_input_grad[4:].index(True) // 3
        ctx.curve, ctx.shape, ctx.chunks, ctx.factors = curve, values.shape, climb.chunks, factors
        outputs, kept = [], []
        for chunk in climb.chunks:
            set_index = climb.sets_of(chunk)
            output, belows, tops = climb(chunk, set_index)
            outputs.append(output)
            winners = torch.zeros_like(set_index, dtype=torch.bool)
            dropped = [factor.eq(0) for factor in chunk.of(factors)]
            for level in range(len(climb.layers), ctx.bottom - 1, -1):
                last = level == len(climb.layers)
                # Neither the input nor the last z has gone through the activation. A GPU is spared the launches.
                through = level > 0 and not last
                flat = curve.slope(tops[level]).eq(0) if through and may_look(values) else None
                if dropped and level:
                    flat = dropped[level - 1] if flat is None else flat | dropped[level - 1]
                winners |= chunk.winners(belows[level], flat, set_index)
                places = winners.nonzero().squeeze(1)
                rows = belows[level].index_select(0, places)
                if last:  # there it is enough to know who won
                    rows = _wins(rows)
                dead = climb.dead[level - 1].index_select(0, places) if through and climb.dead else None
                kept += [places, set_index.index_select(0, places), rows, tops[level], dead]
        output = torch.cat(outputs)
        ctx.save_for_backward(output, *parameters, *kept)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            # Not left to once_differentiable, which gives a gradient without its own derivative if `grad` is constant.
            raise RuntimeError("SetEncoder has first derivatives only; with create_graph=True use encoder.plain(sets)")
        wants_values, _, _, _, *wanted = ctx.needs_input_grad
        output, *saved = ctx.saved_tensors
        parameters, kept = saved[: len(wanted)], iter(saved[len(wanted) :])
        grads = [torch.zeros_like(each) if want else None for each, want in zip(parameters, wanted, strict=True)]
        grad_values = grad.new_zeros(ctx.shape) if wants_values else None
        per_output = (grad * ctx.curve.slope(output)).split([len(chunk.sizes) for chunk in ctx.chunks])
        for chunk, sums in zip(ctx.chunks, per_output, strict=True):
            places, sets, wins, *_ = (next(kept) for _ in range(5))
            factors = chunk.of(ctx.factors)
            # The gradient of z: `sums` over each set, and `rows` of the members that won.
            rows = _share(sums, wins, sets)
            for level in range(len(parameters) // 3 - 1, ctx.bottom - 1, -1):
                weight, set_weight, _ = parameters[3 * level : 3 * level + 3]
                grad_weight, grad_set_weight, grad_bias = grads[3 * level : 3 * level + 3]
                above, (places, sets, below, top, dead) = places, (next(kept) for _ in range(5))
                among = torch.searchsorted(places, above)
                if grad_weight is not None:
                    grad_weight.addmm_(rows.t(), below.index_select(0, among))
                if set_weight is not None:
                    of_max = sums.t() @ _dropped(top, level, factors)
                    if grad_weight is not None:
                        grad_weight += of_max
                    if grad_set_weight is not None:
                        grad_set_weight -= of_max
                if grad_bias is not None:
                    grad_bias += sums.sum(0)
                if level == ctx.bottom and not wants_values:
                    break
                # h passes its gradient to the same members, max h to those that won there.
                of_max = -sums @ (weight if set_weight is None else set_weight)
                rows = _share(of_max, _wins(below), sets).index_add_(0, among, rows @ weight)
                if level:
                    if factors:
                        factor = factors[level - 1].index_select(0, sets)
                        rows *= factor
                        below = below / torch.where(factor == 0, 1, factor)
                    if dead is None:
                        rows *= ctx.curve.slope(below + top.index_select(0, sets))  # h, but for its last digit
                    else:
                        rows.masked_fill_(dead, 0)
                    sums = torch.zeros_like(top).index_add_(0, sets, rows)
                else:
                    grad_values.view(-1, ctx.shape[-1])[chunk.start :].index_copy_(0, places, rows)  # type: ignore[union-attr]
        return grad_values, None, None, None, *grads


def _count_wins(values: Tensor, layout: Layout | None) -> Tensor:
    """Count the channels in which each member has the maximum of its set."""
    return (values == spread(set_max(values, layout), layout)).sum(-1)


def _share(per_set: Tensor, wins: Tensor, sets: Tensor) -> Tensor:
    """Divide what each set has for a channel evenly among the members that won it.

    If it is flat they may be absent, and what is divided comes to nothing.
    """
    wins = wins.to(per_set.dtype)
    count = torch.zeros_like(per_set).index_add_(0, sets, wins)
    return (per_set / (count.clamp_(min=1) if may_look(count) else count)).index_select(0, sets).mul_(wins)
