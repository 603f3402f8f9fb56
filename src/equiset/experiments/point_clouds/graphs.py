"""The graphs of nearest neighbours of a batch of clouds, and the mean over the neighbours of each node."""

import warnings
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from scipy.spatial import cKDTree
from torch import Tensor

from equiset.nn.ways import may_look

_AT_ONCE = 2**28  # bytes of distances


class Graph(Protocol):
    """A x, where each row of A has 1 / neighbours at the neighbours of a node; (nodes of all clouds, channels)."""

    degree: int
    """Neighbours of each node."""

    def mean(self, x: Tensor) -> Tensor: ...

    def sum_back(self, gradient: Tensor) -> Tensor:
        """Multiply by the transpose of A."""


def make_graph(clouds: Tensor, neighbours: int) -> Graph:
    """Return the graph of (batch, points, 3); where points are equally far, the two kinds may choose others."""
    return SparseGraph(clouds.numpy(), neighbours) if may_look(clouds) else GatheredGraph(clouds, neighbours)


class SparseGraph:
    """One sparse matrix, row-normalised, with its transpose: for a CPU."""

    def __init__(self, clouds: np.ndarray, neighbours: int):
        nodes = clouds.shape[1]
        near = np.concatenate([nearest(cloud, neighbours) + number * nodes for number, cloud in enumerate(clouds)])
        size, self.degree = near.shape
        shape = (size, size)
        values = np.full(near.size, 1 / max(self.degree, 1), dtype=np.float32)
        forward = csr_array((values, near.ravel(), self.degree * np.arange(size + 1)), shape)
        # Columns in order are the rows of the transpose.
        backward = forward.tocsc()
        self.matrix, self.transposed = _to_torch(forward), _to_torch(backward)

    def mean(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(self.matrix, x)

    def sum_back(self, gradient: Tensor) -> Tensor:
        return torch.sparse.mm(self.transposed, gradient)


def _to_torch(matrix: csr_array) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # torch calls its support a beta
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices), torch.from_numpy(matrix.data),
            matrix.shape,
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


class GatheredGraph:
    """Lists of neighbours, of each node and of those that have it as theirs: for a GPU, which never waits.

    Both are summed by `embedding_bag`, which adds the rows of a list one after the other: the same bits every time.
    """

    def __init__(self, clouds: Tensor, neighbours: int):
        batch, points, _ = clouds.shape
        near = nearest_by_distance(clouds, neighbours)
        first = torch.arange(0, batch * points, points, device=clouds.device)
        self.near = (near + first.view(-1, 1, 1)).flatten(0, 1)
        size, self.degree = self.near.shape
        nodes = torch.arange(size + 1, device=clouds.device)
        self.starts = nodes * self.degree
        # In the order of the neighbours, the lists of those that have them.
        of, order = self.near.flatten().sort(stable=True)
        self.back, self.back_starts = order // max(self.degree, 1), torch.searchsorted(of, nodes)

    def mean(self, x: Tensor) -> Tensor:
        return self._sum(self.near.flatten(), self.starts, x)

    def sum_back(self, gradient: Tensor) -> Tensor:
        return self._sum(self.back, self.back_starts, gradient)

    def _sum(self, numbers: Tensor, starts: Tensor, x: Tensor) -> Tensor:
        return F.embedding_bag(numbers, x, starts, mode="sum", include_last_offset=True) / max(self.degree, 1)


def nearest_by_distance(clouds: Tensor, neighbours: int) -> Tensor:
    """Return what `nearest` does for all clouds at once, (batch, points, neighbours), from all distances."""
    points = clouds.shape[1]
    neighbours = min(neighbours, points - 1)
    found = []
    for some in clouds.split(max(1, _AT_ONCE // (points**2 * clouds.element_size()))):
        # From differences: products, which would be quicker, lose the digits that tell close points apart.
        distance = torch.cdist(some, some, compute_mode="donot_use_mm_for_euclid_dist")
        distance.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        found.append(distance.topk(neighbours, dim=2, largest=False).indices)
    return torch.cat(found)


class NeighbourMean(torch.autograd.Function):
    """A x; backwards by the transpose, which is made once for all layers."""

    @staticmethod
    def forward(ctx, x: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        return _in_float32(graph.mean, x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return _in_float32(ctx.graph.sum_back, gradient.contiguous()), None


def _in_float32(product: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    # There is no sparse product in half precision, which autocast would ask for.
    with torch.autocast(x.device.type, enabled=False):
        return product(x.float()).to(x.dtype)
