"""What holds for every set: symmetry, the theorem, gradients, and the agreement of dense and packed sets."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from equiset import PackedSets, SetDropout, SetLayer, SetNorm, SetPool

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FORMS = ["sum", "mean", "max", "mean-norm", "max-norm"]
POOLINGS = ["sum", "mean", "max"]
LAYERS = {f"layer-{form}": lambda k, form=form: SetLayer(k, 4, form, "tanh") for form in FORMS}
LAYERS["norm"] = lambda k: SetNorm()
ALL = LAYERS | {f"pool-{pooling}": lambda k, pooling=pooling: SetPool(pooling) for pooling in POOLINGS}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}

few = settings(derandomize=True, deadline=None, max_examples=20)


@st.composite
def batches(draw, least: int = 0):
    """A list of sets, (members, channels), float64; from a coarse grid half of the time, so that many values tie."""
    sizes = draw(st.lists(st.integers(least, 7), min_size=1, max_size=5))
    channels = draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    values = [torch.randn(size, channels, generator=generator, dtype=torch.float64) for size in sizes]
    return [rows.round() for rows in values] if draw(st.booleans()) else values


def build(name: str, channels: int, device: str = "cpu") -> torch.nn.Module:
    torch.manual_seed(channels)
    return ALL[name](channels).to(device, torch.float64)


def rows_of(output: torch.Tensor | PackedSets) -> torch.Tensor:
    return output.rows if isinstance(output, PackedSets) else output


@pytest.mark.parametrize("name", LAYERS)
@given(sets=batches(), seed=st.integers(0, 10**6))
@few
def test_layers_are_equivariant(name, sets, seed):
    layer = build(name, sets[0].shape[1])
    torch.manual_seed(seed)
    orders = [torch.randperm(len(rows)) for rows in sets]
    moved = [rows[order] for rows, order in zip(sets, orders, strict=True)]
    for before, after, order in zip(
        layer(PackedSets.from_list(sets)), layer(PackedSets.from_list(moved)), orders, strict=True
    ):
        torch.testing.assert_close(after, before[order], **CLOSE)
    for rows, other, order in zip(sets, moved, orders, strict=True):
        torch.testing.assert_close(layer(other.unsqueeze(0)), layer(rows.unsqueeze(0))[:, order], **CLOSE)


@pytest.mark.parametrize("pooling", POOLINGS)
@given(sets=batches(least=1), seed=st.integers(0, 10**6))
@few
def test_pooling_is_invariant(pooling, sets, seed):
    pool = SetPool(pooling)
    torch.manual_seed(seed)
    moved = [rows[torch.randperm(len(rows))] for rows in sets]
    torch.testing.assert_close(pool(PackedSets.from_list(moved)), pool(PackedSets.from_list(sets)), **CLOSE)
    for rows, other in zip(sets, moved, strict=True):
        torch.testing.assert_close(pool(other.unsqueeze(0)), pool(rows.unsqueeze(0)), **CLOSE)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
@given(sets=batches(least=1))
@few
def test_dense_and_packed_sets_agree(name, device, sets):
    """Each set on its own as a dense tensor, against all of them packed: values and every gradient."""
    layer = build(name, sets[0].shape[1], device)
    packed_in = [rows.to(device).requires_grad_() for rows in sets]
    dense_in = [rows.to(device).requires_grad_() for rows in sets]
    packed = rows_of(layer(PackedSets.from_list(packed_in)))
    dense = torch.cat([layer(rows.unsqueeze(0)).flatten(0, -2) for rows in dense_in])
    torch.testing.assert_close(packed, dense, **CLOSE)
    weights = torch.linspace(-1, 2, packed.numel(), dtype=torch.float64, device=device).view_as(packed)
    inputs = list(layer.parameters())
    packed_grads = torch.autograd.grad(packed, packed_in + inputs, weights)
    dense_grads = torch.autograd.grad(dense, dense_in + inputs, weights)
    for one, other in zip(packed_grads, dense_grads, strict=True):
        # SetNorm divides by a spread of 1e-6 where all members are equal, and rounding with it.
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


def equation(layer: SetLayer, x: torch.Tensor) -> torch.Tensor:
    """The forms as the paper writes them, for one set."""
    ones = torch.ones(len(x), 1, dtype=x.dtype)
    x_max, x_mean = x.max(0, keepdim=True).values, x.mean(0, keepdim=True)
    first, second, b = layer.weight.T, layer.weight.T if layer.set_weight is None else layer.set_weight.T, layer.bias
    forms = {
        "sum": x @ first + ones @ ones.T @ x @ second + b,
        "mean": x @ first + ones @ x_mean @ second + b,
        "max": x @ first - ones @ x_max @ second + b,
        "mean-norm": b + (x - ones @ x_mean) @ first,
        "max-norm": b + (x - ones @ x_max) @ first,
    }
    return torch.tanh(forms[layer.form])


@pytest.mark.parametrize("form", FORMS)
@given(sets=batches(least=1))
@few
def test_every_form_is_its_equation(form, sets):
    layer = build(f"layer-{form}", sets[0].shape[1])
    for x, y in zip(sets, layer(PackedSets.from_list(sets)), strict=True):
        torch.testing.assert_close(y, equation(layer, x), **CLOSE)


def permutations(n: int) -> torch.Tensor:
    return torch.stack([torch.eye(n, dtype=torch.float64)[list(order)] for order in itertools.permutations(range(n))])


@given(st.integers(1, 5), st.floats(-3, 3), st.floats(-3, 3))
@few
def test_theorem_the_family_commutes_with_every_permutation(n, lam, gamma):
    theta = lam * torch.eye(n, dtype=torch.float64) + gamma * torch.ones(n, n, dtype=torch.float64)
    for permutation in permutations(n):
        torch.testing.assert_close(permutation @ theta, theta @ permutation, rtol=0, atol=0)


@pytest.mark.parametrize("n", range(2, 7))
def test_theorem_nothing_else_commutes_with_every_permutation(n):
    """P T = T P is linear in T; its solutions for all P have dimension two, and I and 11^T are two of them."""
    identity = torch.eye(n, dtype=torch.float64)
    constraints = torch.cat([torch.kron(p, identity) - torch.kron(identity, p.T.contiguous()) for p in permutations(n)])
    gram = constraints.T @ constraints / len(constraints)
    values, vectors = torch.linalg.eigh(gram)
    null = vectors[:, values < 1e-10]
    assert null.shape[1] == 2
    family = torch.stack([identity.flatten(), torch.ones(n * n, dtype=torch.float64)], 1)
    torch.testing.assert_close(null @ (null.T @ family), family, **CLOSE)


@pytest.mark.parametrize("form", ["sum", "mean", "mean-norm"])
@given(n=st.integers(2, 6), seed=st.integers(0, 10**6))
@few
def test_theorem_the_linear_forms_of_one_channel_are_in_the_family(form, n, seed):
    torch.manual_seed(seed)
    layer = SetLayer(1, 1, form, bias=False, dtype=torch.float64)
    theta = torch.autograd.functional.jacobian(lambda x: layer(x.view(1, n, 1)).view(n), torch.zeros(n).double())
    weight = layer.weight.item()
    gamma = -weight / n if form == "mean-norm" else layer.set_weight.item() / (n if form == "mean" else 1)
    torch.testing.assert_close(theta, weight * torch.eye(n).double() + gamma * torch.ones(n, n).double(), **CLOSE)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_gradients_of_first_and_second_order_match_finite_differences(name, packed):
    layer = build(name, 2)
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    keys, parameters = zip(*layer.named_parameters(), strict=True) if list(layer.parameters()) else ((), ())

    def function(x, *parameters):
        sets = x
        if packed:
            mask = torch.tensor([[True, True, True], [True, False, False]])
            sets = PackedSets.from_dense(x, mask)
        return rows_of(torch.func.functional_call(layer, dict(zip(keys, parameters, strict=True)), (sets,)))

    if packed and name == "norm":
        # The set of one has no spread; its slope of 1 / eps is out of reach of finite differences.
        x = torch.cat([x[:1], torch.zeros(1, 3, 2).double()]).detach().requires_grad_()
        assert gradcheck(lambda x: function(x)[:3], (x,))
        return
    assert gradcheck(function, (x, *parameters))
    assert gradgradcheck(function, (x, *parameters))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@given(sets=batches(least=2))
@few
def test_normalised_sets_have_no_mean_and_unit_global_spread(scale, sets):
    torch.manual_seed(len(sets))
    sets = [scale * (rows + torch.randn_like(rows) / 10) + 100 for rows in sets]
    for given_rows, rows in zip(sets, SetNorm()(PackedSets.from_list(sets)), strict=True):
        torch.testing.assert_close(rows.mean(0), torch.zeros_like(rows[0]), rtol=0, atol=1e-8)
        torch.testing.assert_close(rows.square().mean().item(), 1.0)
        centred = given_rows - given_rows.mean(0)
        torch.testing.assert_close(rows * centred.square().mean().sqrt(), centred, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_set_dropout_draws_once_for_each_set_and_channel(p, device):
    dropout = SetDropout(p)
    ones = torch.ones(40, 5, 60, device=device)
    torch.manual_seed(0)
    dense = dropout(ones)
    assert (dense == dense[:, :1]).all()
    kept = dense[:, 0]
    torch.testing.assert_close(kept[kept != 0], torch.full_like(kept[kept != 0], 1 / (1 - p) if p < 1 else 1))
    assert abs((kept == 0).float().mean().item() - p) < 0.04
    if 0 < p < 1:
        assert 1 < len(kept.unique(dim=0)) == 40
    torch.manual_seed(0)
    assert torch.equal(dropout(ones), dense)
    torch.manual_seed(0)
    assert torch.equal(dropout(PackedSets.from_dense(ones)).rows, dense.flatten(0, 1))
    torch.manual_seed(0)
    images = dropout(torch.ones(40, 5, 60, 2, 3, device=device))
    assert torch.equal(images, dense[..., None, None].expand_as(images))


def test_independent_dropout_draws_for_each_value():
    dropout = SetDropout(0.5, simultaneous=False)
    ones = torch.ones(4, 5, 60)
    torch.manual_seed(0)
    dense = dropout(ones)
    assert not (dense == dense[:, :1]).all()
    torch.manual_seed(0)
    assert torch.equal(torch.nn.functional.dropout(ones, 0.5), dense)
    torch.manual_seed(0)
    assert torch.equal(dropout(PackedSets.from_dense(ones)).rows, dense.flatten(0, 1))


@pytest.mark.parametrize("simultaneous", [True, False])
def test_dropout_passes_everything_in_evaluation(simultaneous):
    dropout = SetDropout(0.5, simultaneous).eval()
    for sets in (torch.randn(2, 3, 4), torch.randn(2, 3, 4, 5, 5), PackedSets.from_list([torch.randn(3, 4)])):
        assert dropout(sets) is sets


def test_the_gradient_of_dropout_is_its_mask():
    packed = PackedSets.from_list([torch.ones(3, 8), torch.ones(2, 8)])
    rows = packed.rows.requires_grad_()
    output = SetDropout(0.5)(packed)
    output.rows.sum().backward()
    assert torch.equal(rows.grad, output.rows)
