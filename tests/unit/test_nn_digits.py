"""Values that lose digits: long sets, and values at the ends of their type."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equiset import PackedSets, SetLayer, SetNorm, SetPool
from equiset.nn.reduce import set_sum, spread

# What sums of 16 at a time may lose, ten levels of them: 16 additions each round by half a digit at most.
ROUNDING = 1e-6


@pytest.mark.parametrize("members", [10**4, 10**6])
def test_the_mean_of_many_is_as_good_as_that_of_a_dense_set(members):
    values = torch.full((members, 1), 0.1)
    packed = SetPool("mean")(PackedSets(values, torch.tensor([0, members]))).item()
    assert packed == pytest.approx(values[0].item(), rel=ROUNDING, abs=0)
    assert packed == pytest.approx(SetPool("mean")(values.unsqueeze(0)).item(), rel=ROUNDING, abs=0)


def test_the_mean_of_twenty_million_ones_is_one():
    """From 2**24 on, a float32 does not change when 1 is added."""
    ones = torch.ones(1, 1).expand(2 * 10**7, 1)
    assert SetPool("mean")(PackedSets(ones, torch.tensor([0, len(ones)]))).item() == 1


@given(
    power=st.floats(0, 6),
    places=st.lists(st.floats(0, 1), max_size=4),
    channels=st.integers(1, 3),
    seed=st.integers(0, 10**6),
)
@settings(derandomize=True, deadline=None, max_examples=12)
def test_sums_of_any_size_are_exact_to_rounding(power, places, channels, seed):
    """Sets of up to a million members, cut anywhere: forward, and the backward of a spread, which is a sum as well."""
    total = int(10**power)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(total, channels, generator=generator) + 0.1
    cuts = sorted(int(place * total) for place in places)
    packed = PackedSets(rows, torch.tensor([0, *cuts, total]))
    exact = torch.stack([part.double().sum(0) for part in packed])
    torch.testing.assert_close(set_sum(rows, packed.layout).double(), exact, rtol=ROUNDING, atol=0)
    per_set = torch.zeros(len(packed), channels, requires_grad=True)
    spread(per_set, packed.layout).backward(rows)
    torch.testing.assert_close(per_set.grad.double(), exact, rtol=ROUNDING, atol=0)


def test_ten_million_members():
    """A sum, what a layer adds to each member, and the shares of tied maxima, in values and gradients."""
    members = 10**7
    rows = torch.full((members, 1), 0.1, requires_grad=True)
    packed = PackedSets(rows, torch.tensor([0, 3, members]))
    sums = SetPool("sum")(packed)
    exact = torch.tensor([[3], [members - 3]]).double() * rows[0].double()
    torch.testing.assert_close(sums.double(), exact, rtol=ROUNDING, atol=0)
    SetPool("max")(packed).sum().backward()
    shares = torch.cat([torch.full((3, 1), 1 / 3), torch.full((members - 3, 1), 1 / (members - 3))])
    torch.testing.assert_close(rows.grad, shares, rtol=ROUNDING, atol=0)
    per_set = torch.zeros(2, 1, requires_grad=True)
    spread(per_set, packed.layout).backward(rows.detach())
    torch.testing.assert_close(per_set.grad.double(), exact, rtol=ROUNDING, atol=0)


def test_a_layer_treats_long_packed_sets_as_dense_ones():
    torch.manual_seed(0)
    x = torch.rand(1, 10**5, 2) + 1
    for form in ("mean", "sum", "mean-norm"):
        layer = SetLayer(2, 2, form)
        outputs = [layer(x)[0], layer(PackedSets.from_dense(x)).rows]
        dense, packed = (torch.autograd.grad(output.square().mean(), layer.weight)[0] for output in outputs)
        scale = outputs[0].abs().max().item()
        torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=2e-6 * scale)
        torch.testing.assert_close(packed, dense, rtol=1e-5, atol=1e-5 * dense.abs().max().item())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [2**-80, 2**-65, 2**-60, 1 / 3, 1.0])
def test_every_finite_set_can_be_normalised(share, dtype, packed):
    """A set whose values reach a share of what the type holds; beside it a set of usual size."""
    x = torch.tensor([[1.0, -1.0], [0.5, 0.25], [-1.0, 0.0]], dtype=dtype)
    both = torch.stack([x * share * torch.finfo(dtype).max, x]).requires_grad_()
    assert both.isfinite().all()
    output = SetNorm()(PackedSets.from_dense(both) if packed else both)
    large, usual = output.rows.view(2, 3, 2) if packed else output
    torch.testing.assert_close(large, usual)
    torch.testing.assert_close(usual.square().mean().item(), 1.0)
    (large * torch.arange(6.0).view(3, 2)).sum().backward()
    assert both.grad.isfinite().all()


def test_a_large_set_without_spread_is_normalised_to_zero():
    for value in (1e19, 3e38):
        x = torch.full((1, 4, 2), value, requires_grad=True)
        output = SetNorm()(x)
        assert (output == 0).all()
        output.sum().backward()
        assert x.grad.isfinite().all()


def test_sets_of_usual_size_are_normalised_as_before():
    """To the last bit: results that took days hang on it."""
    torch.manual_seed(0)
    x = torch.randn(4, 50, 3) * torch.tensor([1e-9, 1e-3, 1.0, 1e4]).view(4, 1, 1)
    moved = x - x.amax(1, keepdim=True)
    centred = moved - moved.mean(1, keepdim=True)
    scale = centred.square().mean(1, keepdim=True).mean(2, keepdim=True).clamp(min=1e-6**2).rsqrt()
    assert torch.equal(SetNorm()(x), centred * scale)
