"""PackedSets: making, checking, converting and taking apart sets of different sizes."""

import copy
import doctest
import pickle

import pytest
import torch

import equiset.nn.layer
import equiset.nn.sets
from equiset import PackedSets, SetLayer, SetNorm

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def some_sets(*sizes: int, channels: int = 3, **kwargs) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, channels, generator=generator).to(**kwargs) for size in sizes]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", [(4,), (2, 5, 1), (0, 3, 0, 0, 2, 0), (0, 0)])
def test_a_list_of_sets_comes_back(sizes, device):
    sets = some_sets(*sizes, device=device)
    packed = PackedSets.from_list(sets)
    assert len(packed) == len(sizes)
    assert packed.sizes.tolist() == list(sizes)
    assert packed.rows.shape == (sum(sizes), 3)
    assert packed.set_index.tolist() == [number for number, size in enumerate(sizes) for _ in range(size)]
    assert packed.offsets.dtype == packed.sizes.dtype == packed.set_index.dtype == torch.int64
    for given, iterated, number in zip(sets, packed, range(len(sets)), strict=True):
        assert torch.equal(given, iterated)
        assert torch.equal(given, packed[number])
        assert torch.equal(given, packed[number - len(sets)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", [(4,), (2, 5, 1), (0, 3, 0, 0, 2, 0), (0, 0)])
def test_dense_and_back(sizes, device):
    packed = PackedSets.from_list(some_sets(*sizes, device=device))
    dense, mask = packed.to_dense(fill=-7.0)
    assert dense.shape == (len(sizes), max(sizes), 3)
    assert mask.shape == dense.shape[:2]
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == list(sizes)
    assert (dense[~mask] == -7).all()
    for number, size in enumerate(sizes):
        assert torch.equal(dense[number, :size], packed[number])
    back = PackedSets.from_dense(dense, mask)
    assert torch.equal(back.rows, packed.rows)
    assert torch.equal(back.offsets, packed.offsets)


def test_a_mask_may_leave_out_any_member():
    dense = torch.arange(12.0).reshape(2, 3, 2)
    packed = PackedSets.from_dense(dense, torch.tensor([[False, True, True], [True, False, False]]))
    assert [rows.tolist() for rows in packed] == [[[2, 3], [4, 5]], [[6, 7]]]


@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 0, 4)])
def test_dense_sets_without_a_mask_are_full(shape):
    dense = torch.randn(shape)
    packed = PackedSets.from_dense(dense)
    assert packed.sizes.tolist() == [shape[1]] * shape[0]
    assert torch.equal(packed.to_dense()[0], dense[:, : shape[1]] if shape[0] else dense[:, :0])


def test_gradients_pass_through_every_conversion():
    sets = [rows.requires_grad_() for rows in some_sets(2, 0, 3)]
    dense, mask = PackedSets.from_list(sets).to_dense()
    packed = PackedSets.from_dense(dense, mask)
    (packed.rows * torch.arange(5.0).unsqueeze(1)).sum().backward()
    assert [rows.grad[:, 0].tolist() for rows in sets] == [[0, 1], [], [2, 3, 4]]


def test_no_sets_at_all():
    packed = PackedSets(torch.empty(0, 3), torch.tensor([0]))
    assert len(packed) == 0
    assert list(packed) == []
    assert packed.sizes.shape == packed.set_index.shape == (0,)
    dense, mask = packed.to_dense()
    assert dense.shape == (0, 0, 3)
    assert mask.shape == (0, 0)
    assert repr(packed) == "PackedSets(0 sets of 0 to 0 members, 3 channels, torch.float32, cpu)"
    with pytest.raises(IndexError, match="no set 0 among 0 sets"):
        packed[0]


ROWS = torch.zeros(5, 2)


@pytest.mark.parametrize(
    ("rows", "offsets", "error", "message"),
    [
        (torch.zeros(5), [0, 5], ValueError, r"rows of shape \(members, channels\), got torch.float32 of shape \(5,\)"),
        ([[1.0]], [0, 1], ValueError, r"rows of shape \(members, channels\), got list"),
        (ROWS, [[0, 5]], ValueError, r"offsets of shape \(sets \+ 1,\), got torch.int64 of shape \(1, 2\)"),
        (ROWS, [], ValueError, r"offsets of shape \(sets \+ 1,\), got torch.float32 of shape \(0,\)"),
        (ROWS, [0.0, 5.0], TypeError, "integer offsets, got torch.float32"),
        (ROWS, [False, True], TypeError, "integer offsets, got torch.bool"),
        (ROWS, [1, 5], ValueError, "start at 0, got 1"),
        (ROWS, [0, 3, 2, 5], ValueError, r"never decrease, got \[3, 2\] for set 1"),
        (ROWS, [0, 3], ValueError, "end at the number of rows, 5, got 3"),
        (ROWS, [0], ValueError, "end at the number of rows, 5, got 0"),
        (ROWS.to("meta"), [0, 5], ValueError, "device of the rows, meta, got cpu"),
    ],
)
def test_wrong_sets_are_refused(rows, offsets, error, message):
    with pytest.raises(error, match=message):
        PackedSets(rows, torch.tensor(offsets))


