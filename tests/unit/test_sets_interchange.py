"""PackedSets from and to other people's forms, and what a training loop does with a batch."""

import copy
import io
import pickle
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

import equiset.nn.sequential
from equiset import PackedSets, SetDropout, SetLayer, SetPool, SetSequential, collate

SIZES = [(4,), (2, 5, 1), (0, 3, 0, 0, 2, 0), (0, 0)]


def some_sets(*sizes: int, channels: int = 3) -> PackedSets:
    generator = torch.Generator().manual_seed(0)
    return PackedSets.from_list([torch.randn(size, channels, generator=generator) for size in sizes])


def same(one: PackedSets, other: PackedSets) -> bool:
    return torch.equal(one.rows, other.rows) and torch.equal(one.offsets, other.offsets)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_batch_index_and_back(sizes):
    packed = some_sets(*sizes)
    assert same(PackedSets.from_batch_index(packed.rows, packed.set_index, len(sizes)), packed)
    assert same(PackedSets.from_batch_index(packed.rows, packed.set_index.int(), len(sizes)), packed)
    if sizes[-1]:
        assert same(PackedSets.from_batch_index(packed.rows, packed.set_index), packed)


@pytest.mark.parametrize(
    ("batch", "n_sets", "error", "message"),
    [
        ([0, 0, 1, 0], None, ValueError, r"never decrease; sort first: order = batch.argsort\(stable=True\)"),
        ([0, 0, 1, 2], 2, ValueError, "from 0 to 1, got 0 to 2"),
        ([-1, 0, 1, 2], None, ValueError, "from 0, got -1 to 2"),
        ([0, 0, 1], None, ValueError, r"each of 4 rows, got torch.int64 of shape \(3,\)"),
        ([0.0, 0.0, 1.0, 1.0], None, TypeError, "integer numbers of sets, got torch.float32"),
    ],
)
def test_wrong_batch_indices_are_refused(batch, n_sets, error, message):
    with pytest.raises(error, match=message):
        PackedSets.from_batch_index(torch.zeros(4, 2), torch.tensor(batch), n_sets)


def test_torchs_mask_is_true_where_there_is_no_member():
    packed = some_sets(2, 0, 3)
    dense, mask = packed.to_dense()
    assert same(PackedSets.from_padded(dense, key_padding_mask=~mask), packed)
    assert PackedSets.from_padded(dense).sizes.tolist() == [3, 3, 3]
    with pytest.raises(ValueError, match=r"True where there is no member, got torch\.float32"):
        PackedSets.from_padded(dense, mask.float())
    # Attention ignores what the mask marks; the packed sets are what it looks at.
    attention = nn.MultiheadAttention(3, 1, batch_first=True)
    seen, _ = attention(dense[:1], dense[:1], dense[:1], key_padding_mask=~mask[:1])
    alone = packed[0].unsqueeze(0)
    torch.testing.assert_close(seen[:, :2], attention(alone, alone, alone)[0])


@pytest.mark.parametrize("sizes", [(4,), (2, 5, 1), (0, 3, 0, 2, 0)])
def test_nested_tensors_and_back(sizes):
    packed = some_sets(*sizes)
    nested = packed.to_nested()
    assert nested.is_nested
    assert [part.tolist() for part in nested.unbind()] == [rows.tolist() for rows in packed]
    assert same(PackedSets.from_nested(nested), packed)
    torch.testing.assert_close(PackedSets.from_nested(nn.Linear(3, 2)(nested)).channels, 2)


def test_gradients_pass_through_nested_tensors():
    packed = some_sets(2, 3)
    packed.rows.requires_grad_()
    SetPool("sum")(PackedSets.from_nested(packed.to_nested() * 2)).sum().backward()
    assert (packed.rows.grad == 2).all()


def test_other_nested_tensors():
    """Jagged ones with gaps go set by set; those whose members do not differ in number are refused."""
    base = torch.arange(24.0).view(2, 4, 3)
    gaps = torch.nested.narrow(base, 1, torch.tensor([1, 0]), torch.tensor([2, 4]), layout=torch.jagged)
    assert [rows.tolist() for rows in PackedSets.from_nested(gaps)] == [base[0, 1:3].tolist(), base[1].tolist()]
    with pytest.raises(ValueError, match=r"nested tensor \(sets, members, channels\), got torch.float32 of shape"):
        PackedSets.from_nested(base)
    with pytest.raises(ValueError, match="nested tensor"):
        PackedSets.from_nested([base])


