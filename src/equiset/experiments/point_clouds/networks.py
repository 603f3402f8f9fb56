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
            x = x @ turn.to(x.dtype)
        return x * factor


def _uniform(x: Tensor, *shape: int) -> Tensor:
    """Return random numbers from 0 to 1 for each cloud of `x`: (clouds, *shape)."""
    return shares.draw(len(x), lambda clouds: torch.rand(clouds, *shape, device=x.device))


class RowLinear(nn.Linear):
    """`torch.nn.Linear` on rows, whose backward pass multiplies only the rows that have a gradient.

    A maximum over the members gives a gradient to one member for each channel and exactly zero to all others.
    """

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        return _RowLinear.apply(x, self.weight, self.bias)


class _RowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return F.linear(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = gradient.ne(0).any(1).nonzero().squeeze(1)
        some, before = (gradient, x) if len(rows) == len(x) else (gradient[rows], x[rows])
        passed = None
        if ctx.needs_input_grad[0]:
            passed = some @ weight
            if len(rows) < len(x):
                passed = torch.zeros_like(x).index_copy_(0, rows, passed)
        return passed, some.T @ before, some.sum(0) if ctx.biased else None


class PoolingEncoder(nn.Module):
    """Fully connected layers, the same for each member, then the maximum: (batch, members, 3) -> (batch, width)."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.layers = nn.ModuleList(RowLinear(*pair) for pair in pairwise(widths))
        self.pool = SetPool("max")

    def forward(self, clouds: Tensor) -> Tensor:
        x = clouds.flatten(0, 1)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.pool(x.unflatten(0, clouds.shape[:2]))


class GraphLayer(nn.Module):
    """y = x L + A x G + b, where A x is the mean over the neighbours: the set layer with A in place of 1 1^T.

    Shapes: (nodes of all clouds, in) -> (nodes of all clouds, out).
    """

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.node = RowLinear(in_features, out_features)
        self.neighbours = RowLinear(in_features, out_features, bias=False)

    def forward(self, x: Tensor, graph: "Graph") -> Tensor:
        return self.node(x) + self.neighbours(NeighbourMean.apply(x, graph))


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
        return torch.sparse.mm(graph.forward, x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.sparse.mm(ctx.graph.backward, gradient.contiguous()), None


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
        graph = Graph(clouds.detach().cpu().numpy(), self.neighbours, clouds.device)
        x = clouds
        for layer in self.layers:
            x = F.elu(layer(x.flatten(0, 1), graph)).view(batch, nodes, -1)
            x = self.dropout(x)
        return self.pool(x)


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
