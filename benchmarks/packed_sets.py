"""Time an epoch on clusters of different sizes: python benchmarks/packed_sets.py [--clusters N] [--threads N]

The redshift network (17-128-128-128-1, dropout, squared loss, Adam) on batches of 128 simulated clusters, packed and,
as the rival, padded to the longest cluster of the batch with a mask. The two take turns batch by batch.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.data.redmapper import RedmapperSettings, fetch, prepare
from equiset.experiments.redshift.sets import make_sets
from equiset.experiments.redshift.settings import RedshiftSets, RedshiftVariant
from equiset.experiments.redshift.task import Task
from equiset.nn import SetLayer
from equiset.process import keep_freed_memory
from equiset.sets import PackedSets


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    training = {"epochs": 1, "batch_size": 128, "optimizer": {"learning_rate": 0.001}}
    values = {"sets": "clusters", "model": "set", "channels": [128] * 3, "dropout": 0.5, "training": training}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        twin = {"clusters": options.clusters}
        prepare(fetch(RedmapperSettings(source="twin", twin=twin), folder), folder / "store")
        make_sets(RedshiftSets(test_share=0.1), 0, folder / "store", folder / "sets")
        task = Task(RedshiftVariant.model_validate(values), folder / "store", folder / "sets", torch.device("cpu"))
        batches = list(task.train_batches(torch.Generator().manual_seed(0)))
    networks = {"packed": task.build_model(), "padded with a mask": Padded(task.build_model())}
    optimizers = {name: torch.optim.Adam(network.parameters()) for name, network in networks.items()}
    check = [network.eval()(batches[0][0]) for network in (networks["packed"], Padded(networks["packed"]))]
    torch.testing.assert_close(*check)

    seconds = dict.fromkeys(networks, 0.0)
    for number, batch in enumerate([batches[0], *batches]):
        for name, network in networks.items():
            start = time.perf_counter()
            loss, _ = task.loss(network.train(), batch)
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
            seconds[name] += (time.perf_counter() - start) * (number > 0)
    print(f"torch {torch.__version__}, {options.threads} threads, {len(batches)} batches such as {batches[0][0]}")
    print("| an epoch | s | times faster |\n|---|---|---|")
    for name, taken in seconds.items():
        print(f"| {name} | {taken:.2f} | {seconds['padded with a mask'] / taken:.2f} |")


if __name__ == "__main__":
    main()
