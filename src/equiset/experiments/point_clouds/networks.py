"""The networks of Table 1."""

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from equiset.experiments.point_clouds.settings import CloudVariant
from equiset.nn import SetDropout, SetEncoder, SetNorm, SetPool, shares
from equiset.nn.encoder import CHUNK_BYTES


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
            angle = self.angle * (2 * _uniform(x) - 1) if self.angle else 0.0
            span = 1 / self.least - self.least
            factor = self.least + span * _uniform(x, 1, self.axes) if span else 1.0
        if not isinstance(angle, Tensor):
            angle = torch.full((len(x),), angle, device=x.device)
        if angle.any():
            cos, sin = angle.cos(), angle.sin()
            zero, one = torch.zeros_like(cos), torch.ones_like(cos)
            turn = torch.stack([cos, sin, zero, -sin, cos, zero, zero, zero, one], dim=1).view(-1, 3, 3)
            # Coordinates keep their digits, whatever the network computes in.
            with torch.autocast(x.device.type, enabled=False):
                x = x @ turn.to(x.dtype)
        return x * factor


def _uniform(x: Tensor, *shape: int) -> Tensor:
    """Return random numbers from 0 to 1 for each cloud of `x`: (clouds, *shape)."""
    return shares.draw(len(x), lambda clouds: torch.rand(clouds, *shape, device=x.device))


class PoolingEncoder(nn.Module):
    """Fully connected layers, the same for each member, then the maximum: (batch, members, 3) -> (batch, width).

    Only members that win a channel have a gradient. They are found first, a few clouds at a time and without gradient;
    then they alone go through the layers again. Members that share a maximum share its gradient evenly.
    """

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        # In half precision many members tie that differ in float32: there all of them count.
        if torch.is_autocast_enabled(clouds.device.type):
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

    Shapes: (nodes of all clouds, in) -> (nodes of all clouds, out).
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.node = nn.Linear(in_features, out_features)
        self.neighbours = nn.Linear(in_features, out_features, bias=False)

    def forward(self, x: Tensor, graph: "Graph") -> Tensor:
        mean = NeighbourMean.apply(x, graph)
        if torch.is_autocast_enabled(x.device.type):
            return self.node(x) + self.neighbours(mean)
        return TwoProducts.apply(x, mean, self.node.weight, self.node.bias, self.neighbours.weight)


