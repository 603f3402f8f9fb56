"""Sets of different sizes, stored as the rows of all sets one after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

import torch
from torch import Tensor

# The documentation of torch.export names this module, and there is no public one for classes that are no dataclasses.
from torch.utils._pytree import GetAttrKey, register_pytree_node
from torch.utils.data import default_collate

from equiset.nn.layout import Layout


class PackedSets:
    """A batch of sets of different sizes: row `j` of set `i` is `rows[offsets[i] + j]`.

    Empty sets are allowed, and so is a batch of no sets. The offsets are checked when the sets are made; `with_rows`
    and `to` keep them and check nothing that would make a GPU wait. Where torch.compile or torch.export traces, offsets
    have no values yet, and are taken as they are.

    Sets can be pickled, sent to other processes and saved; ``torch.load(..., weights_only=True)`` takes them once
    `equiset.PackedSets` has been imported. They are a pytree of rows and sizes. Arithmetic is that of `rows`, by
    `map`; only ``+`` of the same sets, as residual connections need it, is there in short.

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
        return cls._make(torch.cat(list(sets)), Layout.of_sizes([len(rows) for rows in sets], sets[0].device))

    @classmethod
    def from_dense(cls, dense: Tensor, mask: Tensor | None = None) -> Self:
        """Pack (batch, members, channels); where `mask` (batch, members) is False there is no member."""
        if not isinstance(dense, Tensor) or dense.ndim != 3:
            raise ValueError(f"expected a dense tensor (batch, members, channels), got {_describe(dense)}")
        batch, members, _ = dense.shape
        if mask is None:
            return cls._make(dense.flatten(0, 1), Layout.of_sizes([members] * batch, dense.device))
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (batch, members):
            raise ValueError(f"expected a bool mask of shape {(batch, members)}, got {_describe(mask)}")
        offsets = torch.cat([mask.new_zeros(1, dtype=torch.int64), mask.sum(1).cumsum(0)])
        return cls._make(dense[mask], Layout(offsets, offsets.cpu()))

    @classmethod
    def from_padded(cls, padded: Tensor, key_padding_mask: Tensor | None = None) -> Self:
        """Pack (batch, members, channels) with the mask of `torch.nn.MultiheadAttention`: True means *no* member.

        It is the other way round than the mask of `from_dense` and `to_dense`; ``~mask`` makes one of the other.
        """
        if key_padding_mask is not None and getattr(key_padding_mask, "dtype", None) != torch.bool:
            raise ValueError(f"expected a bool mask, True where there is no member, got {_describe(key_padding_mask)}")
        return cls.from_dense(padded, None if key_padding_mask is None else ~key_padding_mask)

    @classmethod
    def from_nan_padded(cls, padded: Tensor) -> Self:
        """Pack (batch, members, channels) in which members that are not there are NaN, in all channels.

        That is how programs for simulation-based inference pad trials. A member that is NaN in some channels only is
        refused: it would make its whole set NaN.
        """
        if not isinstance(padded, Tensor) or padded.ndim != 3 or not padded.is_floating_point():
            raise ValueError(f"expected floating-point values (batch, members, channels), got {_describe(padded)}")
        absent = padded.isnan()
        some = absent.any(2) & ~absent.all(2)
        if some.any():
            at, member = some.nonzero()[0].tolist()
            raise ValueError(f"expected members that are NaN in all channels or in none, got set {at}, member {member}")
        return cls.from_dense(padded, ~absent.all(2))

    @classmethod
    def from_batch_index(cls, rows: Tensor, batch: Tensor, n_sets: int | None = None) -> Self:
        """Pack rows by the number of the set that each belongs to, as graph libraries do; `set_index` is the way back.

        Args:
            rows: the members of all sets, (total, channels).
            batch: integers that never decrease, (total,), on the device of `rows`.
            n_sets: how many sets there are; None if the last has a member.
        """
        _check_rows(rows)
        if not isinstance(batch, Tensor) or batch.shape != rows.shape[:1]:
            raise ValueError(f"expected one number for each of {rows.shape[0]} rows, got {_describe(batch)}")
        _check_integers(batch, "numbers of sets", rows)
        host = batch.detach().to("cpu", torch.int64)
        if (host.diff() < 0).any():
            raise ValueError(
                "expected numbers of sets that never decrease; sort first: order = batch.argsort(stable=True), "
                "then rows[order], batch[order]"
            )
        least, most = (int(host[0]), int(host[-1])) if len(host) else (0, -1)
        if least < 0 or (n_sets is not None and most >= n_sets):
            limit = "" if n_sets is None else f" to {n_sets - 1}"
            raise ValueError(f"expected numbers of sets from 0{limit}, got {least} to {most}")
        sizes = torch.bincount(host, minlength=n_sets or 0)
        return cls._make(rows, Layout.of_sizes(sizes.tolist(), rows.device))

    @classmethod
    def from_nested(cls, nested: Tensor) -> Self:
        """Pack a nested tensor (sets, members, channels) whose members differ in number."""
        if not isinstance(nested, Tensor) or not nested.is_nested or nested.dim() != 3:
            raise ValueError(f"expected a nested tensor (sets, members, channels), got {_describe(nested)}")
        if nested.layout == torch.jagged and nested.lengths() is None and not isinstance(nested.shape[1], int):  # type: ignore[attr-defined]
            return cls(nested.values(), nested.offsets())
        return cls.from_list(nested.unbind())

    def to_nested(self) -> Tensor:
        """Give a nested tensor of layout `torch.jagged`, (sets, members, channels), that shares the rows."""
        sizes = self._layout.host_sizes or [0]
        return torch.nested.nested_tensor_from_jagged(
            self.rows, self.offsets, min_seqlen=min(sizes), max_seqlen=max(sizes)
        )

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
        if rows.shape[0] != self.rows.shape[0]:
            raise ValueError(f"expected {self.rows.shape[0]} rows, as these sets have, got {rows.shape[0]}")
        if rows.device != self.device:
            raise ValueError(f"expected rows on {self.device}, as these sets are, got {rows.device}; use to() first")
        return self._make(rows, self._layout)

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Give the same sets with ``function(rows)``, such as `torch.nn.LayerNorm`: it sees each member on its own."""
        return self.with_rows(function(self.rows))

    def __add__(self, other: "PackedSets") -> Self:
        if not isinstance(other, PackedSets):
            return NotImplemented
        known = self._layout is not other._layout and not torch.compiler.is_compiling()
        if known and not torch.equal(self._layout.host, other._layout.host):
            raise ValueError(f"expected the same sets on both sides of +, got {self} and {other}")
        return self.with_rows(self.rows + other.rows)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast the rows as `Tensor.to` does; the offsets follow to the device and stay integers."""
        rows = self.rows.to(*args, **kwargs)
        return self._make(rows, self._layout.to(rows.device, kwargs.get("non_blocking", False)))

    def pin_memory(self) -> Self:
        """Give the same sets in memory that a GPU can copy from while the program goes on."""
        return self._make(self.rows.pin_memory(), Layout(self.offsets.pin_memory(), self._layout.host))

    def record_stream(self, stream: Any) -> None:
        """Keep the memory until `stream` is done with it, as `Tensor.record_stream` does."""
        for tensor in (self.rows, self.offsets):
            tensor.record_stream(stream)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.rows, self._layout.host)

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
        if torch.compiler.is_compiling():
            return self._layout.traced(self._rows.shape[0])
        return self._layout

    @property
    def sizes(self) -> Tensor:
        """Number of members of each set, int64, (sets,)."""
        return self.layout.sizes

    @property
    def set_index(self) -> Tensor:
        """Number of the set that each row belongs to, int64, (total,)."""
        return self.layout.set_index

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

    @overload
    def __getitem__(self, number: int) -> Tensor: ...
    @overload
    def __getitem__(self, number: slice) -> Self: ...
    def __getitem__(self, number: int | slice) -> "Tensor | PackedSets":
        """Rows of one set, (members, channels), as a view; or some of the sets, as a view if they follow each other."""
        host = self._layout.host
        if not isinstance(number, slice):
            if not -len(self) <= number < len(self):
                raise IndexError(f"there is no set {number} among {len(self)} sets")
            start, end = host[number % len(self) :][:2].tolist()
            return self.rows[start:end]
        numbers = range(*number.indices(len(self)))
        if numbers and numbers.step == 1:
            rows = self.rows[host[numbers[0]] : host[numbers[-1] + 1]]
        else:
            rows = torch.cat([self.rows[:0], *(self[each] for each in numbers)])
        return self._make(rows, Layout.of_sizes(self._layout.host_sizes[number], self.device))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.rows.split(self._layout.host_sizes) if len(self) else ())

    def __repr__(self) -> str:
        sizes = self._layout.host_sizes or [0]
        return f"PackedSets({len(self)} sets of {min(sizes)} to {max(sizes)} members, {_kind(self.rows)})"


