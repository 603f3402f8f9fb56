"""The networks for point clouds, layer by layer."""

import numpy as np
import pytest
import torch

from equiset.experiments.point_clouds.graphs import (
    GatheredGraph,
    NeighbourMean,
    SparseGraph,
    make_graph,
    nearest,
    nearest_by_distance,
)
from equiset.experiments.point_clouds.networks import (
    CloudNet,
    PoolingEncoder,
    TwoProducts,
)
from equiset.nn.winning_rows import CHUNK_BYTES

from .test_point_clouds import variant

CPU = torch.device("cpu")


@pytest.mark.parametrize("form", ["sum", "mean", "max", "max-norm"])
def test_the_norm_forms_have_the_parameters_of_the_pooling_model(form):
    count = {
        name: sum(parameter.numel() for parameter in CloudNet(variant(**changes), 40).parameters())
        for name, changes in {"set": {"form": form}, "pooling": {"model": "set-pooling"}}.items()
    }
    assert (count["set"] == count["pooling"]) == (form == "max-norm")


def test_the_set_transformer_is_its_published_definition():
    """Multihead attention written out, head by head, without the fused product."""
    torch.manual_seed(0)
    settings = variant(model="set-transformer", layers=2, width=12, dropout=0.0)
    encoder, x = CloudNet(settings, 40).double().encoder, torch.randn(3, 20, 3, dtype=torch.double)

    def attention(block, queries, members):
        q, k, v = block.query(queries), block.key(members), block.value(members)
        parts = []
        for head in range(4):
            some = slice(3 * head, 3 * head + 3)
            weights = (q[..., some] @ k[..., some].transpose(1, 2) / 12**0.5).softmax(2)
            parts.append(q[..., some] + weights @ v[..., some])
        h = torch.cat(parts, 2)
        return h + block.out(h).relu()

    members = x
    for layer in encoder.layers:
        members = attention(layer.spread, members, attention(layer.gather, layer.points.expand(3, -1, -1), members))
    pooled = attention(encoder.pool, encoder.query.expand(3, -1, -1), members).squeeze(1)
    torch.testing.assert_close(encoder(x), pooled, rtol=1e-12, atol=1e-12)