def test_offsets_must_be_readable():
    with pytest.raises(ValueError, match=r"shape \(sets \+ 1,\), got list"):
        PackedSets(ROWS, [0, 5])
    with pytest.raises(ValueError, match="offsets with values, got the meta device"):
        PackedSets(ROWS.to("meta"), torch.tensor([0, 5], device="meta"))


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (torch.zeros(2, 4), "expected 3 channels, .*, as set 0 has, got 4 channels, .* in set 1"),
        (
            torch.zeros(2, 3, dtype=torch.float64),
            "torch.float32, .*, got .* torch.float64, .* in set 1",
        ),
        (torch.zeros(2, 3, device="meta"), "cpu, as set 0 has, got .* meta in set 1"),
        (torch.zeros(3), r"set 1 of shape \(members, channels\), got torch.float32 of shape \(3,\)"),
    ],
)
def test_a_list_of_unlike_sets_is_refused(odd, message):
    with pytest.raises(ValueError, match=message):
        PackedSets.from_list([torch.zeros(1, 3), odd])


def test_other_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="at least one set"):
        PackedSets.from_list([])
    with pytest.raises(ValueError, match=r"\(batch, members, channels\), got torch.float32 of shape \(5, 2\)"):
        PackedSets.from_dense(ROWS)
    for mask in (torch.ones(2, 3), torch.ones(3, 2, dtype=torch.bool), [[True]]):
        with pytest.raises(ValueError, match=r"bool mask of shape \(2, 3\), got "):
            PackedSets.from_dense(torch.zeros(2, 3, 1), mask)
    packed = PackedSets(ROWS, torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="expected 5 rows, as these sets have, got 4"):
        packed.with_rows(torch.zeros(4, 2))
    with pytest.raises(ValueError, match=r"rows of shape \(members, channels\), got torch.float32 of shape \(5,\)"):
        packed.with_rows(torch.zeros(5))
    with pytest.raises(ValueError, match="rows on cpu, as these sets are, got meta"):
        packed.with_rows(torch.zeros(5, 2, device="meta"))
    for number in (1, -2):
        with pytest.raises(IndexError, match=f"no set {number} among 1 sets"):
            packed[number]


def test_offsets_are_converted_and_copied():
    offsets = torch.tensor([0, 2, 5], dtype=torch.int32)
    packed = PackedSets(ROWS, offsets)
    assert packed.offsets.dtype == torch.int64
    offsets = torch.tensor([0, 2, 5])
    packed = PackedSets(ROWS, offsets)
    offsets.zero_()
    assert packed.sizes.tolist() == [2, 3]


def test_other_rows_share_what_was_worked_out():
    packed = PackedSets.from_list(some_sets(2, 3))
    index = packed.set_index
    other = packed.with_rows(torch.zeros(5, 7))
    assert other.channels == 7
    assert other.set_index is index
    assert other.to(torch.float64).set_index is index


def test_to_casts_the_rows_and_moves_all():
    packed = PackedSets.from_list(some_sets(2, 0, 3))
    double = packed.to(torch.float64)
    assert double.dtype == torch.float64
    assert double.offsets.dtype == torch.int64
    assert torch.equal(double.rows, packed.rows.double())
    meta = packed.to("meta")
    assert meta.device == meta.offsets.device == meta.set_index.device == torch.device("meta")
    assert meta.to_dense()[0].shape == (3, 3, 3)
    assert meta[2].shape == (3, 3)


def test_rows_may_be_integers():
    packed = PackedSets.from_list([torch.tensor([[1], [2]]), torch.tensor([[3]])])
    assert packed.to_dense(fill=-1)[0].tolist() == [[[1], [2]], [[3], [-1]]]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda packed: pickle.loads(pickle.dumps(packed))])
def test_sets_can_be_copied_and_sent(again):
    packed = PackedSets.from_list(some_sets(2, 0, 3))
    other = again(packed)
    assert torch.equal(other.rows, packed.rows)
    assert torch.equal(other.set_index, packed.set_index)


def test_sets_made_or_used_in_inference_mode_can_be_trained_on():
    layer = SetLayer(3, 2, form="mean")
    with torch.inference_mode():
        made = PackedSets.from_list(some_sets(2, 3))
    used = PackedSets.from_list(some_sets(2, 3))
    for packed in (made, used):
        with torch.inference_mode():
            assert packed.sizes.tolist() == [2, 3]
            layer(packed)
            packed.to_dense()
        assert not packed.sizes.is_inference()
        assert not packed.set_index.is_inference()
        packed = packed.with_rows(torch.randn(5, 3, requires_grad=True))
        SetNorm()(layer(packed)).to_dense()[0].square().sum().backward()
        assert packed.rows.grad is not None


@pytest.mark.parametrize("module", [equiset.nn.sets, equiset.nn.layer])
def test_examples_in_the_documentation(module):
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
