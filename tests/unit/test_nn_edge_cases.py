"""Layers at the edges: empty sets, ties, NaN, wrong input, types, devices."""

import copy

import pytest
import torch
from torch import nn

from equiset import PackedSets, SetDropout, SetLayer, SetNorm, SetPool

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
FORMS = ["sum", "mean", "max", "mean-norm", "max-norm"]
EQUIVARIANT = {form: lambda form=form: SetLayer(3, 4, form, "elu") for form in FORMS}
EQUIVARIANT |= {"norm": SetNorm, "dropout": lambda: SetDropout(0.5)}
POOLINGS = ["sum", "mean", "max"]
ALL = EQUIVARIANT | {f"pool-{pooling}": lambda pooling=pooling: SetPool(pooling) for pooling in POOLINGS}


def rows_of(output: torch.Tensor | PackedSets) -> torch.Tensor:
    return output.rows if isinstance(output, PackedSets) else output


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_an_empty_set_gives_an_empty_set(name, device):
    layer = EQUIVARIANT[name]().to(device)
    packed = PackedSets.from_list([torch.randn(n, 3, device=device) for n in (0, 2, 0, 3, 0)])
    output = layer(packed.with_rows(packed.rows.requires_grad_()))
    assert output.sizes.tolist() == [0, 2, 0, 3, 0]
    output.rows.square().sum().backward()
    for gradient in (packed.rows.grad, *(parameter.grad for parameter in layer.parameters())):
        assert gradient.isfinite().all()
    for batch, members in ((2, 0), (0, 5), (0, 0)):
        dense = layer(torch.zeros(batch, members, 3, device=device, requires_grad=True))
        assert dense.shape[:2] == (batch, members)
        dense.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert len(layer(PackedSets(torch.empty(0, 3, device=device), torch.tensor([0], device=device)))) == 0


@pytest.mark.parametrize("name", FORMS)
def test_an_empty_set_changes_nothing_for_the_others(name):
    layer = EQUIVARIANT[name]()
    sets = [torch.randn(n, 3) for n in (2, 3)]
    alone = layer(PackedSets.from_list(sets)).rows
    beside = layer(PackedSets.from_list([torch.empty(0, 3), sets[0], torch.empty(0, 3), sets[1]])).rows
    # To rounding: a processor may multiply two rows and four rows in another order.
    torch.testing.assert_close(alone, beside, rtol=0, atol=2**-22)