class TwoProducts(torch.autograd.Function):
    """x L^T + y G^T + b, whose backward pass multiplies only the rows that have a gradient.

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
        rows = gradient.ne(0).any(1).nonzero().squeeze(1)
        few = len(rows) < len(x)
        some = gradient[rows] if few else gradient
        passed, weight_grads = [], []
        for given, weight, wanted in zip((x, y), weights, ctx.needs_input_grad[:2], strict=True):
            weight_grads.append(some.t() @ (given[rows] if few else given))
            down = some @ weight if wanted else None
            passed.append(torch.zeros_like(given).index_copy_(0, rows, down) if wanted and few else down)
        return *passed, weight_grads[0], some.sum(0), weight_grads[1]


class Graph:
    """The nearest-neighbour graphs of a batch of clouds as one sparse matrix, row-normalised, with its transpose."""

    def __init__(self, clouds: np.ndarray, neighbours: int, device: torch.device):
        nodes = clouds.shape[1]
        near = np.concatenate([nearest(cloud, neighbours) + number * nodes for number, cloud in enumerate(clouds)])
        size, degree = near.shape
        shape = (size, size)
        values = np.full(near.size, 1 / max(degree, 1), dtype=np.float32)
        forward = csr_array((values, near.ravel(), degree * np.arange(size + 1)), shape)
        # Columns in order are the rows of the transpose.
        backward = forward.tocsc()
        self.forward, self.backward = (_to_torch(matrix, device) for matrix in (forward, backward))


def _to_torch(matrix: csr_array, device: torch.device) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # torch calls its support a beta
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices), torch.from_numpy(matrix.data),
            matrix.shape, device=device,
        )  # fmt: skip


def nearest(cloud: np.ndarray, neighbours: int) -> np.ndarray:
    """Return the numbers of the nearest other points of each point: (points, neighbours), fewer in a small cloud."""
    neighbours = min(neighbours, len(cloud) - 1)
    if neighbours < 1:
        return np.empty((len(cloud), 0), dtype=np.int64)
    found = cKDTree(cloud).query(cloud, neighbours + 1)[1]
    others = found != np.arange(len(cloud))[:, None]
    # A point that coincides with many others may not be among its own neighbours: then the farthest goes.
    others[others.all(axis=1), -1] = False
    return found[others].reshape(len(cloud), neighbours)


class NeighbourMean(torch.autograd.Function):
    """A x by sparse multiplication; backwards by the transpose, which is made once for all layers."""

    @staticmethod
    def forward(ctx, x: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return _sparse_product(graph.forward, x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return _sparse_product(ctx.graph.backward, gradient.contiguous()), None


def _sparse_product(matrix: Tensor, x: Tensor) -> Tensor:
    # There is no sparse product in half precision, which autocast would ask for.
    with torch.autocast(x.device.type, enabled=False):
        return torch.sparse.mm(matrix, x.float()).to(x.dtype)


class GraphEncoder(nn.Module):
    """Graph layers with ELU and dropout of channels, then the maximum over the nodes of each cloud."""

    def __init__(self, settings: CloudVariant):
        super().__init__()
        widths = [3] + [settings.width] * settings.layers
        self.neighbours = settings.neighbours
        self.layers = nn.ModuleList(GraphLayer(before, after) for before, after in pairwise(widths))
        self.dropout = SetDropout(settings.dropout)
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        batch, nodes, _ = clouds.shape
        graph = Graph(clouds.detach().float().cpu().numpy(), self.neighbours, clouds.device)
        x = self.layers[0](clouds.flatten(0, 1), graph)
        for layer in self.layers[1:]:
            x = self.dropout(F.elu(x).view(batch, nodes, -1))
            x = layer(x.flatten(0, 1), graph)
        # ELU grows, and dropout multiplies all nodes of a cloud alike: both commute with the maximum.
        x = self.pool(x.view(batch, nodes, -1))
        return self.dropout(F.elu(x).unsqueeze(1)).squeeze(1)


class Divided(nn.Module):
    """A weight as the learnt one over a number: it starts divided, and moves by steps that are divided."""

    def __init__(self, by: int):
        super().__init__()
        self.by = by

    def forward(self, weight: Tensor) -> Tensor:
        return weight / self.by


def make_encoder(settings: CloudVariant, particles: int | None = None) -> nn.Module:
    """Return what turns (batch, particles, 3) into (batch, width)."""
    if settings.model == "graph":
        return GraphEncoder(settings)
    widths = [3] + [settings.width] * settings.layers
    if settings.model == "set-pooling":
        return PoolingEncoder(widths)
    encoder = SetEncoder(widths, settings.form, "tanh", "max", dropout=settings.set_dropout)
    if settings.set_weight == "by-set-size":
        for layer in encoder.layers:
            register_parametrization(layer, "set_weight", Divided(particles))
    return encoder


class CloudNet(nn.Module):
    """(batch, particles, 3) -> (batch, classes) logits.

    Args:
        settings: which network, and its sizes.
        classes: number of classes.
        particles: of a training cloud; needed by weights that are learnt `by-set-size` alone.
    """

    def __init__(self, settings: CloudVariant, classes: int, particles: int | None = None):
        super().__init__()
        graph = settings.model == "graph"
        self.norm = SetNorm()
        self.transformation = Transformation(settings)
        self.encoder = make_encoder(settings, particles)
        self.head = nn.Sequential(
            # The graph layers have had their dropout before the pooling.
            nn.Identity() if graph else nn.Dropout(settings.dropout),
            nn.Linear(settings.width, settings.dense),
            nn.ELU() if graph else nn.Tanh(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.dense, classes),
        )

    def forward(self, clouds: Tensor) -> Tensor:
        return self.head(self.encoder(self.transformation(self.norm(clouds))))
