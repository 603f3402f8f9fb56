"""Several processes that train one network together: each works on some sets of every step, whole ones.

All processes hold the same weights and draw the same random numbers. A step goes over the sets that it would go over in
one process; their gradients are summed and divided by the number of all sets. So the number of processes changes
rounding and time, and nothing else: a checkpoint of two processes goes on with one or with four.

`DistributedDataParallel` sends the gradients while the backward pass still computes, and averages the means of the
processes. Where one has fewer sets (or labelled members) than another, that is not the mean over all sets, so each
multiplies its loss by its part of them. What torch does not have stays here: random numbers that do not depend on the
number of processes, and batch normalisation over all processes that runs on a CPU as well.
"""

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.errors import EquisetError
from equiset.nn.shares import Draws, Share

# Of each thread its own: one makes batches ahead of those that are computed on.
_share: ContextVar[Share | None] = ContextVar("share", default=None)


def current_share() -> Share | None:
    """Return which sets of the batch at hand are this process's; None if it is all of them."""
    return _share.get()


def set_share(share: Share | None) -> None:
    _share.set(share)


def processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Say whether this is the process that logs and writes."""
    return not dist.is_initialized() or dist.get_rank() == 0


def share(sets: int) -> slice:
    """Return which of the `sets` of the next batch are this process's, and let the layers know.

    A batch of fewer sets than processes is worked on by all of them in whole, and counted once.
    """
    if sets < processes() or processes() == 1:
        set_share(None)
        return slice(None)
    first, last = (sets * (dist.get_rank() + end) // processes() for end in (0, 1))
    set_share(Share(first, last - first, sets))
    return slice(first, last)


def each(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches. One that was made without `share` is worked on by all processes in whole."""
    set_share(None)
    for batch in batches:
        yield batch
        set_share(None)


def _weight() -> float:
    """Return how much the sets of this process count: less than one if the others have the same sets."""
    return 1.0 if current_share() else 1.0 / processes()


def averaging(model: nn.Module) -> nn.Module:
    """Return a network that gives the mean of all processes' gradients to the weights of `model`."""
    if processes() == 1:
        return model
    # Buffers are the same in all processes, since batch normalisation is over all.
    return nn.parallel.DistributedDataParallel(model, forward_sync_buffers=False, gradient_as_bucket_view=True)


def mean_over_all(loss: Tensor, sets: int) -> Tensor:
    """Return a loss whose gradient, averaged over the processes, is that of the mean over the sets of all.

    Args:
        loss: the mean over the sets of this process.
        sets: their number, or that of whatever the mean is over.
    """
    if processes() == 1:
        return loss
    everyone = torch.full_like(loss.detach(), sets * _weight())
    dist.all_reduce(everyone)
    return loss * (sets * _weight() * processes() / everyone)


def counted(sums: dict[str, Any]) -> dict[str, Any]:
    """Return the sums over a batch as this process's contribution to those of all."""
    return sums if processes() == 1 else {name: value * _weight() for name, value in sums.items()}


def add_up(totals: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Add up the sums of all processes."""
    if processes() == 1 or not totals:
        return totals
    values = torch.tensor([float(value) for value in totals.values()], dtype=torch.float64, device=device)
    dist.all_reduce(values)
    return dict(zip(totals, values.tolist(), strict=True))


def require_same(number: int, what: str, device: torch.device) -> None:
    """Raise an error if the processes do not have the same number."""
    if processes() == 1:
        return
    values = torch.tensor([number, -number], dtype=torch.int64, device=device)
    dist.all_reduce(values, dist.ReduceOp.MAX)
    if values[0] != -values[1]:
        raise EquisetError(f"the processes do not have the same {what}: they must see the same folders")


def share_layers(model: nn.Module) -> nn.Module:
    """Let layers that draw random numbers, or look at all of a batch, do so for all processes."""
    if processes() == 1:
        return model
    for name, module in list(model.named_modules()):
        if isinstance(module, Draws):
            module.share = current_share
        elif type(module) in _SHARED:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], _SHARED[type(module)](module))
        elif isinstance(module, (nn.modules.dropout._DropoutNd, nn.RReLU)):
            raise EquisetError(f"{type(module).__name__} cannot be shared by several processes: set 'processes' to 1")
    return model


class _Dropout(Draws):
    def __init__(self, layer: nn.Dropout):
        super().__init__()
        self.p, self.share = layer.p, current_share

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x, self.p) if self.training else x


class _Dropout2d(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * self.draw(len(x), lambda rows: F.dropout2d(x.new_ones(rows, x.shape[1], 1, 1), self.p))


class _BatchNorm(nn.BatchNorm2d):
    """Batch normalisation by mean and variance over the batches of all processes. torch's own is for CUDA alone."""

    def __init__(self, layer: nn.BatchNorm2d):
        super().__init__(layer.num_features, layer.eps, layer.momentum, device="meta")
        self.load_state_dict(layer.state_dict(keep_vars=True), assign=True)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        y, mean, variance, count = _Normalise.apply(x, self.weight, self.bias, self.eps)
        with torch.no_grad():
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        return y


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, ...]:
        values = x.numel() / x.shape[1] * _weight()
        # Combined from means and variances, since a difference of sums of squares would lose digits.
        variance, mean = torch.var_mean(_full(x), (0, 2, 3), correction=0)
        own = torch.cat([mean, variance, mean.new_full((1,), values)])
        gathered = [torch.empty_like(own) for _ in range(processes())]
        dist.all_gather(gathered, own)
        parts = torch.stack(gathered).double()
        means, variances, counts = parts[:, : len(mean)], parts[:, len(mean) : -1], parts[:, -1:]
        count = counts.sum()
        mean = (counts * means).sum(0) / count
        variance = ((counts * (variances + (means - mean).square())).sum(0) / count).to(own.dtype)
        mean = mean.to(own.dtype)
        ctx.save_for_backward(x, weight, mean, (variance + eps).rsqrt())
        ctx.count, ctx.weight = count.to(own.dtype), _weight()
        ctx.mark_non_differentiable(mean, variance, ctx.count)
        return F.batch_norm(x, mean, variance, weight, bias, eps=eps), mean, variance, ctx.count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale = ctx.saved_tensors
        along = (1, -1, 1, 1)
        grad = _full(grad)
        normalised = (x - mean.view(along)) * scale.view(along)
        own = torch.stack([grad.sum((0, 2, 3)), (grad * normalised).sum((0, 2, 3))])
        everyone = own.clone()
        dist.all_reduce(everyone)
        shift, slope = (everyone / ctx.count * ctx.weight).view(2, *along)
        grad_x = (grad - shift - normalised * slope) * (scale * weight).view(along)
        return grad_x.to(x.dtype), own[1], own[0], None


def _full(x: Tensor) -> Tensor:
    return x.float() if x.dtype.itemsize < 4 else x


_SHARED = {nn.Dropout: _Dropout, nn.Dropout2d: _Dropout2d, nn.BatchNorm2d: _BatchNorm}