def test_the_sum_of_nothing_is_zero():
    packed = PackedSets.from_list([torch.ones(2, 3), torch.empty(0, 3)])
    assert SetPool("sum")(packed).tolist() == [[2, 2, 2], [0, 0, 0]]
    assert SetPool("sum")(torch.empty(2, 0, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_mean_and_maximum_of_nothing_are_refused(pooling):
    pool = SetPool(pooling)
    packed = PackedSets.from_list([torch.ones(n, 3) for n in (2, 1, 0, 0)])
    with pytest.raises(ValueError, match=f"the {pooling} of an empty set is undefined, and set 2 is empty"):
        pool(packed)
    with pytest.raises(ValueError, match=f"the {pooling} of an empty set is undefined, and set 0 is empty"):
        pool(torch.empty(2, 0, 3))
    assert pool(PackedSets(torch.empty(0, 3), torch.tensor([0]))).shape == (0, 3)
    assert pool(torch.empty(0, 0, 3)).shape == pool(torch.empty(0, 4, 3)).shape == (0, 3)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("top", [3.0, 0.0, -2.0, float("inf"), float("-inf")])
@pytest.mark.parametrize("members", [1, 4, 600])
def test_tied_maxima_share_the_gradient_evenly(members, top, dtype, packed):
    """A second set and a lower value guard against counting members of others, or a value that nobody holds."""
    below = torch.tensor(float("-inf") if top in (float("inf"), float("-inf")) else top - 1)
    x = torch.full((2, members + 1, 1), top)
    x[0, 0] = below
    x = x.to(dtype).requires_grad_()
    pooled = SetPool("max")(PackedSets.from_dense(x) if packed else x)
    assert pooled.flatten().tolist() == [top, top]
    pooled.sum().backward()
    ties = members + (below == top).item()
    expected = torch.full((2, members + 1, 1), 1 / (members + 1))
    expected[0] = 1 / ties
    expected[0, 0] = 1 / ties if below == top else 0
    torch.testing.assert_close(x.grad, expected.to(dtype))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_nan_stays_in_its_set(name, device):
    layer = ALL[name]().to(device).eval()
    if name == "dropout":
        layer.train()
    clean = torch.randn(3, 4, 3, device=device)
    dirty = clean.clone()
    dirty[1, 2, 0] = torch.nan
    for form in (lambda x: x, PackedSets.from_dense):
        x = dirty.clone().requires_grad_()
        torch.manual_seed(1)
        output = rows_of(layer(form(x)))
        torch.manual_seed(1)
        expected = rows_of(layer(form(clean)))
        output, expected = output.view(3, -1), expected.view(3, -1)
        assert output[1].isnan().any()
        if name in FORMS:
            # The first channel is NaN for each member that sees the set, and every output channel reads it.
            assert output[1].isnan().all()
        torch.testing.assert_close(output[[0, 2]], expected[[0, 2]])
        (gradient,) = torch.autograd.grad(output.sum(), x)
        assert gradient[[0, 2]].isfinite().all()


@pytest.mark.parametrize("name", ALL)
def test_nan_is_the_same_in_dense_and_packed_sets(name):
    layer = ALL[name]().eval()
    x = torch.randn(3, 4, 3)
    x[1, 2, 0] = torch.nan
    dense, packed = layer(x), rows_of(layer(PackedSets.from_dense(x)))
    torch.testing.assert_close(packed.view_as(dense), dense, equal_nan=True)


@pytest.mark.parametrize("name", ALL)
def test_wrong_input_is_refused(name):
    layer = ALL[name]()
    with pytest.raises(ValueError, match=r"dense sets \(batch, members, channels.*\), got a tensor of shape \(5, 3\)"):
        layer(torch.zeros(5, 3))
    with pytest.raises(TypeError, match=r"floating-point values, got torch\.int64"):
        layer(torch.zeros(2, 5, 3, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"floating-point values, got torch\.int64"):
        layer(PackedSets(torch.zeros(5, 3, dtype=torch.int64), torch.tensor([0, 5])))
    with pytest.raises(TypeError, match=r"tensor \(batch, members, channels\) or PackedSets, got list"):
        layer([torch.zeros(5, 3)])
    if name != "dropout":
        with pytest.raises(ValueError, match=r"got a tensor of shape \(1, 2, 3, 4\)"):
            layer(torch.zeros(1, 2, 3, 4))
    if name in FORMS:
        with pytest.raises(ValueError, match=r"expected 3 channels, got 2 \(values of shape \(1, 5, 2\)\)"):
            layer(torch.zeros(1, 5, 2))
        with pytest.raises(ValueError, match=r"expected 3 channels, got 2 \(values of shape \(5, 2\)\)"):
            layer(PackedSets(torch.zeros(5, 2), torch.tensor([0, 5])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SetLayer(3, 4, "min"), "form among sum, mean, max, mean-norm, max-norm, got 'min'"),
        (lambda: SetLayer(3, 4, activation="gelu"), "None, tanh, elu, relu or a module as activation, got 'gelu'"),
        (lambda: SetLayer(0, 4), "at least one channel in and out, got 0 and 4"),
        (lambda: SetPool("min"), "pooling among sum, mean, max, got 'min'"),
        (lambda: SetDropout(1.5), "probability from 0 to 1, got 1.5"),
        (lambda: SetNorm(eps=0), "eps above 0, got 0"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ALL)
def test_strided_input(name):
    layer = ALL[name]().eval()
    x = torch.randn(3, 8, 2).transpose(0, 2)[:, ::2]
    assert not x.is_contiguous()
    torch.testing.assert_close(layer(x), layer(x.contiguous()))
    rows = torch.randn(3, 12).T
    offsets = torch.tensor([0, 5, 12])
    output = rows_of(layer(PackedSets(rows, offsets)))
    torch.testing.assert_close(output, rows_of(layer(PackedSets(rows.contiguous(), offsets))))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_every_float_type(dtype, name, device):
    """Sets of 1000 members near 1: sums carried in half precision would stop growing at 256."""
    layer = ALL[name]().eval().to(device, dtype)
    x = (1 + torch.rand(2, 1000, 3, device=device) / 8).to(dtype).requires_grad_()
    dense, packed = layer(x), rows_of(layer(PackedSets.from_dense(x)))
    assert dense.dtype == packed.dtype == dtype
    wide = copy.deepcopy(layer).double()(x.double().detach())
    scale = wide.abs().max().item()
    half = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float64: 1e-12}[dtype]
    for output in (dense, packed.view_as(dense)):
        torch.testing.assert_close(output.double(), wide, rtol=half, atol=half * scale)
    upstream = torch.randn_like(dense)
    reference = torch.autograd.grad(dense, x, upstream)[0]
    gradient = torch.autograd.grad(packed, x, upstream.view_as(packed))[0]
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, reference, rtol=half, atol=half * reference.abs().max().item())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ALL)
def test_autocast(name, device):
    layer = ALL[name]().eval().to(device)
    x = torch.randn(2, 50, 3, device=device, requires_grad=True)
    for form in (lambda x: x, PackedSets.from_dense):
        with torch.autocast(device, dtype=torch.bfloat16):
            output = rows_of(layer(form(x)))
        assert output.dtype == (torch.bfloat16 if name in FORMS else torch.float32)
        torch.testing.assert_close(
            output.float(), rows_of(layer(form(x))), rtol=5e-2, atol=5e-2 * output.abs().max().item()
        )
        output.float().sum().backward()
        assert x.grad.dtype == torch.float32
        assert all(parameter.grad.dtype == torch.float32 for parameter in layer.parameters())


@pytest.mark.parametrize("name", ALL)
def test_no_layer_needs_a_value_or_names_a_device(name):
    """The meta device holds shapes alone: whatever would wait for a value on a GPU fails here."""
    layer = ALL[name]().to("meta")
    x = torch.randn(2, 5, 3)
    for sets in (x.to("meta"), PackedSets.from_dense(x, torch.rand(2, 5) > 0.1).to("meta")):
        if isinstance(sets, PackedSets):
            sets = sets.with_rows(sets.rows.requires_grad_())
        else:
            sets.requires_grad_()
        output = rows_of(layer(sets))
        assert output.device.type == "meta"
        assert output.shape[-1] == (4 if name in FORMS else 3)
        output.sum().backward()


def test_parameters_are_made_where_and_as_asked():
    layer = SetLayer(3, 4, "max", device="meta", dtype=torch.float16)
    assert {(p.device.type, p.dtype) for p in layer.parameters()} == {("meta", torch.float16)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False])
