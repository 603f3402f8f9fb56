"""The layers of `SetEncoder` and its maximum, with a backward pass over the rows of winning members alone."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from equiset.nn.layout import Layout
from equiset.nn.ways import may_look

# Bytes of one activation of the sets that go through the layers together: on a CPU what stays in its cache, on a GPU
# what keeps it busy.
CHUNK_BYTES = {"cpu": 2**21, "cuda": 2**28}


class Curve(NamedTuple):
    """A monotone activation h = s(z)."""

    apply: Callable[[Tensor], Tensor]  # s itself
    apply_: Callable[[Tensor], Tensor]  # s in place
    slope: Callable[[Tensor], Tensor]  # s'(z) as a function of h
    dies: bool = False  # whether the slope jumps to zero at h = 0: it is then noted, since a rounded h may be wrong


# ELU is not here: torch may round the last elements of a tensor in another way than the others, so that identical
# members would no longer tie.
CURVES = {
    nn.Tanh: Curve(torch.tanh, torch.tanh_, lambda h: 1 - h * h),
    # NaN has a slope, as in torch.
    nn.ReLU: Curve(torch.relu, torch.relu_, lambda h: h.le(0).logical_not_().to(h.dtype), dies=True),
    type(None): Curve(lambda z: z, lambda z: z, torch.ones_like),
}


class Chunk(NamedTuple):
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


class Climb:
    """The way up through all layers, for some sets at a time."""

    def __init__(
        self,
        curve: Curve,
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
        self.chunks: list[Chunk] = []
        room = start = 0
        for number, size in enumerate(sizes):
            if size > room:
                self.chunks.append(Chunk(number, start, []))
                room = max(limit, size)
            self.chunks[-1].sizes.append(size)
            start, room = start + size, room - size
        # One memory for all chunks: freed and taken anew, it would lie scattered among the rows that are kept.
        most = max(sum(chunk.sizes) for chunk in self.chunks)
        self.memory = [self.rows.new_empty(most, width) for width in widths]
        self.dead = [self.rows.new_empty(most, width, dtype=torch.bool) for width in widths[1:-1] if curve.dies]

    def sets_of(self, chunk: Chunk) -> Tensor:
        """Give the number of the set of the chunk that each of its rows belongs to."""
        return self.set_index[chunk.start :][: sum(chunk.sizes)] - chunk.first

    def __call__(self, chunk: Chunk, sets: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
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


class WinningRows(Function):
    """The layers and the maximum over the members, (sets, w_k), for first derivatives."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        layout: Layout | None,
        curve: Curve,
        factors: list[Tensor],
        *parameters: Tensor | None,
    ) -> Tensor:
        climb = Climb(curve, parameters, values, layout, factors)
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
        if _is_batched(grad):
            raise RuntimeError(
                "SetEncoder goes back with one gradient at a time, without vmap: use jacobian(vectorize=False), "
                "torch.func.jacrev, or encoder.plain(sets)"
            )
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


def _is_batched(grad: Tensor) -> bool:
    """Say whether vmap passes several gradients as one. On these devices only such tensors have no storage."""
    try:
        grad.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return grad.device.type in CHUNK_BYTES
    return False


def _share(per_set: Tensor, wins: Tensor, sets: Tensor) -> Tensor:
    """Divide what each set has for a channel evenly among the members that won it.

    If it is flat they may be absent, and what is divided comes to nothing.
    """
    wins = wins.to(per_set.dtype)
    count = torch.zeros_like(per_set).index_add_(0, sets, wins)
    return (per_set / (count.clamp_(min=1) if may_look(count) else count)).index_select(0, sets).mul_(wins)
