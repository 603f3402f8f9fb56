"""Time graph convolutions: python benchmarks/graph_layer.py [--batch N] [--repeats N] [--threads N]

Three graph layers of 256 channels with a maximum over the nodes, forward and backward, on 8-nearest-neighbour graphs
of 1000 points. Sparse multiplication against gathering the rows of the neighbours; both take turns in one process.
The set layers of the same size stand beside them (claim P10: the graph convolution is much slower).
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.experiments.point_clouds.task import Graph, GraphLayer, nearest
from equiset.nn import SetEncoder
from equiset.process import keep_freed_memory


def sparse(x: Tensor, layers: nn.ModuleList, graph: Graph) -> Tensor:
    batch, nodes, _ = x.shape
    h = x.flatten(0, 1)
    for layer in layers:
        h = F.elu(layer(h, graph))
    return h.view(batch, nodes, -1).amax(1)


def gather(x: Tensor, layers: nn.ModuleList, near: Tensor) -> Tensor:
    batch, nodes, _ = x.shape
    h = x.flatten(0, 1)
    for layer in layers:
        own = F.linear(h, layer.node.weight, layer.node.bias)
        h = F.elu(own + F.linear(h[near].mean(1), layer.neighbours.weight))
    return h.view(batch, nodes, -1).amax(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    x = torch.randn(options.batch, 1000, 3)
    near = torch.cat([torch.from_numpy(nearest(cloud.numpy(), 8)) + 1000 * i for i, cloud in enumerate(x)])
    graph = Graph(x.numpy(), 8, x.device)
    layers = nn.ModuleList([GraphLayer(3, 256), GraphLayer(256, 256), GraphLayer(256, 256)])
    encoder = SetEncoder([3, 256, 256, 256])
    torch.testing.assert_close(sparse(x, layers, graph), gather(x, layers, near), rtol=1e-3, atol=1e-4)
    forms = {
        "gather": lambda: gather(x, layers, near),
        "sparse": lambda: sparse(x, layers, graph),
        "sparse, with the search for neighbours": lambda: sparse(x, layers, Graph(x.numpy(), 8, x.device)),
        "set layers": lambda: encoder(x),
    }
    rounds = []
    for _ in range(options.repeats + 1):
        taken = {}
        for name, form in forms.items():
            start = time.process_time()
            form().sum().backward()
            taken[name] = time.process_time() - start
        rounds.append(taken)
    rounds = rounds[1:]
    print(f"torch {torch.__version__}, {options.threads} threads, batch {options.batch}, CPU time of all threads\n")
    print("| form | median ms | ratio to gather |\n|---|---|---|")
    for name in forms:
        ratio = statistics.median(taken["gather"] / taken[name] for taken in rounds)
        print(f"| {name} | {1000 * statistics.median(taken[name] for taken in rounds):.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
