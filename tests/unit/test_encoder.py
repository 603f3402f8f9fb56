"""The encoder as a module of torch: when it is quick, what it keeps, what is changed in it, and what it refuses."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.functional import jacobian

from equiset import PackedSets, SetDropout, SetEncoder, SetLayer, SetNorm, SetPool

from .encoders import CLOSE, DEVICES, FAST, assert_same, build, pack, randn, way

PUBLISHED = Path(__file__).parents[2] / "results" / "reference"


def test_order_does_not_matter_and_each_set_is_on_its_own():
    encoder, x = build(3, 20, 20), randn(4, 30, 3)
    output = encoder(x)
    torch.testing.assert_close(encoder(x[:, torch.randperm(30)]), output, **CLOSE)
    for number in range(4):
        torch.testing.assert_close(encoder(x[number : number + 1]), output[number : number + 1], **CLOSE)
    torch.testing.assert_close(encoder(PackedSets.from_list([*x])), output, **CLOSE)


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


@pytest.mark.parametrize("frozen", [False, True])
def test_several_gradients_at_once_are_refused_in_one_line(frozen):
    encoder, x = build(3, 8, 5).requires_grad_(not frozen), randn(2, 6, 3)
    with pytest.raises(RuntimeError, match=r"one gradient at a time.*encoder\.plain"):
        jacobian(encoder, x, vectorize=True)
    expected = jacobian(encoder.plain, x, vectorize=True)
    for found in (jacobian(encoder, x), torch.func.jacrev(encoder)(x)):
        torch.testing.assert_close(found, expected)
