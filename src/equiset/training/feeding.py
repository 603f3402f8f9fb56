"""Copies batches to the device while it still computes on those before."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

_AHEAD = 2


def feed(batches: Iterable[tuple[Any, ...]], device: torch.device) -> Iterator[tuple[Any, ...]]:
    """Yield batches that are made in main memory, in their order, on the device.

    For a GPU they are made by a thread of their own, two ahead, and copied from pinned memory, for which nobody waits.
    On a CPU nothing changes: one core would make and use them in turns anyway, and trainings have one core each.

    Args:
        batches: tuples of what can be moved (tensors and `PackedSets`) and of what stays as it is.
        device: where to.
    """
    batches = iter(batches)
    if device.type == "cpu":
        yield from batches
        return

    def load() -> tuple[Any, ...] | None:
        batch = next(batches, None)
        if batch is None:
            return None
        return tuple(part.pin_memory() if hasattr(part, "pin_memory") else part for part in batch)

    with ThreadPoolExecutor(1, "feed") as thread:
        loading = deque(thread.submit(load) for _ in range(_AHEAD))
        while (batch := loading.popleft().result()) is not None:
            loading.append(thread.submit(load))
            yield tuple(part.to(device, non_blocking=True) if hasattr(part, "pin_memory") else part for part in batch)