def test_pointnet_has_its_published_layers_and_takes_a_single_cloud():
    network = CloudNet(variant(model="pointnet", width=1024, dense=512), 40)
    widths = [layer.out_features for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    assert widths == [64, 64, 64, 128, 1024, 512, 256, 40]
    normalised = [layer.num_features for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    assert normalised == widths[:-1]
    # The last batch of an epoch may have one cloud, whose single row after the pooling has no deviation.
    assert network.train()(torch.randn(1, 20, 3)).isfinite().all()


def test_size_and_place_of_a_cloud_do_not_matter():
    network, clouds = CloudNet(variant(), 40).eval(), torch.rand(3, 30, 3)
    torch.testing.assert_close(network(clouds), network(100 * clouds - 7), rtol=1e-3, atol=1e-4)


def test_the_sum_form_can_learn_from_large_clouds_if_its_set_weight_goes_by_the_set_size():
    """Plain, tanh is saturated at the start or after one step of Adam, and all clouds look alike."""

    def saturated(set_weight):
        torch.manual_seed(0)
        network = CloudNet(variant(form="sum", width=64, set_weight=set_weight), 40, 1000)
        clouds, labels = torch.randn(4, 1000, 3) * torch.rand(4, 1, 3), torch.arange(4)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.001)
        torch.nn.functional.cross_entropy(network(clouds), labels).backward()
        optimizer.step()
        with torch.no_grad():
            x = network.norm(clouds)
            for layer in network.encoder.layers:
                x = layer(x)
            return (x.abs() > 0.99).float().mean()

    assert saturated("plain") > 0.9
    assert saturated("by-set-size") < 0.1


def test_a_set_weight_by_the_set_size_is_the_sum_form_and_survives_a_file():
    torch.manual_seed(0)
    network = CloudNet(variant(form="sum", set_weight="by-set-size"), 40, 50).eval()
    layer, x = network.encoder.layers[0], torch.randn(2, 50, 3)
    expected = torch.tanh(x @ layer.weight.T + x.sum(1, keepdim=True) @ layer.set_weight.T + layer.bias)
    assert torch.allclose(layer(x), expected, atol=1e-6)
    assert layer.set_weight.abs().max() <= 1 / 50 / 3**0.5
    torch.manual_seed(1)
    again = CloudNet(variant(form="sum", set_weight="by-set-size"), 40, 50).eval()
    again.load_state_dict(network.state_dict())
    assert torch.equal(again(x), network(x))
    with pytest.raises(ValueError, match="set_weight: 'by-set-size' is for model: set-layer with form: sum"):
        variant(set_weight="by-set-size")


def test_transformations_act_after_the_normalisation_and_only_in_training():
    settings = variant(rotation_degrees=18, scale=0.8)
    layer, clouds = CloudNet(settings, 40).transformation, torch.randn(500, 6, 3)
    assert torch.equal(layer.eval()(clouds), clouds)
    torch.manual_seed(0)
    moved = layer.train()(clouds)
    factor = moved[..., 2] / clouds[..., 2]
    assert torch.allclose(factor, factor[:, :1].expand_as(factor), rtol=1e-3)
    assert 0.79 < factor.min() < 0.85
    assert 1.2 < factor.max() < 1.26
    one, other = (torch.atan2(cloud[:, 0, 1], cloud[:, 0, 0]) for cloud in (clouds, moved))
    angle = torch.rad2deg(torch.remainder(other - one + torch.pi, 2 * torch.pi) - torch.pi)
    assert 16 < angle.abs().max() < 18.01
    layer.eval().fixed = (float(np.radians(90)), 2.0)
    torch.testing.assert_close(layer(torch.tensor([[[1.0, 0, 3]]])), torch.tensor([[[0.0, 2, 6]]]))
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(clouds).dtype == torch.float32
    separate = CloudNet(variant(scale=0.8, scale_axes="separately"), 40).transformation
    factor = separate(clouds)[:, 0] / clouds[:, 0]
    assert (factor[:, 0] - factor[:, 1]).abs().max() > 0.1


def test_nearest_neighbours():
    cloud = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    distance = np.linalg.norm(cloud[:, None] - cloud, axis=2)
    np.fill_diagonal(distance, np.inf)
    expected = np.sort(np.argsort(distance, axis=1)[:, :8], axis=1)
    assert (np.sort(nearest(cloud, 8), axis=1) == expected).all()
    # Coincident points, and fewer points than neighbours.
    same = nearest(np.zeros((20, 3)), 8)
    assert same.shape == (20, 8)
    assert (same != np.arange(20)[:, None]).all()
    assert nearest(cloud[:4], 8).shape == (4, 3)
    assert nearest(cloud[:1], 8).shape == (1, 0)


def test_the_mean_over_neighbours_and_its_gradient():
    clouds = torch.randn(3, 12, 3)
    graph = make_graph(clouds, 4)
    x = torch.randn(36, 5, requires_grad=True)
    y = NeighbourMean.apply(x, graph)
    near = [nearest(cloud.numpy(), 4) for cloud in clouds]
    gathered = torch.cat([x.view(3, 12, 5)[number][torch.from_numpy(rows)].mean(1) for number, rows in enumerate(near)])
    torch.testing.assert_close(y, gathered)
    weights = torch.randn_like(y)
    (sparse,) = torch.autograd.grad((y * weights).sum(), x, retain_graph=True)
    (plain,) = torch.autograd.grad((gathered * weights).sum(), x)
    torch.testing.assert_close(sparse, plain)


def test_a_gpus_way_to_neighbours_and_their_mean_is_that_of_a_cpu():
    torch.manual_seed(0)
    clouds = torch.randn(3, 30, 3)
    near = torch.stack([torch.from_numpy(nearest(cloud.numpy(), 4)) for cloud in clouds])
    assert torch.equal(nearest_by_distance(clouds, 4).sort(2).values, near.sort(2).values)
    x, weights = torch.randn(90, 5), torch.randn(90, 5)
    gathered, sparse = GatheredGraph(clouds, 4), SparseGraph(clouds.numpy(), 4)
    torch.testing.assert_close(gathered.mean(x), sparse.mean(x))
    torch.testing.assert_close(gathered.sum_back(weights), sparse.sum_back(weights))
    # Coincident points are no neighbours of themselves; fewer points than neighbours, and none.
    assert (nearest_by_distance(torch.zeros(1, 20, 3), 8)[0] != torch.arange(20)[:, None]).all()
    assert nearest_by_distance(clouds[:, :4], 8).shape == (3, 4, 3)
    assert GatheredGraph(clouds[:, :1], 8).mean(x[:3]).eq(0).all()


def test_rows_without_gradient_change_nothing():
    torch.manual_seed(0)
    x, y = (torch.randn(60, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weights = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 5), (4,), (4, 5))]
    target = torch.randn(3, 4, dtype=torch.float64)

    def gradients(output):
        pooled = torch.tanh(output).unflatten(0, (3, 20)).amax(1)
        return torch.autograd.grad(((pooled - target) ** 2).sum(), [x, y, *weights])

    few = gradients(TwoProducts.apply(x, y, *weights))
    assert few[0].ne(0).any(1).sum() <= 12
    for one, other in zip(few, gradients(x @ weights[0].t() + weights[1] + y @ weights[2].t()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("self_loops", [False, True])
def test_the_graph_model_is_the_plain_composition(self_loops):
    settings = variant(model="graph", width=7, neighbours=3, dropout=0.5, self_loops=self_loops)
    torch.manual_seed(0)
    encoder, clouds = CloudNet(settings, 40).encoder, torch.randn(4, 15, 3)
    graph = make_graph(clouds, 3)

    def plain():
        x = clouds
        for layer in encoder.layers:
            rows = x.flatten(0, 1)
            mean = NeighbourMean.apply(rows, graph)
            if self_loops:  # a node counts as one of the four that are averaged
                rows = layer.node(torch.stack([rows, mean, mean, mean]).mean(0))
            else:
                rows = layer.node(rows) + layer.neighbours(mean)
            x = encoder.dropout(torch.nn.functional.elu(rows).view(4, 15, -1))
        return x.amax(1)

    results = []
    for forward in (plain, lambda: encoder(clouds)):
        torch.manual_seed(1)
        output = forward()
        results.append([output, *torch.autograd.grad(output.square().sum(), list(encoder.parameters()))])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("chunk_bytes", [1, 2000, 2**21])
@pytest.mark.parametrize("kind", ["random", "twice", "grid"])
def test_pooling_by_its_winners_is_pooling_over_all(kind, chunk_bytes, monkeypatch):
    monkeypatch.setitem(CHUNK_BYTES, "cpu", chunk_bytes)
    torch.manual_seed(0)
    encoder = PoolingEncoder([3, 8, 7, 5]).double()
    clouds = torch.randn(6, 30, 3, dtype=torch.float64)
    if kind == "twice":
        clouds[:, 10:20] = clouds[:, :10]
    elif kind == "grid":
        # One layer of products of small whole numbers and quarters is exact: what ties does so in every order.
        encoder = PoolingEncoder([3, 5]).double()
        clouds = clouds.round()
        for parameter in encoder.parameters():
            parameter.data.copy_(torch.randint(-2, 3, parameter.shape) / 4)
    clouds.requires_grad_()
    target, wanted = torch.randn(6, 5, dtype=torch.float64), [clouds, *encoder.parameters()]
    outputs = [encoder(clouds), encoder.plain(clouds)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(((output - target) ** 2).sum(), wanted) for output in outputs]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    if kind == "twice":
        torch.testing.assert_close(gradients[0][0][:, 10:20], gradients[0][0][:, :10])


def test_pooling_keeps_its_winners_alone():
    encoder, clouds, kept = PoolingEncoder([3, 8, 8]), torch.randn(4, 1000, 3), []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        output = encoder(clouds)
    assert max(len(saved) for saved in kept) <= 4 * 8
    first, second = encoder.layers
    torch.testing.assert_close(output, torch.tanh(second(torch.tanh(first(clouds)))).amax(1))
    with torch.no_grad():
        assert torch.equal(encoder(clouds), output)
    with torch.autocast("cpu", torch.bfloat16):
        assert encoder(clouds).dtype == torch.bfloat16
