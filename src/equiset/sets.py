"""Sets of different sizes, stored as the rows of all sets one after the other."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor


class Layout:
    """Where each set begins and ends, shared by all `PackedSets` with the same sets.

    What needs the values of the offsets is worked out once from `host`, a copy in main memory, so that no layer has
    to wait for a GPU to learn a size. The tensors that the layers index with are made on first use, outside of
    inference mode: a batch may be evaluated first and trained on later.
    """

    def __init__(self, offsets: Tensor, host: Tensor) -> None:
        self.offsets = offsets
        self.host = host

    def to(self, device: torch.device, non_blocking: bool = False) -> "Layout":
        if device == self.offsets.device:
            return self
        return Layout(self.offsets.to(device, non_blocking=non_blocking), self.host)

    @property
    def n_sets(self) -> int:
        return len(self.host) - 1

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
            return self.offsets.diff()

    @cached_property
    def set_index(self) -> Tensor:
        with torch.inference_mode(False):
            numbers = torch.arange(self.n_sets, device=self.offsets.device)
            return numbers.repeat_interleave(self.sizes, output_size=self.n_rows)

    @cached_property
    def blocks(self) -> "tuple[Tensor, Layout] | None":
        """Each set in blocks of 16 members, the last with fewer: the block of each row, and the blocks of each set.

        None if no set has more than 16 members.
        """
        if max(self.host_sizes, default=0) <= 16:
            return None
        host = torch.cat([self.host[:1], (self.host.diff() + 15).div(16, rounding_mode="floor").cumsum(0)])
        with torch.inference_mode(False):
            blocks = Layout(host.to(self.offsets.device, non_blocking=True), host)
            # With every set moved to where its blocks begin, the block is the place divided by 16.
            moved = (blocks.offsets * 16 - self.offsets)[:-1].index_select(0, self.set_index)
            places = torch.arange(self.n_rows, device=self.offsets.device)
            return moved.add_(places).bitwise_right_shift_(4), blocks


class PackedSets:
    """A batch of sets of different sizes: row `j` of set `i` is `rows[offsets[i] + j]`.

    Empty sets are allowed, and so is a batch of no sets. The offsets are checked when the sets are made; `with_rows`
    and `to` keep them and check nothing that would make a GPU wait.

    Args:
        rows: the members of all sets, (total, channels).
        offsets: where each set begins, and the end of the last, integers, (sets + 1,), on the device of `rows`.

    >>> import torch
    >>> sets = PackedSets(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 3]))
    >>> sets
    PackedSets(2 sets of 1 to 2 members, 2 channels, torch.float32, cpu)
    >>> sets[1]
    tensor([[2., 3.],
            [4., 5.]])
    >>> dense, mask = sets.to_dense()
    >>> mask
    tensor([[ True, False],
            [ True,  True]])
    """

    def __init__(self, rows: Tensor, offsets: Tensor) -> None:
        _check_rows(rows)
        self._rows = rows
        self._layout = _checked_layout(rows, offsets)

    @classmethod
    def _make(cls, rows: Tensor, layout: Layout) -> Self:
        sets = cls.__new__(cls)
        sets._rows, sets._layout = rows, layout
        return sets

    @classmethod
    def from_list(cls, sets: Sequence[Tensor]) -> Self:
        """Pack a list of sets, each (members, channels)."""
        if len(sets) == 0:
            raise ValueError(
                "expected at least one set, to take the channels from; PackedSets(rows, offsets) takes none"
            )
        for number, rows in enumerate(sets):
            _check_rows(rows, f"set {number}")
            if _kind(rows) != _kind(sets[0]):
                raise ValueError(f"expected {_kind(sets[0])}, as set 0 has, got {_kind(rows)} in set {number}")
        host = torch.tensor([0, *(len(rows) for rows in sets)]).cumsum(0)
        return cls._make(torch.cat(list(sets)), Layout(host.to(sets[0].device), host))

    @classmethod
    def from_dense(cls, dense: Tensor, mask: Tensor | None = None) -> Self:
        """Pack (batch, members, channels); where `mask` (batch, members) is False there is no member."""
        if not isinstance(dense, Tensor) or dense.ndim != 3:
            raise ValueError(f"expected a dense tensor (batch, members, channels), got {_describe(dense)}")
        batch, members, channels = dense.shape
        if mask is None:
            host = torch.arange(batch + 1) * members
            return cls._make(dense.reshape(batch * members, channels), Layout(host.to(dense.device), host))
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (batch, members):
            raise ValueError(f"expected a bool mask of shape {(batch, members)}, got {_describe(mask)}")
        offsets = torch.cat([mask.new_zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)])
        return cls._make(dense[mask], Layout(offsets, offsets.cpu()))

    def to_dense(self, fill: float = 0.0) -> tuple[Tensor, Tensor]:
        """Give (batch, longest, channels), with `fill` after the last member, and a mask that is True for members."""
        longest = max(self._layout.host_sizes, default=0)
        place = torch.arange(len(self.rows), device=self.device) - self.offsets[self.set_index]
        dense = self.rows.new_full((len(self) * longest, self.channels), fill)
        dense = dense.index_copy(0, self.set_index * longest + place, self.rows)
        mask = torch.arange(longest, device=self.device) < self.sizes.unsqueeze(1)
        return dense.view(len(self), longest, self.channels), mask

    def with_rows(self, rows: Tensor) -> Self:
        """Give the same sets with other rows, (total, any number of channels)."""
        _check_rows(rows)
        if len(rows) != len(self.rows):
            raise ValueError(f"expected {len(self.rows)} rows, as these sets have, got {len(rows)}")
        if rows.device != self.device:
            raise ValueError(f"expected rows on {self.device}, as these sets are, got {rows.device}; use to() first")
        return self._make(rows, self._layout)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast the rows as `Tensor.to` does; the offsets follow to the device and stay integers."""
        rows = self.rows.to(*args, **kwargs)
        return self._make(rows, self._layout.to(rows.device, kwargs.get("non_blocking", False)))

    @property
    def rows(self) -> Tensor:
        """The members of all sets, (total, channels)."""
        return self._rows

    @property
    def offsets(self) -> Tensor:
        """Where each set begins, and the end of the last, int64, (sets + 1,)."""
        return self._layout.offsets

    @property
    def layout(self) -> Layout:
        """What the layers need to know about the offsets, worked out once for all `with_rows`."""
        return self._layout

    @property
    def sizes(self) -> Tensor:
        """Number of members of each set, int64, (sets,)."""
        return self._layout.sizes

    @property
    def set_index(self) -> Tensor:
        """Number of the set that each row belongs to, int64, (total,)."""
        return self._layout.set_index

    @property
    def channels(self) -> int:
        return self.rows.shape[1]

    @property
    def device(self) -> torch.device:
        return self.rows.device

    @property
    def dtype(self) -> torch.dtype:
        return self.rows.dtype

    def __len__(self) -> int:
        return self._layout.n_sets

    def __getitem__(self, number: int) -> Tensor:
        """Rows of one set, (members, channels), as a view."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no set {number} among {len(self)} sets")
        start, end = self._layout.host[number % len(self) :][:2].tolist()
        return self.rows[start:end]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.rows.split(self._layout.host_sizes) if len(self) else ())

    def __repr__(self) -> str:
        sizes = self._layout.host_sizes or [0]
        return f"PackedSets({len(self)} sets of {min(sizes)} to {max(sizes)} members, {_kind(self.rows)})"


def _checked_layout(rows: Tensor, offsets: Tensor) -> Layout:
    if not isinstance(offsets, Tensor) or offsets.ndim != 1 or len(offsets) == 0:
        raise ValueError(f"expected offsets of shape (sets + 1,), got {_describe(offsets)}")
    if offsets.is_floating_point() or offsets.is_complex() or offsets.dtype == torch.bool:
        raise TypeError(f"expected integer offsets, got {offsets.dtype}")
    if offsets.device != rows.device:
        raise ValueError(f"expected offsets on the device of the rows, {rows.device}, got {offsets.device}")
    if offsets.is_meta:
        raise ValueError("expected offsets with values, got the meta device; make the sets elsewhere and move them")
    offsets = offsets.detach().to(torch.int64, copy=True)
    host = offsets.cpu()
    if host[0] != 0:
        raise ValueError(f"expected offsets that start at 0, got {int(host[0])}")
    falls = (host.diff() < 0).nonzero()
    if len(falls):
        at = int(falls[0])
        raise ValueError(f"expected offsets that never decrease, got {host[at : at + 2].tolist()} for set {at}")
    if host[-1] != len(rows):
        raise ValueError(f"expected offsets that end at the number of rows, {len(rows)}, got {int(host[-1])}")
    return Layout(offsets, host)


def _check_rows(rows: Tensor, name: str = "rows") -> None:
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        raise ValueError(f"expected {name} of shape (members, channels), got {_describe(rows)}")


def _kind(rows: Tensor) -> str:
    return f"{rows.shape[1]} channels, {rows.dtype}, {rows.device}"


def _describe(given: Any) -> str:
    if isinstance(given, Tensor):
        return f"{given.dtype} of shape {tuple(given.shape)}"
    return type(given).__name__
