"""The encoder follows the winners alone, and gives what all members together would give."""

import copy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.autograd import grad, gradcheck

from equiset import PackedSets, SetDropout, SetEncoder, SetLayer, SetNorm, SetPool
from equiset.nn import encoder as module

from .encoder_fuzz import TOLERANCES, check

PUBLISHED = Path(__file__).parents[2] / "results" / "reference"
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
FAST = "_WinningRowsBackward"
FORMS = ["max", "max-norm"]

some = settings(derandomize=True, deadline=None, max_examples=40)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build(*widths: int, seed: int = 0, **options) -> SetEncoder:
    torch.manual_seed(seed)
    return SetEncoder(widths, **options).double()


def pack(rows: Tensor, sizes: list[int]) -> PackedSets:
    return PackedSets(rows, torch.tensor([0, *sizes], device=rows.device).cumsum(0))


def way(output: Tensor) -> str:
    function = output.grad_fn
    name = type(function).__name__
    # Dropout of the last layer multiplies what the short way gives.
    return type(function.next_functions[0][0]).__name__ if name == "MulBackward0" else name


def assert_same(encoder: SetEncoder, leaf: Tensor, sets_of: Callable[[Tensor], Tensor | PackedSets], **close) -> None:
    """Values, and gradients of all parameters and of `leaf`, from which the sets are made."""
    leaf = leaf.clone().requires_grad_()
    torch.manual_seed(1)
    fast = encoder(sets_of(leaf))
    torch.manual_seed(1)  # the same dropout
    plain = encoder.plain(sets_of(leaf))
    assert way(fast) == FAST
    assert way(plain) != FAST
    torch.testing.assert_close(fast, plain, **(close or CLOSE))
    cotangent = randn(*fast.shape, seed=1).to(fast)
    wanted = [leaf, *encoder.parameters()]
    for mine, theirs in zip(grad(fast, wanted, cotangent), grad(plain, wanted, cotangent), strict=True):
        torch.testing.assert_close(mine, theirs, **(close or CLOSE))


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


def test_order_does_not_matter_and_each_set_is_on_its_own():
    encoder, x = build(3, 20, 20), randn(4, 30, 3)
    output = encoder(x)
    torch.testing.assert_close(encoder(x[:, torch.randperm(30)]), output, **CLOSE)
    for number in range(4):
        torch.testing.assert_close(encoder(x[number : number + 1]), output[number : number + 1], **CLOSE)
    torch.testing.assert_close(encoder(PackedSets.from_list([*x])), output, **CLOSE)


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


@pytest.mark.parametrize(
    "options",
    [{"form": form} for form in ("sum", "mean", "mean-norm")]
    + [{"pool": "sum"}, {"pool": "mean"}, {"activation": "elu"}, {"activation": nn.Sigmoid()}],
    ids=str,
)
def test_elsewhere_the_plain_form_runs(options):
    encoder, x = build(3, 8, 4, **options), randn(2, 6, 3)
    torch.manual_seed(1)
    output = encoder(x)
    assert way(output) != FAST
    torch.manual_seed(1)
    assert torch.equal(output, encoder.plain(x))


def test_dropout_stops_in_evaluation():
    encoder, x = build(3, 8, 4, dropout=0.5), randn(2, 6, 3)
    assert not torch.equal(encoder(x), encoder(x))
    encoder.eval()
    assert way(encoder(x)) == FAST
    torch.testing.assert_close(encoder(x), build(3, 8, 4)(x), **CLOSE)


@pytest.mark.parametrize("dropout", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("packed", [False, True])
def test_members_without_slope_have_none_after_dropout(dropout, packed):
    encoder = build(3, 20, 20, 8, activation="relu", dropout=dropout)
    assert_same(encoder, randn(60, 3), lambda rows: pack(rows, [20, 1, 39]) if packed else rows.view(3, 20, 3))


def test_a_small_slope_beside_a_large_maximum():
    """What is left of a small number after a large one was subtracted may be nothing; its slope is still one."""
    encoder = SetEncoder([1, 1, 1], activation="relu", bias=False)
    with torch.no_grad():
        encoder.layers[0].weight.fill_(-1)
        encoder.layers[1].weight.fill_(-1)
    assert_same(encoder, torch.tensor([[[0.0], [-1e-12], [-1.0]]]), lambda leaf: leaf)


class Doubled(SetLayer):
    def forward(self, sets):
        return 2 * super().forward(sets)


class Least(SetPool):
    def forward(self, sets):
        return sets.amin(1)


class Undropped(SetDropout):
    def forward(self, sets):
        return sets


class Wrapped(nn.Module):
    """As adapters of low rank are put round a layer: without its attributes."""

    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, sets):
        return 2 * self.base(sets)


