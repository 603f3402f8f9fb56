"""A device of our own, `card`, that stands in for a GPU: its tensors hold CPU tensors under another device's name.

It refuses what a GPU refuses, to mix tensors of two devices, and counts what is dear there: launches of kernels,
copies, and waits of the host for the card. The arithmetic is the CPU's.

`torch.utils.backend_registration._setup_privateuseone_for_python_backend` and its dummy module are private parts of
torch 2.13. Without them the autograd engine aborts in the backward pass of a device that it does not know, and there is
no public way to write one in Python. If they go, this file is all that has to change.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend


class _Module(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float32]


_setup_privateuseone_for_python_backend("card", backend_module=_Module())
CARD = torch.device("card", 0)
aten = torch.ops.aten

# The size of their result is a value on the card, or they hand a value over.
WAITS = {
    aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.is_nonzero, aten.unique_dim,
    aten._unique2, aten.unique_consecutive, aten.allclose, aten.bincount,
}  # fmt: skip
# No kernel runs: memory is taken, or looked at in another way.
FREE = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.detach, aten.lift_fresh, aten.is_pinned}
# What torch's strict deterministic mode refuses on CUDA, by its documentation.
REFUSED = {
    "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d_backward", "avg_pool3d_backward", "nll_loss2d_forward",
    "nll_loss2d_backward", "put_", "histc", "median", "kthvalue", "grid_sampler_2d_backward", "max_unpool2d",
    "upsample_bilinear2d_backward", "reflection_pad2d_backward", "index_reduce", "index_reduce_",
}  # fmt: skip


class CardTensor(Tensor):
    """A tensor on the card."""

    @staticmethod
    def __new__(cls, held: Tensor) -> "CardTensor":
        tensor = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype, device=CARD
        )
        tensor.held = held
        return tensor

    def __init__(self, held: Tensor) -> None: ...

    def __reduce_ex__(self, protocol: int) -> Any:
        # As with `map_location="cpu"`, which reads what was on a GPU into main memory.
        return self.held.__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"CardTensor({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {}, None)


class Counts(TorchDispatchMode):
    """Runs operations of the card, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.launches: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {}, self)


@contextmanager
def card() -> Iterator[Counts]:
    """Make the card usable, and count what is done with it."""
    with pytest.MonkeyPatch.context() as patch, Counts() as counts:
        # Pinning is the business of threads, in which no dispatch mode is active.
        patch.setattr(Tensor, "pin_memory", _pin)
        yield counts


def _pin(tensor: Tensor) -> Tensor:
    pinned = tensor.clone()
    pinned.was_pinned = True
    return pinned


def _run(function: Any, args: Any, kwargs: dict[str, Any], counts: Counts | None) -> Any:
    packet, name = function.overloadpacket, function.overloadpacket.__name__
    flat = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
    device = kwargs.get("device")
    on_card = any(isinstance(each, CardTensor) for each in flat)
    if packet in (aten._to_copy, aten.copy_):
        return _copy(packet, args, kwargs, counts)
    if not on_card and (device is None or torch.device(device).type != "card"):
        return function(*args, **kwargs)
    # As on CUDA, a number (a tensor without dimensions) may come from the host.
    mixed = [each for each in flat if not isinstance(each, CardTensor) and each.ndim and on_card]
    if mixed and not name.startswith("_fused"):
        raise RuntimeError(
            f"{function} was given tensors on the card and on the CPU: {[tuple(e.shape) for e in mixed]}"
        )
    if name in REFUSED:
        raise RuntimeError(f"{function} is refused by deterministic mode")
    if counts is not None:
        _count(function, args, kwargs, counts)
    if device is not None:
        kwargs = kwargs | {"device": "cpu"}
    wrappers = {id(each.held): each for each in flat if isinstance(each, CardTensor)}
    results = function(*tree_map(_held, args), **tree_map(_held, kwargs))

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        known = wrappers.get(id(value))  # what was changed in place
        return CardTensor(value) if known is None else known

    return tree_map(wrap, results)


def _held(value: Any) -> Any:
    return value.held if isinstance(value, CardTensor) else value


def _count(function: Any, args: Any, kwargs: dict[str, Any], counts: Counts) -> None:
    packet, schema = function.overloadpacket, function._schema
    if packet in FREE or "profiler" in str(function):
        return
    views = any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)
    if views and packet not in (aten._reshape_copy,):
        return
    counts.launches[packet.__name__] += 1
    by_mask = packet in (aten.index, aten.index_put_, aten.index_put, aten._index_put_impl_) and any(
        each is not None and each.dtype == torch.bool for each in args[1]
    )
    unsized = packet is aten.repeat_interleave and kwargs.get("output_size") is None
    if packet in WAITS or by_mask or unsized:
        counts.waits[packet.__name__] += 1


def _copy(packet: Any, args: Any, kwargs: dict[str, Any], counts: Counts | None) -> Any:
    """Copy between devices, and count who waits: the host, for what leaves the card, or enters it in the usual way."""
    kwargs = dict(kwargs)
    if packet is aten.copy_:
        target, source, *rest = args
        non_blocking = bool(rest and rest[0]) or kwargs.get("non_blocking", False)
        to_card = isinstance(target, CardTensor)
    else:
        source, non_blocking = args[0], kwargs.pop("non_blocking", False)
        device = kwargs.pop("device", None)
        to_card = torch.device(device).type == "card" if device is not None else isinstance(source, CardTensor)
        if kwargs.get("pin_memory"):
            kwargs.pop("pin_memory")
    from_card = isinstance(source, CardTensor)
    if counts is not None and from_card and not to_card:
        counts.waits["copy to the host"] += 1
    elif counts is not None and to_card and not from_card:
        waits = not (non_blocking and getattr(source, "was_pinned", False))
        counts.copies["that wait" if waits else "ahead"] += 1
    elif counts is not None and to_card:
        counts.launches[packet.__name__] += 1
    if packet is aten.copy_:
        _held(target).copy_(_held(source))
        return target
    copied = packet.default(_held(source), **kwargs)
    return CardTensor(copied) if to_card else copied