def test_parameters_are_those_of_linear_layers(form, bias):
    layer, linear = SetLayer(7, 5, form, bias=bias), nn.Linear(7, 5, bias=bias)
    count = sum(p.numel() for p in layer.parameters())
    assert count == sum(p.numel() for p in linear.parameters()) + (0 if form.endswith("norm") else 35)
    if form.endswith("norm"):
        layer.load_state_dict(linear.state_dict())
    before = [p.clone() for p in layer.parameters()]
    layer.reset_parameters()
    for old, new in zip(before, layer.parameters(), strict=True):
        assert not torch.equal(old, new)
        assert new.abs().max() <= 7**-0.5
        assert new.abs().max() > 0.4 * 7**-0.5


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        (None, lambda x: x),
        ("tanh", torch.tanh),
        ("elu", nn.functional.elu),
        ("relu", torch.relu),
        (nn.Softplus(), nn.functional.softplus),
    ],
)
def test_activations(activation, function):
    layer, x = SetLayer(3, 4, activation=activation), torch.randn(2, 5, 3)
    linear = nn.functional.linear(x - x.amax(1, keepdim=True), layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), function(linear))
    torch.testing.assert_close(layer(PackedSets.from_dense(x)).rows, function(linear).flatten(0, 1))


@pytest.mark.parametrize("offset", [0.0, 0.1, 1000.1])
@pytest.mark.parametrize("members", [1, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sets_without_spread_are_normalised_to_zero(members, offset, dtype):
    for form in (lambda x: x, PackedSets.from_dense):
        x = torch.full((2, members, 3), offset, dtype=dtype, requires_grad=True)
        output = rows_of(SetNorm()(form(x)))
        assert output.abs().max() == 0
        output.float().square().sum().backward()
        assert x.grad.isfinite().all()


def test_max_normalisation_keeps_its_digits_far_from_the_origin():
    layer, x = SetLayer(3, 4), torch.randn(1, 50, 3).mul(64).round() / 64
    torch.testing.assert_close(layer(x + 4096), layer(x), rtol=0, atol=0)