def replace_forward(encoder):
    layer = encoder.layers[0]
    layer.forward = lambda sets, inner=layer.forward: 2 * inner(sets)


CHANGES = {
    "dropout of each value": lambda encoder: setattr(encoder.dropout, "simultaneous", False),
    "a layer of another class": lambda encoder: encoder.layers.insert(1, Doubled(8, 8, activation="tanh").double()),
    "a layer around a layer": lambda encoder: encoder.layers.__setitem__(0, Wrapped(encoder.layers[0])),
    "another pooling": lambda encoder: setattr(encoder, "pool", Least("max")),
    "another dropout": lambda encoder: setattr(encoder, "dropout", Undropped(0.5)),
    "torch's dropout": lambda encoder: setattr(encoder, "dropout", nn.Dropout(0.5)),
    "a replaced forward": replace_forward,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_somebody_changed_is_what_runs(change):
    encoder, x = build(3, 8, 4, dropout=0.5), randn(2, 6, 3)
    CHANGES[change](encoder)
    torch.manual_seed(1)
    output = encoder(x)
    torch.manual_seed(1)
    assert torch.equal(output, encoder.plain(x))


def test_hooks_on_layers_are_called():
    encoder, x, seen = build(3, 8, 4), randn(2, 6, 3), []
    handle = encoder.layers[0].register_forward_hook(lambda *given: seen.append(given[2].shape))
    assert way(encoder(x)) != FAST
    assert seen == [(2, 6, 8)]
    handle.remove()
    assert way(encoder(x)) == FAST


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


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_only_winners_are_kept(dropout):
    encoder, x, kept = SetEncoder([3, 8, 8], dropout=dropout), torch.randn(4, 1000, 3), []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        output = encoder(x)
    # At most one member for each channel of each level, as nothing ties here.
    assert max(len(saved) for saved in kept) <= 4 * (3 + 8 + 8)
    assert sum(saved.numel() for saved in kept) < 4 * 1000 * 3
    output.sum().backward()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("activation", "far"), [("tanh", 60.0), ("relu", -60.0)])
def test_a_channel_without_slope_keeps_no_members(activation, far, packed):
    """As in trained networks: all members of a set share its maximum, and none of them gets a gradient from it."""
    encoder, x, kept = build(3, 8, 8, 8, activation=activation), randn(1000, 3), []
    with torch.no_grad():
        for number, layer in enumerate(encoder.layers):
            layer.bias[number] = far

    def sets_of(rows: Tensor) -> Tensor | PackedSets:
        return pack(rows, [300, 700]) if packed else rows.view(2, 500, 3)

    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        encoder(sets_of(x))
    assert max(len(saved) for saved in kept) <= 2 * (3 + 8 + 8 + 8)
    assert_same(encoder, x, sets_of)


def test_members_without_a_win_have_no_gradient():
    encoder, x = build(3, 4, 4), randn(2, 200, 3).requires_grad_()
    (gradient,) = grad(encoder(x).square().sum(), x)
    assert 0 < gradient.ne(0).any(2).sum() <= 2 * (3 + 4 + 4)


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


def test_few_members_are_kept_with_trained_weights():
    """Saturated channels must be recognised as flat: how exactly an activation is rounded decides the speed."""
    torch.manual_seed(0)
    weights = load_file(PUBLISHED / "point_clouds" / "runs" / "set-1000" / "seed0" / "weights.safetensors")
    encoder, kept = SetEncoder([3, 256, 256, 256]), []
    names = {name.removeprefix("encoder."): value for name, value in weights.items()}
    encoder.load_state_dict({name: value for name, value in names.items() if name.startswith("layers.")})
    clouds = SetNorm()(nn.functional.normalize(torch.randn(4, 1000, 3), dim=2) * (0.5 + torch.rand(4, 1, 3)))
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        encoder(clouds)
    places = [len(saved) for saved in kept if saved.dtype == torch.int64][::2]
    # From the pooled layer down, of 1000.
    rows = [sum(places[level::4]) / 4 for level in range(4)]
    assert all(found < most for found, most in zip(rows, (180, 480, 580, 580), strict=True)), rows