def test_map_and_sum():
    packed = some_sets(2, 0, 3)
    norm = nn.LayerNorm(3)
    assert torch.equal(packed.map(norm).rows, norm(packed.rows))
    residual = packed + packed.map(nn.functional.elu)
    assert torch.equal(residual.rows, packed.rows + nn.functional.elu(packed.rows))
    assert residual.set_index is packed.set_index
    assert torch.equal((packed + some_sets(2, 0, 3)).rows, 2 * packed.rows)
    with pytest.raises(ValueError, match=r"same sets on both sides of \+, got PackedSets\(3 sets .* and PackedSets\(2"):
        packed + some_sets(2, 3)
    with pytest.raises(TypeError):
        packed + 1
    with pytest.raises(ValueError, match="expected 5 rows, as these sets have, got 1"):
        packed.map(lambda rows: rows.sum(0, keepdim=True))


@pytest.mark.parametrize("part", [slice(1, 3), slice(None), slice(-2, None), slice(3, 1), slice(None, None, 2)])
@pytest.mark.parametrize("sizes", [(2, 5, 1, 4), (0, 3, 0, 2), (0, 0)])
def test_slices_are_sets(sizes, part):
    packed = some_sets(*sizes)
    some = packed[part]
    assert [rows.tolist() for rows in some] == [rows.tolist() for rows in list(packed)[part]]
    assert some.sizes.tolist() == list(sizes[part])
    assert some.channels == 3
    if part.step is None and len(some.rows):
        assert some.rows.untyped_storage().data_ptr() == packed.rows.untyped_storage().data_ptr()


def test_a_batch_can_be_pinned_and_recorded(monkeypatch):
    """Without a GPU, that every tensor is asked."""
    packed, asked = some_sets(2, 3), []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: asked.append(tensor) or tensor)
    assert same(packed.pin_memory(), packed)
    assert [tensor is kept for tensor, kept in zip(asked, (packed.rows, packed.offsets), strict=True)] == [True, True]
    record = Mock()
    monkeypatch.setattr(torch.Tensor, "record_stream", record)
    packed.record_stream("stream")
    assert record.call_count == 2


def test_sets_are_a_pytree():
    packed = some_sets(2, 3)
    leaves, spec = pytree.tree_flatten({"sets": packed})
    assert [leaf.shape for leaf in leaves] == [(5, 3), (2,)]
    back = pytree.tree_unflatten(leaves, spec)["sets"]
    assert same(back, packed)
    assert back.sizes.tolist() == [2, 3]
    assert back[1].shape == (3, 3)
    moved = pytree.tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, packed)
    assert torch.equal(SetPool("mean")(moved), SetPool("mean")(packed.to(torch.float64)))


def test_sets_are_loaded_as_weights_are():
    packed, file = some_sets(2, 0, 3), io.BytesIO()
    torch.save({"batch": packed}, file)
    file.seek(0)
    assert same(torch.load(file, weights_only=True)["batch"], packed)
    meta = packed.to("meta")
    assert copy.deepcopy(meta).sizes.shape == (3,)
    restore, (rows, host) = packed.__reduce__()
    with pytest.raises(ValueError, match="end at the number of rows, 4, got 5"):
        restore(rows[:4], host)
    assert same(pickle.loads(pickle.dumps(packed[1:])), packed[1:])


class Samples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, number: int) -> dict:
        return {"members": (torch.full((number, 3), float(number)), torch.zeros(number, 1)), "label": number}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_makes_packed_sets(workers):
    batches = list(DataLoader(Samples(), batch_size=3, collate_fn=collate, num_workers=workers))
    assert [batch["label"].tolist() for batch in batches] == [[0, 1, 2], [3, 4]]
    for batch in batches:
        members, targets = batch["members"]
        assert members.sizes.tolist() == targets.sizes.tolist() == batch["label"].tolist()
        assert torch.equal(members.rows[:, 0].long(), batch["label"].repeat_interleave(members.sizes))


def test_a_sequence_is_the_same_on_both_forms():
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ELU())
    for tail in ([], [SetPool("mean"), nn.LayerNorm(8), nn.Linear(8, 2)]):
        network = SetSequential(SetLayer(3, 8), nn.ELU(), nn.Dropout(0.5), block, SetSequential(SetDropout(0.5)), *tail)
        x = torch.randn(4, 5, 3)
        torch.manual_seed(1)
        dense = network(x)
        torch.manual_seed(1)
        packed = network(PackedSets.from_dense(x))
        if tail:
            torch.testing.assert_close(packed, dense)
        else:
            torch.testing.assert_close(packed.rows, dense.flatten(0, 1))
            # What acts on single members is what torch's own container makes of the rows.
            row = SetSequential(nn.Linear(3, 4), nn.ELU())
            torch.testing.assert_close(row(x), nn.Sequential(*row)(x))


def test_examples_in_the_documentation():
    import doctest

    assert doctest.testmod(equiset.nn.sequential) == (0, 6)


def test_nested_tensors_are_refused_by_layers():
    with pytest.raises(TypeError, match=r"got a nested tensor; use PackedSets\.from_nested"):
        SetLayer(3, 2)(some_sets(2, 3).to_nested())
