"""What `test_parallel.py` does in two processes, and in one to compare: small trainings that depend on everything."""

import os
import signal
import sys
from pathlib import Path

import torch
from torch import nn

from equiset import launch, parallel
from equiset.config.training import Training
from equiset.nn import SetDropout, SetLayer, SetPool
from equiset.nn.sets import PackedSets
from equiset.training.loop import train

CPU = torch.device("cpu")


def training(**changes):
    values = {"epochs": 3, "batch_size": 4, "optimizer": {"learning_rate": 0.01, "eps": 1e-4}} | changes
    return Training.model_validate(values)


class Images:
    """Sets of two images through batch normalisation and every kind of dropout. The last batch is a single set."""

    sets = 13
    shares = True

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(self.sets, 2, 1, 6, 6, generator=generator)
        self.y = self.x.mean((1, 2, 3, 4))

    def build_model(self):
        convolution = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ELU(), nn.Dropout2d(0.3))
        member = nn.Sequential(nn.Flatten(1), nn.Linear(64, 8), nn.Tanh(), nn.Dropout(0.2))
        sets = nn.Sequential(nn.Unflatten(0, (-1, 2)), SetLayer(8, 8, activation="tanh"), SetDropout(0.3))
        single = SetDropout(0.2, simultaneous=False)
        return nn.Sequential(nn.Flatten(0, 1), convolution, member, *sets, single, SetPool("sum"), nn.Linear(8, 1))

    def _batches(self, order):
        for chosen in order.split(4):
            if self.shares:
                chosen = chosen[parallel.share(len(chosen))]
            yield self.x[chosen], self.y[chosen]

    def train_batches(self, generator):
        return self._batches(torch.randperm(self.sets, generator=generator))

    def validation_batches(self):
        return self._batches(torch.arange(self.sets))

    def loss(self, model, batch):
        x, y = batch
        loss = (model(x).squeeze(1) - y).square().mean()
        return loss, {"sets": len(y), "loss": loss.detach() * len(y)}


class WholeImages(Images):
    """An experiment that knows nothing of processes: all do everything."""

    shares = False


class Packed(Images):
    """Sets of different sizes, of which some members count: processes have unequal shares of the loss."""

    def build_model(self):
        return nn.Sequential(SetLayer(3, 8, activation="tanh"), SetDropout(0.3), SetLayer(8, 1))

    def _batches(self, order):
        for chosen in order.split(4):
            chosen = chosen[parallel.share(len(chosen))]
            generators = [torch.Generator().manual_seed(int(number)) for number in chosen]
            sets = [torch.randn(2 + int(n) % 5, 3, generator=g) for n, g in zip(chosen, generators, strict=True)]
            yield PackedSets.from_list(sets), torch.cat([rows[:, 0] >= rows[0, 0] for rows in sets])

    def loss(self, model, batch):
        x, counts = batch
        squared = (model(x).rows.squeeze(1) - x.rows.sum(1))[counts].square()
        return squared.mean(), {"sets": len(squared), "loss": squared.detach().sum()}


class Dying(Images):
    """Its second process is killed in the second epoch."""

    epoch = 0

    def train_batches(self, generator):
        self.epoch += 1
        if self.epoch == 2 and not parallel.is_first():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train_batches(generator)


CASES = {
    "images": (Images, training()),
    "clipped": (Images, training(gradient_clip=0.01)),
    "whole": (WholeImages, training(epochs=2)),
    "packed": (Packed, training()),
    "resumed": (Packed, training(epochs=4)),
}


def run(name, folder):
    task, settings = CASES[name]
    model, progress = train(task(), settings, 7, CPU, folder / f"{name}.pt")
    return {"metrics": progress.metrics, "weights": dict(model.state_dict())}


def main(folder):
    with launch.joined(CPU):
        results = {name: run(name, folder) for name in CASES}
        torch.save(results, folder / f"results{torch.distributed.get_rank()}.pt")
        train(Dying(), training(), 7, CPU, folder / "dying.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
