"""The encoder follows the winners alone, and gives what all members together would give."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import grad, gradcheck

from equiset import PackedSets, SetEncoder, SetLayer
from equiset.nn import winning_rows as module

from .encoder_fuzz import TOLERANCES, check
from .encoders import CLOSE, DEVICES, FAST, FORMS, assert_same, build, pack, randn, way

some = settings(derandomize=True, deadline=None, max_examples=40)


@st.composite
def cases(draw):
    """Sizes of sets, members of which some are given more than once, and bytes of a chunk.

    Half of the time the members come from a grid, so that different members have the same largest coordinate.
    """
    dense = draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6))
    sizes = [sizes[0]] * len(sizes) if dense else sizes
    torch.manual_seed(draw(st.integers(0, 10**6)))
    grid = torch.cartesian_prod(*[torch.arange(-1.0, 2)] * 3).double()[torch.randperm(27)]
    rows = grid if draw(st.booleans()) else torch.randn(27, 3, dtype=torch.float64)
    # Identical members share their gradient as the rounding of products lets them tie; as a leaf they get all of it.
    chosen = torch.randint(draw(st.integers(1, 27)), (sum(sizes),))
    widths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    activation = draw(st.sampled_from(["tanh", "tanh", "relu", None]))
    dropout, form = draw(st.sampled_from([0.0, 0.3, 0.9])), draw(st.sampled_from(FORMS))
    options = {"activation": activation, "dropout": dropout, "form": form}
    return dense, sizes, rows, chosen, widths, options, draw(st.sampled_from([1, 500, 2**20]))


@given(case=cases())
@some
def test_it_equals_the_plain_form_with_repeated_members(case):
    dense, sizes, rows, chosen, widths, options, chunk_bytes = case

    def sets_of(leaf: Tensor) -> Tensor | PackedSets:
        members = leaf[chosen]
        return members.view(len(sizes), -1, 3) if dense else pack(members, sizes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_BYTES", {"cpu": chunk_bytes})
        assert_same(build(3, *widths, **options), rows, sets_of)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("activation", "depth"), [("relu", 1), ("relu", 3), (None, 1), (None, 3), ("tanh", 1)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("device", DEVICES)
def test_ties_at_every_level_share_evenly(device, form, activation, depth, packed):
    """Small whole numbers and quarters make all products exact, so that what ties does so whoever multiplies.

    With tanh the second layer of products would not be exact.
    """
    for seed in range(5):
        encoder = build(3, *[16] * depth, form=form, activation=activation, seed=seed).to(device)
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.copy_(torch.randint(-2, 3, parameter.shape) / 4)
        x = torch.randint(-1, 2, (6, 12, 3), generator=torch.Generator().manual_seed(seed)).double().to(device)
        leaf = x.flatten(0, 1)
        assert_same(encoder, leaf, lambda rows: pack(rows, [1, 11, 30, 2, 28]) if packed else rows.view(6, 12, 3))


def test_identical_members_share_evenly():
    encoder, member = build(3, 16, 16), randn(1, 1, 3)
    x = member.expand(2, 8, 3).clone().requires_grad_()
    (gradient,) = grad(encoder(x).sum(), x)
    # All members win everything, so that every x - max x is zero and stays so.
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), **CLOSE)
    x = torch.cat([x.detach() - 10, x.detach()], 1).requires_grad_()
    (gradient,) = grad(encoder(x).sum(), x)
    assert gradient.abs().max() > 1e-3
    torch.testing.assert_close(gradient[:, 8:], gradient[:, 8:9].expand(2, 8, 3), **CLOSE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("activation", ["tanh", None])
def test_gradcheck(activation, form):
    encoder = build(3, 5, 4, activation=activation, form=form)
    parameters = [parameter.detach().clone().requires_grad_() for parameter in encoder.parameters()]
    names = [name for name, _ in encoder.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(encoder, dict(zip(names, values, strict=True)), (x,))

    x = randn(2, 6, 3).requires_grad_()
    assert way(call(x, *parameters)) == FAST
    assert gradcheck(call, (x, *parameters))
    rows = randn(9, 3).requires_grad_()
    assert gradcheck(lambda rows, *values: call(pack(rows, [2, 6, 1]), *values), (rows, *parameters))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_without_gradient_it_gives_the_same(form, packed):
    encoder, x = build(3, 20, 20, form=form), randn(4, 30, 3)
    sets = PackedSets.from_list([x[0], x[1, :7], *x[2:]]) if packed else x
    with torch.no_grad():
        fast, plain = encoder(sets), encoder.plain(sets)
    torch.testing.assert_close(fast, plain, **CLOSE)
    assert torch.equal(fast, encoder(sets))
    with torch.inference_mode():
        assert torch.equal(fast, encoder(sets))
    assert not encoder.requires_grad_(False)(sets).requires_grad


def test_a_small_slope_beside_a_large_maximum():
    """What is left of a small number after a large one was subtracted may be nothing; its slope is still one."""
    encoder = SetEncoder([1, 1, 1], activation="relu", bias=False)
    with torch.no_grad():
        encoder.layers[0].weight.fill_(-1)
        encoder.layers[1].weight.fill_(-1)
    assert_same(encoder, torch.tensor([[[0.0], [-1e-12], [-1.0]]]), lambda leaf: leaf)


@pytest.mark.parametrize("packed", [False, True])
def test_a_layer_may_have_no_bias(packed):
    encoder = SetEncoder([3, 5, 4], bias=False, dtype=torch.float64)
    assert len(list(encoder.parameters())) == 2
    encoder.layers.append(SetLayer(4, 4, activation="tanh", dtype=torch.float64))
    x = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    sets = PackedSets.from_dense(x) if packed else x
    inputs = [x, *encoder.parameters()]
    for short, plain in zip(
        torch.autograd.grad(encoder(sets).square().sum(), inputs),
        torch.autograd.grad(encoder.plain(sets).square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(short, plain)


@pytest.mark.parametrize("frozen", [[], [0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("input_too", [False, True])
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen, form, input_too):
    encoder, x = build(3, 8, 7, 5, form=form), randn(3, 20, 3).requires_grad_(input_too)
    reference = copy.deepcopy(encoder)
    for number in frozen:
        encoder.layers[number].requires_grad_(False)
    encoder.layers[2].weight.requires_grad_(False)
    if len(frozen) == 3 and not input_too:
        return
    encoder(x).square().sum().backward()
    gradient, x.grad = x.grad, None
    reference.plain(x).square().sum().backward()
    for mine, theirs in zip(encoder.parameters(), reference.parameters(), strict=True):
        assert (mine.grad is None) == (not mine.requires_grad)
        if mine.requires_grad:
            torch.testing.assert_close(mine.grad, theirs.grad, **CLOSE)
    assert (gradient is None) == (not input_too)
    if input_too:
        torch.testing.assert_close(gradient, x.grad, **CLOSE)


def test_input_that_is_not_contiguous():
    assert_same(build(3, 8, 5), randn(3, 20, 4), lambda leaf: leaf.transpose(0, 2)[:3].permute(2, 1, 0)[::2])
    assert_same(build(3, 8, 5), randn(1, 20, 3), lambda leaf: leaf.expand(4, 20, 3))
    assert_same(build(3, 8, 5), randn(3, 20), lambda leaf: pack(leaf.t(), [7, 13]))


@pytest.mark.parametrize("far", [0.0, 100.0])
def test_float32(far):
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 32, 32, 16]), torch.randn(4, 100, 3) + far
    assert_same(encoder, x, lambda leaf: leaf, rtol=1e-4, atol=1e-5)
    exact = copy.deepcopy(encoder).double().plain(x.double())
    torch.testing.assert_close(encoder(x).double(), exact, rtol=0, atol=2e-6)


@pytest.mark.parametrize("signal", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("form", FORMS)
def test_small_signals_keep_their_digits(signal, form):
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 32, 32, 16], form, bias=False), (torch.randn(4, 50, 3) * signal).requires_grad_()
    exact, exact_x = copy.deepcopy(encoder).double(), x.detach().double().requires_grad_()
    output, expected = encoder(x), exact.plain(exact_x)
    pairs = [(output, expected)]
    pairs += zip(
        grad(output.sum(), [x, *encoder.parameters()]),
        grad(expected.sum(), [exact_x, *exact.parameters()]),
        strict=True,
    )
    for mine, theirs in pairs:
        assert (mine - theirs).abs().max() < 1e-5 * theirs.abs().max()


def test_random_encoders_are_as_plain():
    worst, left_out = check(range(300))
    assert left_out < 30
    for kind, (difference, about) in worst.items():
        assert difference < TOLERANCES[kind.split()[0]], about
    assert len(worst) == 8


def test_saturated_members():
    """Where float32 has no number between tanh and 1, all is a tie and nothing has a slope."""
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 8, 8]), (torch.randn(4, 30, 3) * 1000).requires_grad_()
    for gradient in grad(encoder(x).sum(), [x, *encoder.parameters()]):
        assert gradient.isfinite().all()


def test_nan_stays_in_its_set():
    encoder, x = build(3, 8, 5), randn(3, 20, 3)
    x[1, 4, 2] = torch.nan
    x.requires_grad_()
    results = []
    for form in (encoder, encoder.plain):
        output = form(x)
        results.append([output, *grad(output.sum(), [x, *encoder.parameters()])])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine.isnan(), theirs.isnan())
    output, gradient, *parameters = results[0]
    assert output.isnan().any(1).tolist() == gradient.isnan().any(2).any(1).tolist() == [False, True, False]
    assert all(parameter.isnan().any() for parameter in parameters)