def collate(samples: Sequence[Any]) -> Any:
    """Make a batch of samples: what `torch.utils.data.DataLoader` takes as ``collate_fn`` for sets of different sizes.

    A tensor of two dimensions is a set, (members, channels), and becomes part of `PackedSets`: the members, and what is
    known of each of them. Tuples, lists and mappings are gone through; all else is left to torch's `default_collate`.

    >>> import torch
    >>> sets, labels = collate([(torch.zeros(2, 3), 0), (torch.ones(4, 3), 1)])
    >>> sets, labels
    (PackedSets(2 sets of 2 to 4 members, 3 channels, torch.float32, cpu), tensor([0, 1]))
    """
    first = samples[0]
    if isinstance(first, Tensor) and first.ndim == 2:
        return PackedSets.from_list(samples)
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        return tuple(collate(column) for column in zip(*samples, strict=True))
    return default_collate(samples)  # type: ignore[arg-type]


def _restore(rows: Tensor, host: Tensor) -> PackedSets:
    host = _checked(host.cpu(), len(rows))
    return PackedSets._make(rows, Layout(host.to(rows.device), host))


def _unflatten(leaves: Sequence[Any], _: None) -> PackedSets:
    rows, sizes = leaves
    if isinstance(sizes, Tensor) and sizes.ndim != 1:
        raise ValueError("PackedSets cannot be the output or the mapped input of vmap: pass and return their rows")
    return PackedSets._make(rows, Layout.of_tensor(sizes))


