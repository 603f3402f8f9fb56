"""Which members decide: `SetEncoder.winners` against a search by hand, and what the winners alone give."""

import pytest
import torch

from equiset import PackedSets, SetEncoder

FORMS = ("sum", "mean", "max", "mean-norm", "max-norm")


def sets_of(*sizes: int, channels: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(sizes))
    return [torch.randn(size, channels, generator=generator, dtype=torch.float64) for size in sizes]


def by_hand(encoder: SetEncoder, members: torch.Tensor) -> list[int]:
    """Compare every member with every other, channel by channel."""
    x = members.unsqueeze(0)
    for layer in encoder.layers[:-1]:
        x = layer(x)
    z = encoder.layers[-1].before_activation(x)[0]
    return [int(sum(all(z[i, c] >= z[j, c] for j in range(len(z))) for c in range(z.shape[1]))) for i in range(len(z))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("activation", ["tanh", "relu", None])
def test_winners_are_those_that_a_search_finds(form, activation):
    encoder = SetEncoder([3, 7, 5], form, activation, dtype=torch.float64)
    sets = sets_of(6, 1, 9)
    expected = [by_hand(encoder, members) for members in sets]
    packed = encoder.winners(PackedSets.from_list(sets))
    assert packed.rows.dtype == torch.int64
    assert [counts.squeeze(1).tolist() for counts in packed] == expected
    for members, counts in zip(sets, expected, strict=True):
        assert encoder.winners(members.unsqueeze(0)).tolist() == [counts]


def test_members_that_share_a_maximum_all_win():
    encoder = SetEncoder([3, 7, 5])
    (members,) = sets_of(4)
    twice = torch.cat([members, members]).float().unsqueeze(0)
    counts = encoder.winners(twice)[0]
    assert counts[:4].tolist() == counts[4:].tolist()
    assert counts.sum() == 2 * 5


@pytest.mark.parametrize("form", ["max", "max-norm"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_those_that_win_in_any_layer_alone_give_the_same_output(form, activation):
    torch.manual_seed(0)
    encoder = SetEncoder([3, 6, 6, 4], form, activation, dtype=torch.float64)
    sets = sets_of(300, 200)
    packed = PackedSets.from_list(sets)
    counts = encoder.winners(packed, every_layer=True)
    few = [members[won.squeeze(1) > 0] for members, won in zip(sets, counts, strict=True)]
    assert all(0 < len(one) < len(whole) / 2 for one, whole in zip(few, sets, strict=True))
    torch.testing.assert_close(encoder(PackedSets.from_list(few)), encoder(packed), rtol=0, atol=1e-12)


def test_without_every_layer_the_winners_alone_may_give_another_output():
    torch.manual_seed(0)
    encoder = SetEncoder([3, 6, 6, 4], dtype=torch.float64)
    (members,) = sets_of(300)
    counts = encoder.winners(members.unsqueeze(0))[0]
    assert not torch.allclose(encoder(members[counts > 0].unsqueeze(0)), encoder(members.unsqueeze(0)))


def test_other_poolings_have_no_winners():
    with pytest.raises(ValueError, match="pools by the maximum, got 'mean'"):
        SetEncoder([3, 4], pool="mean").winners(torch.zeros(1, 2, 3))


def test_sets_padded_by_nan_are_packed():
    sets = sets_of(3, 0, 2, channels=2)
    padded = torch.full((3, 4, 2), torch.nan, dtype=torch.float64)
    padded[0, :3], padded[2, 1:3] = sets[0], sets[2]  # gaps may be anywhere
    packed = PackedSets.from_nan_padded(padded)
    assert packed.sizes.tolist() == [3, 0, 2]
    assert torch.equal(packed.rows, torch.cat(sets))
    padded[2, 1, 0] = torch.nan
    with pytest.raises(ValueError, match="set 2, member 1"):
        PackedSets.from_nan_padded(padded)
    with pytest.raises(ValueError, match="expected floating-point values"):
        PackedSets.from_nan_padded(torch.zeros(2, 3, 4, dtype=torch.int64))
