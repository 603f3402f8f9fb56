"""The networks of Table 1, and two later ones."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from equiset.experiments.point_clouds.graphs import Graph, NeighbourMean, make_graph
from equiset.experiments.point_clouds.settings import HEADS, CloudVariant
from equiset.nn import SetDropout, SetEncoder, SetNorm, SetPool
from equiset.nn.ways import may_look
from equiset.nn.winning_rows import CHUNK_BYTES


def build_network(settings: CloudVariant, sets: dict[str, Any]) -> "CloudNet":
    """Return the network of a variant with its first weights; `sets` is the content of `sets.json`."""
    return CloudNet(settings, sets["classes"], sets["particles"])


def input_shape(settings: CloudVariant, sets: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of what the network takes; -1 is free."""
    return (-1, -1, 3)


class Transformation(nn.Module):
    """Turns clouds about z and scales them: at random while training, else as `fixed` says.

    It stands behind the normalisation, which would undo a scaling; a rotation commutes with it.
    """

    def __init__(self, settings: CloudVariant):
        super().__init__()
        self.angle = float(np.radians(settings.rotation_degrees))
        self.least = settings.scale
        self.axes = 3 if settings.scale_axes == "separately" else 1
        self.fixed = (0.0, 1.0)
        """Angle in radians and factor of evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        angle, factor = self.fixed
        if self.training:
            angle = self.angle * (2 * torch.rand(len(x), device=x.device) - 1) if self.angle else 0.0
            span = 1 / self.least - self.least
            factor = self.least + span * torch.rand(len(x), 1, self.axes, device=x.device) if span else 1.0
        # Whether there is anything to turn is known without the angles themselves, which a GPU would be waited for.
        if isinstance(angle, Tensor) or angle:
            if not isinstance(angle, Tensor):
                angle = torch.full((len(x),), angle, device=x.device)
            cos, sin = angle.cos(), angle.sin()
            zero, one = torch.zeros_like(cos), torch.ones_like(cos)
            turn = torch.stack([cos, sin, zero, -sin, cos, zero, zero, zero, one], dim=1).view(-1, 3, 3)
            # Coordinates keep their digits, whatever the network computes in.
            with torch.autocast(x.device.type, enabled=False):
                x = x @ turn.to(x.dtype)
        return x * factor


class PoolingEncoder(nn.Module):
    """Fully connected layers, the same for each member, then the maximum: (batch, members, 3) -> (batch, width).

    Only members that win a channel have a gradient. They are found first, a few clouds at a time and without gradient;
    then they alone go through the layers again; all of them do where it may not `look`. Members that share a maximum
    share its gradient evenly.
    """

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        # In half precision many members tie that differ in float32: there all of them count.
        if torch.is_autocast_enabled(clouds.device.type) or not may_look(clouds):
            return self.plain(clouds)
        winners, wins = self._find_winners(clouds.detach())
        number = winners.nonzero()[:, 0]
        ties = wins.new_zeros(len(clouds), wins.shape[1]).index_add_(0, number, wins)
        shares = wins.div_(ties.index_select(0, number))
        return torch.tanh(torch.zeros_like(ties).index_add(0, number, self._before_tanh(clouds[winners]) * shares))

    def plain(self, clouds: Tensor) -> Tensor:
        """Do the same with all members."""
        return torch.tanh(self.pool(self._before_tanh(clouds)))

    def _before_tanh(self, x: Tensor) -> Tensor:
        """Apply the layers up to the last tanh, which grows and so commutes with the maximum."""
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return self.layers[-1](x)

    @torch.no_grad()
    def _find_winners(self, clouds: Tensor) -> tuple[Tensor, Tensor]:
        """Say which members win a channel, (batch, members), and for these which, 0 or 1: (winners, width)."""
        layers = [(layer.weight, layer.bias) for layer in self.layers]
        # tanh z = -2 (1 / (1 + exp(2 z)) - 1/2) takes half the time of tanh; the factors go into the weights.
        layers = layers[:1] + [(-2 * weight, bias) for weight, bias in layers[1:]]
        layers = [(2 * weight, 2 * bias) for weight, bias in layers[:-1]] + layers[-1:]
        cloud_bytes = clouds.shape[1] * max(len(bias) for _, bias in layers) * clouds.element_size()
        at_once = max(CHUNK_BYTES.get(clouds.device.type, 2**28) // cloud_bytes, 1)
        winners, wins = [], []
        for chunk in clouds.split(at_once):
            x = chunk.flatten(0, 1)
            for weight, bias in layers[:-1]:
                x = F.linear(x, weight, bias).exp_().add_(1).reciprocal_().sub_(0.5)
            x = F.linear(x, *layers[-1]).unflatten(0, chunk.shape[:2])
            x.sub_(x.amax(1, keepdim=True))
            # Written so that NaN wins too.
            winners.append(x.amax(2).lt(0).logical_not_())
            wins.append(x[winners[-1]].lt(0).logical_not_())
        return torch.cat(winners), torch.cat(wins).to(clouds.dtype)


class GraphLayer(nn.Module):
    """y = x L + A x G + b, where A x is the mean over the neighbours: the set layer with A in place of 1 1^T.

    With self-loops, y = A' x G + b, where A' x is the mean over a node and its neighbours: Kipf and Welling's
    normalised adjacency, in which all nodes of this graph have the same degree.

    Shapes: (nodes of all clouds, in) -> (nodes of all clouds, out).
    """

    def __init__(self, in_features: int, out_features: int, self_loops: bool = False):
        super().__init__()
        self.node = nn.Linear(in_features, out_features)
        self.neighbours = None if self_loops else nn.Linear(in_features, out_features, bias=False)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        mean = NeighbourMean.apply(x, graph)
        if self.neighbours is None:
            return self.node((x + graph.degree * mean) / (graph.degree + 1))
        if torch.is_autocast_enabled(x.device.type):
            return self.node(x) + self.neighbours(mean)
        return TwoProducts.apply(x, mean, self.node.weight, self.node.bias, self.neighbours.weight)


class TwoProducts(torch.autograd.Function):
    """x L^T + y G^T + b, whose backward pass multiplies only the rows that have a gradient, where it `may_look`.

    A maximum over the members gives a gradient to one member for each channel and exactly zero to all others.
    """

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, weight_y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y, weight, weight_y)
        return torch.addmm(bias, x, weight.t()).addmm_(y, weight_y.t())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, y, *weights = ctx.saved_tensors
        rows = gradient.ne(0).any(1).nonzero().squeeze(1) if may_look(gradient) else None
        few = rows is not None and len(rows) < len(x)
        some = gradient[rows] if few else gradient
        passed, weight_grads = [], []
        for given, weight, wanted in zip((x, y), weights, ctx.needs_input_grad[:2], strict=True):
            weight_grads.append(some.t() @ (given[rows] if few else given))
            down = some @ weight if wanted else None
            passed.append(torch.zeros_like(given).index_copy_(0, rows, down) if wanted and few else down)
        return *passed, weight_grads[0], some.sum(0), weight_grads[1]


class GraphEncoder(nn.Module):
    """Graph layers with ELU and dropout of channels, then the maximum over the nodes of each cloud."""

    def __init__(self, settings: CloudVariant):
        super().__init__()
        widths = [3] + [settings.width] * settings.layers
        self.neighbours = settings.neighbours
        self.layers = nn.ModuleList(GraphLayer(*pair, settings.self_loops) for pair in pairwise(widths))
        self.dropout = SetDropout(settings.dropout)
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        batch, nodes, _ = clouds.shape
        graph = make_graph(clouds.detach().float(), self.neighbours)
        x = self.layers[0](clouds.flatten(0, 1), graph)
        for layer in self.layers[1:]:
            x = self.dropout(F.elu(x).view(batch, nodes, -1))
            x = layer(x.flatten(0, 1), graph)
        # ELU grows, and dropout multiplies all nodes of a cloud alike: both commute with the maximum.
        x = self.pool(x.view(batch, nodes, -1))
        return self.dropout(F.elu(x).unsqueeze(1)).squeeze(1)


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation that takes a single row, of which it has no deviation, by its running values."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


def _dense_layers(widths: Sequence[int]) -> list[nn.Module]:
    """Return fully connected layers, each with batch normalisation and ReLU."""
    return [part for pair in pairwise(widths) for part in (nn.Linear(*pair), BatchNorm(pair[1]), nn.ReLU())]


class PointNetEncoder(nn.Module):
    """PointNet without its two alignment networks (Qi et al. 2017): layers of each point alone, then the maximum.

    They have 64, 64, 64, 128 and 1024 channels if `width` is 1024.
    """

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(*_dense_layers([3, width // 16, width // 16, width // 16, width // 8, width]))
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        return self.pool(self.layers(clouds.flatten(0, 1)).unflatten(0, clouds.shape[:2]))


class Attention(nn.Module):
    """The Set Transformer's multihead attention block (Lee et al. 2019), without layer normalisation, as in its code
    for point clouds: h = q + softmax(q k^T / sqrt(width)) v for each head, then h + relu(h W + b).

    Shapes: (batch, m, in) queries, (batch, n, in) members -> (batch, m, width).
    """

    def __init__(self, query_width: int, member_width: int, width: int):
        super().__init__()
        self.scale = width**-0.5
        self.query, self.key = nn.Linear(query_width, width), nn.Linear(member_width, width)
        self.value, self.out = nn.Linear(member_width, width), nn.Linear(width, width)

    def forward(self, queries: Tensor, members: Tensor) -> Tensor:
        projected = (self.query(queries), self.key(members), self.value(members))
        q, k, v = (x.unflatten(2, (HEADS, -1)).transpose(1, 2) for x in projected)
        h = q + F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        h = h.transpose(1, 2).flatten(2)
        return h + F.relu(self.out(h))


class InducedAttention(nn.Module):
    """The Set Transformer's ISAB: learnt points look at the members, then each member looks at these points.

    Shapes: (batch, members, in) -> (batch, members, width).
    """

    def __init__(self, in_width: int, width: int, points: int = 16):
        super().__init__()
        self.points = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, points, width)))
        self.gather, self.spread = Attention(width, in_width, width), Attention(in_width, width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.spread(x, self.gather(self.points.expand(len(x), -1, -1), x))


class SetTransformerEncoder(nn.Module):
    """The Set Transformer for ModelNet40: induced attention, then pooling by attention with one learnt query (PMA)."""

    def __init__(self, settings: CloudVariant):
        super().__init__()
        widths = [3] + [settings.width] * settings.layers
        self.layers = nn.Sequential(*(InducedAttention(*pair) for pair in pairwise(widths)))
        self.dropout = nn.Dropout(settings.dropout)
        self.query = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, 1, settings.width)))
        self.pool = Attention(settings.width, settings.width, settings.width)

    def forward(self, clouds: Tensor) -> Tensor:
        members = self.dropout(self.layers(clouds))
        return self.pool(self.query.expand(len(members), -1, -1), members).squeeze(1)


class Divided(nn.Module):
    """A weight as the learnt one over a number: it starts divided, and moves by steps that are divided."""

    def __init__(self, by: int):
        super().__init__()
        self.by = by

    def forward(self, weight: Tensor) -> Tensor:
        return weight / self.by


def make_encoder(settings: CloudVariant, particles: int | None = None) -> nn.Module:
    """Return what turns (batch, particles, 3) into (batch, width)."""
    match settings.model:
        case "graph":
            return GraphEncoder(settings)
        case "pointnet":
            return PointNetEncoder(settings.width)
        case "set-transformer":
            return SetTransformerEncoder(settings)
    widths = [3] + [settings.width] * settings.layers
    if settings.model == "set-pooling":
        return PoolingEncoder(widths)
    encoder = SetEncoder(widths, settings.form, "tanh", "max", dropout=settings.set_dropout)
    if settings.set_weight == "by-set-size":
        for layer in encoder.layers:
            register_parametrization(layer, "set_weight", Divided(particles))
    return encoder


def make_head(settings: CloudVariant, classes: int) -> nn.Sequential:
    """Return what turns (batch, width) into (batch, classes) logits."""
    width, dense, dropout = settings.width, settings.dense, settings.dropout
    match settings.model:
        case "pointnet":
            layers = _dense_layers([width, dense, dense // 2])
            return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(dense // 2, classes))
        case "set-transformer":
            return nn.Sequential(nn.Dropout(dropout), nn.Linear(width, classes))
    # Graph layers have had their dropout before the pooling.
    first, activation = (nn.Identity(), nn.ELU()) if settings.model == "graph" else (nn.Dropout(dropout), nn.Tanh())
    hidden, last = nn.Linear(width, dense), nn.Linear(dense, classes)
    return nn.Sequential(first, hidden, activation, nn.Dropout(dropout), last)


class CloudNet(nn.Module):
    """(batch, particles, 3) -> (batch, classes) logits.

    Args:
        settings: which network, and its sizes.
        classes: number of classes.
        particles: of a training cloud; needed by weights that are learnt `by-set-size` alone.
    """

    def __init__(self, settings: CloudVariant, classes: int, particles: int | None = None):
        super().__init__()
        self.norm = SetNorm()
        self.transformation = Transformation(settings)
        self.encoder = make_encoder(settings, particles)
        self.head = make_head(settings, classes)

    def forward(self, clouds: Tensor) -> Tensor:
        return self.head(self.encoder(self.transformation(self.norm(clouds))))
