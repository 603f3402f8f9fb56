"""Two jobs of one thread, or one job of two threads? python benchmarks/threads.py

The same number of training steps of the networks of the demo, in wall time on two free cores. Trainings of the workflow
take one thread each if the first is faster.
"""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from convolutions import DIGITS
from instrument import Benchmark, Form, Step, main
from torch import nn

from equiset import SetEncoder
from equiset.experiments.mnist_sums.networks import SumNet

STEPS = 5


def digits() -> Step:
    model = SumNet(DIGITS.model_copy(update={"channels": [8, 16, 32, 64]}), 3).to(memory_format=torch.channels_last)
    images, labels = torch.rand(32, 3, 28, 28), torch.randint(28, (32,))
    return lambda: F.cross_entropy(model(images), labels).backward()


def clouds() -> Step:
    model = nn.Sequential(SetEncoder([3, 64, 64, 64]), nn.Linear(64, 40))
    x = F.normalize(torch.randn(16, 500, 3), dim=2)
    labels = torch.randint(40, (16,))
    return lambda: F.cross_entropy(model(x), labels).backward()


def one_job(make: Callable[[], Step]) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        torch.set_num_threads(2)
        once = make()
        return lambda: [once() for _ in range(2 * STEPS)]

    return prepare


def two_jobs(make: Callable[[], Step]) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        context = multiprocessing.get_context("fork")
        mine, theirs = context.Pipe()

        def partner() -> None:
            mine.close()
            once = make()
            try:
                while theirs.recv():
                    theirs.send([once() is None for _ in range(STEPS)])
            except EOFError:
                return

        context.Process(target=partner, daemon=True).start()
        theirs.close()
        once = make()

        def step() -> None:
            mine.send(True)
            for _ in range(STEPS):
                once()
            mine.recv()

        return step

    return prepare


BENCHMARKS = [
    Benchmark(
        f"two cores, {2 * STEPS} steps of {name}",
        (
            Form("two jobs of one thread", two_jobs(make), kept=True),
            Form("one job of two threads", one_job(make), kept=True),
        ),
        clock="wall",
        memory=False,
    )
    for name, make in {"MNIST sums at demo size": digits, "point clouds at demo size": clouds}.items()
]

if __name__ == "__main__":
    main(BENCHMARKS)