torch.serialization.add_safe_globals([_restore])
register_pytree_node(
    PackedSets,
    lambda sets: ([sets.rows, sets.sizes], None),
    _unflatten,  # type: ignore[arg-type]
    serialized_type_name="equiset.PackedSets",
    flatten_with_keys_fn=lambda sets: (
        [(GetAttrKey("rows"), sets.rows), (GetAttrKey("sizes"), sets.sizes)],
        None,
    ),
)


def _checked_layout(rows: Tensor, offsets: Tensor) -> Layout:
    if not isinstance(offsets, Tensor) or offsets.ndim != 1 or offsets.shape[0] == 0:
        raise ValueError(f"expected offsets of shape (sets + 1,), got {_describe(offsets)}")
    _check_integers(offsets, "offsets", rows)
    if torch.compiler.is_compiling():
        return Layout(offsets.to(torch.int64))
    if offsets.is_meta:
        raise ValueError("expected offsets with values, got the meta device; make the sets elsewhere and move them")
    offsets = offsets.detach().to(torch.int64, copy=True)
    return Layout(offsets, _checked(offsets.cpu(), len(rows)))


def _checked(host: Tensor, n_rows: int) -> Tensor:
    if host[0] != 0:
        raise ValueError(f"expected offsets that start at 0, got {int(host[0])}")
    falls = (host.diff() < 0).nonzero()
    if len(falls):
        at = int(falls[0])
        raise ValueError(f"expected offsets that never decrease, got {host[at : at + 2].tolist()} for set {at}")
    if host[-1] != n_rows:
        raise ValueError(f"expected offsets that end at the number of rows, {n_rows}, got {int(host[-1])}")
    return host


def _check_integers(numbers: Tensor, name: str, rows: Tensor) -> None:
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"expected integer {name}, got {numbers.dtype}")
    if numbers.device != rows.device:
        raise ValueError(f"expected {name} on the device of the rows, {rows.device}, got {numbers.device}")


def _check_rows(rows: Tensor, name: str = "rows") -> None:
    if not isinstance(rows, Tensor) or rows.ndim != 2:
        raise ValueError(f"expected {name} of shape (members, channels), got {_describe(rows)}")


def _kind(rows: Tensor) -> str:
    return f"{rows.shape[1]} channels, {rows.dtype}, {rows.device}"


def _describe(given: Any) -> str:
    if isinstance(given, Tensor):
        return f"{given.dtype} of shape {tuple(given.shape)}"
    return type(given).__name__
