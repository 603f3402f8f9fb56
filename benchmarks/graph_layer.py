"""Graph convolutions, forward and backward: python benchmarks/graph_layer.py

Three graph layers of 256 channels with a maximum over the nodes, on 8-nearest-neighbour graphs of 1000 points. Ours
multiplies by a sparse matrix, with its transpose kept for the way back, and passes on only rows that have a gradient.
The rivals gather the rows of the neighbours, use torch.sparse as it comes, and PyTorch Geometric if it is installed.
The set layers of the same size stand beside them (claim P10: the graph convolution is much slower).
"""

import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn

from equiset.experiments.point_clouds.graphs import make_graph, nearest
from equiset.experiments.point_clouds.networks import GraphLayer
from equiset.nn import SetEncoder

BATCH, NODES, NEIGHBOURS, WIDTH = 32, 1000, 8, 256
Forward = Callable[[], Tensor]


def clouds() -> Tensor:
    return torch.randn(BATCH, NODES, 3)


def neighbours_of(x: Tensor) -> Tensor:
    return torch.cat([torch.from_numpy(nearest(cloud.numpy(), NEIGHBOURS)) + NODES * i for i, cloud in enumerate(x)])


def layers() -> nn.ModuleList:
    return nn.ModuleList([GraphLayer(3, WIDTH), GraphLayer(WIDTH, WIDTH), GraphLayer(WIDTH, WIDTH)])


def through(x: Tensor, each: Callable[[GraphLayer, Tensor], Tensor], stack: nn.ModuleList) -> Tensor:
    h = x.flatten(0, 1)
    for layer in stack:
        h = F.elu(each(layer, h))
    return h.view(BATCH, NODES, -1).amax(1)


def ours(x: Tensor) -> Forward:
    graph, stack = make_graph(x, NEIGHBOURS), layers()
    return lambda: through(x, lambda layer, h: layer(h, graph), stack)


def ours_with_search(x: Tensor) -> Forward:
    stack = layers()

    def forward() -> Tensor:
        graph = make_graph(x, NEIGHBOURS)
        return through(x, lambda layer, h: layer(h, graph), stack)

    return forward


def plain(layer: GraphLayer, h: Tensor, near: Tensor) -> Tensor:
    return F.linear(h, layer.node.weight, layer.node.bias) + F.linear(near, layer.neighbours.weight)


def gather(x: Tensor) -> Forward:
    near, stack = neighbours_of(x), layers()
    return lambda: through(x, lambda layer, h: plain(layer, h, h[near].mean(1)), stack)


def torch_sparse(x: Tensor) -> Forward:
    near, stack = neighbours_of(x), layers()
    rows = torch.arange(len(near)).repeat_interleave(NEIGHBOURS)
    values = torch.full((near.numel(),), 1 / NEIGHBOURS)
    warnings.filterwarnings("ignore", "Sparse")  # torch calls its support a beta
    matrix = torch.sparse_coo_tensor(torch.stack([rows, near.flatten()]), values, (len(near),) * 2).coalesce()
    return lambda: through(x, lambda layer, h: plain(layer, h, torch.sparse.mm(matrix, h)), stack)


def geometric(x: Tensor) -> Forward:
    from torch_geometric.nn import GraphConv

    near = neighbours_of(x)
    edges = torch.stack([near.flatten(), torch.arange(len(near)).repeat_interleave(NEIGHBOURS)])
    stack = nn.ModuleList(GraphConv(into, WIDTH, aggr="mean") for into in (3, WIDTH, WIDTH))
    return lambda: through(x, lambda layer, h: layer(h, edges), stack)


def set_layers(x: Tensor) -> Forward:
    encoder = SetEncoder([3, WIDTH, WIDTH, WIDTH])
    return lambda: encoder(x)


def step_of(make: Callable[[Tensor], Forward]) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        forward = make(clouds())
        return lambda: forward().sum().backward()

    return prepare


def products(_: Path) -> Step:
    rows = BATCH * NODES
    x, grad, weight = torch.randn(rows, WIDTH), torch.randn(rows, WIDTH), torch.randn(WIDTH, WIDTH)

    def step() -> None:
        for _ in range(4):  # two layers with two weights each; the first has three channels
            _ = x @ weight, grad @ weight, grad.t() @ x

    return step


GEOMETRIC = [Form("PyTorch Geometric, GraphConv", step_of(geometric), kept=True)]
BENCHMARKS = [
    Benchmark(
        f"graph layers, {BATCH} x {NODES}, {NEIGHBOURS} neighbours",
        (
            Form("sparse matrix and its transpose, rows with gradient", step_of(ours), kept=True),
            Form("gathered neighbours", step_of(gather), kept=True),
            Form("torch.sparse (COO)", step_of(torch_sparse), kept=True),
            *(GEOMETRIC if importlib.util.find_spec("torch_geometric") else []),
            Form("ours with the search for neighbours", step_of(ours_with_search), kept=True),
            Form("set layers of the same size (SetEncoder)", step_of(set_layers), kept=True),
            Form("bare matrix products", products, kept=True, limit=True),
        ),
        bar=1.8,
        rounds=3,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