def test_saturated_members():
    """Where float32 has no number between tanh and 1, all is a tie and nothing has a slope."""
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 8, 8]), (torch.randn(4, 30, 3) * 1000).requires_grad_()
    for gradient in grad(encoder(x).sum(), [x, *encoder.parameters()]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_plain(dtype):
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 16, 8]), torch.randn(4, 30, 3)
    with torch.autocast("cpu", dtype):
        output = encoder(x)
        assert torch.equal(output, encoder.plain(x))
    assert output.dtype == dtype
    output.float().sum().backward()
    encoder.to(dtype)
    assert torch.equal(encoder(x.to(dtype)), encoder.plain(x.to(dtype)))


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


def test_second_derivatives_are_refused():
    encoder, x = build(3, 8, 5), randn(2, 6, 3).requires_grad_()
    with pytest.raises(RuntimeError, match=r"encoder\.plain"):
        grad(encoder(x).sum(), x, create_graph=True)
    (gradient,) = grad(encoder.plain(x).sum(), x, create_graph=True)
    gradient.square().sum().backward()


def test_backward_twice_is_refused_or_asked_for():
    encoder, x = build(3, 8, 5), randn(2, 6, 3).requires_grad_()
    output = encoder(x).sum()
    first, second = (grad(output, x, retain_graph=again)[0] for again in (True, False))
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second time"):
        output.backward()


def test_a_weight_that_changes_before_backward_is_noticed():
    encoder = build(3, 8, 5)
    output = encoder(randn(2, 6, 3))
    with torch.no_grad():
        encoder.layers[1].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_its_state_is_that_of_its_layers():
    encoder = build(3, 8, 5)
    layers = nn.ModuleList(SetLayer(i, o, activation="tanh") for i, o in pairwise([3, 8, 5])).double()
    assert list(encoder.state_dict()) == [f"layers.{name}" for name in layers.state_dict()]
    layers.load_state_dict(encoder.layers.state_dict())
    x = randn(2, 6, 3)
    torch.testing.assert_close(encoder(x), SetPool("max")(layers[1](layers[0](x))), **CLOSE)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_again(device):
    torch.manual_seed(0)
    encoder, x = SetEncoder([3, 64, 64], device=device), torch.randn(8, 300, 3, device=device, requires_grad=True)
    sets = PackedSets.from_list([x[0, :40], *x[1:4], *x[4:, :17]])
    for given_sets in (x, sets):
        first, second = (grad(encoder(given_sets).sum(), [x, *encoder.parameters()]) for _ in range(2))
        assert all(torch.equal(mine, other) for mine, other in zip(first, second, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_other_devices_and_deterministic_algorithms(device):
    torch.use_deterministic_algorithms(True)
    try:
        assert_same(build(3, 20, 20).to(device), randn(4, 30, 3).to(device), lambda leaf: leaf)
        rows = randn(60, 3).to(device)
        assert_same(build(3, 20, 20).to(device), rows, lambda leaf: pack(leaf, [1, 30, 29]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert SetEncoder([3, 8], device="meta")(torch.empty(2, 5, 3, device="meta")).shape == (2, 8)


def test_batches_and_sets_of_nothing():
    encoder = build(3, 8, 5)
    x = torch.empty(0, 6, 3, dtype=torch.float64, requires_grad=True)
    output = encoder(x)
    output.sum().backward()
    assert output.shape == (0, 5)
    assert encoder.layers[0].weight.grad.eq(0).all()
    assert encoder(pack(x.detach().view(0, 3), [])).shape == (0, 5)
    with pytest.raises(ValueError, match="set 0 is empty"):
        encoder(torch.empty(2, 0, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="set 1 is empty"):
        encoder(pack(randn(5, 3), [2, 0, 3]))


def test_what_it_cannot_be_made_of_or_given():
    with pytest.raises(ValueError, match="at least one layer"):
        SetEncoder([3])
    with pytest.raises(ValueError, match="form"):
        SetEncoder([3, 4], form="min")
    with pytest.raises(ValueError, match="pooling"):
        SetEncoder([3, 4], pool="min")
    with pytest.raises(ValueError, match="probability"):
        SetEncoder([3, 4], dropout=2.0)
    with pytest.raises(ValueError, match="expected 3 channels"):
        SetEncoder([3, 4])(torch.randn(2, 5, 4))
    with pytest.raises(RuntimeError, match="dtype"):
        SetEncoder([3, 4])(randn(2, 5, 3))
