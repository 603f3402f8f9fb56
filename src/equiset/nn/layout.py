"""Where the sets of a batch begin and end, and what follows from it."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor


class Layout:
    """Where each set begins and ends, shared by all `PackedSets` with the same sets.

    What needs the values of the offsets is worked out once from `host`, a copy in main memory, so that no layer has
    to wait for a GPU to learn a size. The tensors that the layers index with are made on first use, outside of
    inference mode: a batch may be evaluated first and trained on later.

    Args:
        offsets: where each set begins, and the end of the last.
        host: the same in main memory; None if it is to be copied when it is needed.
    """

    def __init__(self, offsets: Tensor, host: Tensor | None = None) -> None:
        self.offsets = offsets
        self._host = host
        self.given_sizes: Tensor | None = None

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], device: torch.device) -> "Layout":
        host = torch.tensor([0, *sizes]).cumsum(0)
        return cls(host.to(device, non_blocking=True), host)

    @classmethod
    def of_tensor(cls, sizes: Tensor) -> "Layout":
        """Make a layout of sizes whose values may not be known yet, or of what a pytree holds in their place."""
        offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]) if isinstance(sizes, Tensor) else sizes
        layout = cls(offsets)
        layout.given_sizes = sizes
        return layout

    def traced(self, n_rows: int) -> "Layout":
        """Make what a layer needs while torch.compile or torch.export looks on, without the value of any offset.

        Nothing that is kept with a batch is used: the program would be for this batch alone. Sizes as they were given
        have a length of their own, where that of offsets less one would have to be more than one.
        """
        layout, offsets = Layout(self.offsets), self.offsets
        layout.sizes = offsets.diff() if self.given_sizes is None else self.given_sizes
        # The sets that begin at each row, added up: `repeat_interleave` cannot be exported to ONNX. The last offset
        # and empty sets at the end come after the last row.
        begins = offsets.new_zeros(n_rows + 1).index_add(0, offsets, torch.ones_like(offsets))
        layout.set_index = begins.cumsum(0)[:n_rows] - 1
        return layout

    def to(self, device: torch.device, non_blocking: bool = False) -> "Layout":
        if device == self.offsets.device:
            return self
        return Layout(self.offsets.to(device, non_blocking=non_blocking), self.host)

    @cached_property
    def host(self) -> Tensor:
        return self.offsets.cpu() if self._host is None else self._host

    @property
    def n_sets(self) -> int:
        return self.sizes.shape[0]

    @cached_property
    def n_rows(self) -> int:
        return int(self.host[-1])

    @cached_property
    def host_sizes(self) -> list[int]:
        return self.host.diff().tolist()

    @cached_property
    def first_empty(self) -> int | None:
        """Number of the first set without members."""
        return self.host_sizes.index(0) if 0 in self.host_sizes else None

    @cached_property
    def sizes(self) -> Tensor:
        with torch.inference_mode(False):
            return self.offsets.diff() if self.given_sizes is None else self.given_sizes

    @cached_property
    def set_index(self) -> Tensor:
        with torch.inference_mode(False):
            numbers = torch.arange(self.n_sets, device=self.offsets.device)
            return numbers.repeat_interleave(self.sizes, output_size=self.n_rows)

    @cached_property
    def row_index(self) -> Tensor:
        with torch.inference_mode(False):
            return torch.arange(self.n_rows, device=self.offsets.device)

    @cached_property
    def levels(self) -> list[Tensor]:
        """Offsets to add up by, 16 at a time: of blocks of 16 rows of a set, of 16 such blocks, and so on, of sets."""
        levels, host, offsets = [], self.host, self.offsets
        with torch.inference_mode(False):
            while host.diff().gt(16).any():
                # Both by the same rule: a copy from one to the other would be waited for.
                host, first = (
                    torch.cat([each[:1], (each.diff() + 15).div(16, rounding_mode="floor").cumsum(0)])
                    for each in (host, offsets)
                )
                blocks = torch.arange(int(host[-1]), device=offsets.device)
                owner = torch.arange(self.n_sets, device=offsets.device).repeat_interleave(
                    first.diff(), output_size=len(blocks)
                )
                starts = (offsets - 16 * first).index_select(0, owner) + 16 * blocks
                levels.append(torch.cat([starts, offsets[-1:]]))
                offsets = first
        return [*levels, offsets]
