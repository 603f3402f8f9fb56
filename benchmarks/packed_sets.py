"""An epoch on clusters of different sizes: python benchmarks/packed_sets.py

The redshift network (17-128-128-128-1, dropout, squared loss, Adam) on batches of 128 simulated clusters, packed and,
as the rival, padded to the longest cluster of the batch with a mask.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn

from equiset.data.redmapper import RedmapperSettings, fetch, prepare
from equiset.experiments.redshift.sets import make_sets
from equiset.experiments.redshift.settings import RedshiftSets, RedshiftVariant
from equiset.experiments.redshift.task import Task
from equiset.nn import SetLayer
from equiset.nn.sets import PackedSets

CLUSTERS = 1200
SETTINGS = RedshiftVariant.model_validate(
    {
        "sets": "clusters",
        "model": "set",
        "channels": [128] * 3,
        "dropout": 0.5,
        "training": {"epochs": 1, "batch_size": 128, "optimizer": {"learning_rate": 0.001}},
    }
)


class Padded(nn.Module):
    """The same network for (batch, longest, channels) with a mask; it takes and gives packed sets."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.layers = network.layers

    def forward(self, sets: PackedSets) -> Tensor:
        x, mask = sets.to_dense()
        absent = ~mask.unsqueeze(2)
        for layer in self.layers:
            if isinstance(layer, SetLayer):
                largest = x.masked_fill(absent, -torch.inf).amax(1, keepdim=True)
                x = F.linear(x - largest, layer.weight, layer.bias)
                x = x if layer.activation is None else layer.activation(x)
            else:
                x = layer(x)
        return x[mask].squeeze(1)


def make_clusters(folder: Path) -> None:
    prepare(fetch(RedmapperSettings(source="stand-in", stand_in={"clusters": CLUSTERS}), folder), folder / "store")
    make_sets(RedshiftSets(test_share=0.1), 0, folder / "store", folder / "sets")


def epoch_of(padded: bool) -> Callable[[Path], Step]:
    def prepare(folder: Path) -> Step:
        task = Task(SETTINGS, folder / "store", folder / "sets", torch.device("cpu"))
        batches = list(task.train_batches(torch.Generator().manual_seed(0)))
        network = task.build_model()
        if padded:
            plain, network = network, Padded(network)
            torch.testing.assert_close(plain.eval()(batches[0][0]), network.eval()(batches[0][0]))
        optimizer = torch.optim.Adam(network.parameters())

        def step() -> None:
            for batch in batches:
                loss, _ = task.loss(network.train(), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return step

    return prepare


def products(folder: Path) -> Step:
    task = Task(SETTINGS, folder / "store", folder / "sets", torch.device("cpu"))
    sizes = [len(batch[0].rows) for batch in task.train_batches(torch.Generator().manual_seed(0))]
    weights = [torch.randn(out, into) for into, out in pairwise([17, 128, 128, 128, 1])]

    def step() -> None:
        for rows in sizes:
            for weight in weights:
                x, grad = torch.ones(rows, weight.shape[1]), torch.ones(rows, weight.shape[0])
                _ = x @ weight.t(), grad @ weight, grad.t() @ x

    return step


BENCHMARKS = [
    Benchmark(
        "packed sets, an epoch of the redshift network",
        (
            Form("PackedSets", epoch_of(padded=False), kept=True),
            Form("padded to the longest, with a mask", epoch_of(padded=True), kept=True),
            Form("bare matrix products of the packed members", products, kept=True, limit=True),
        ),
        bar=3,
        prepare=make_clusters,
    )
]

if __name__ == "__main__":
    main(BENCHMARKS)
