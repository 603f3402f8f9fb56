"""What a first GPU has to show: python benchmarks/gpu_check.py [--device cuda] [--only VARIANT] [--output FOLDER]

Every variant of config.yaml takes a step on the CPU and on the GPU from the same weights and the same sets, without
dropout, and losses and gradients are compared. Then it is trained on both as it is, for the time of a step, and twice
on the GPU, for the same bits. Two jobs ask for a GPU at once. The table, in FOLDER/gpu_check.md, is what to send in.
Minutes, at the paper's sizes on small stand-ins. `--device cpu --small` is a dry run of this program itself.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import yaml
from instrument import keep_freed_memory
from torch import nn

from equiset.config.resolve import resolve
from equiset.data import dataset_module
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.nn import encoder
from equiset.training.devices import choose_device, describe, fix_arithmetic
from equiset.training.loop import _train_epoch, fix_seeds, make_optimizer

ROOT = Path(__file__).parents[1]
CPU = torch.device("cpu")
STEPS = 4
# For each size: the scale that it changes, the stand-ins, and what is changed of sets and of all trainings.
SIZES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "paper": (
        "paper",
        {
            "mnist": {"source": "stand-in", "stand_in": {"train": 2000, "test": 100}},
            "modelnet40": {"source": "stand-in", "stand_in": {"train": 7, "test": 1}},
            "celeba": {"source": "stand-in", "stand_in": {"train": 600, "validation": 60, "test": 60}},
            "redmapper": {"source": "stand-in", "stand_in": {"clusters": 600}},
        },
        {
            "mnist_sums": {"train": STEPS * 128, "validation": 2},
            "point_clouds": {},
            "outlier_faces": {"train": STEPS * 8, "validation": 1, "test": 1},
            "redshift": {},
        },
        {},
    ),
    "small": (
        "smoke",
        {
            "mnist": {"stand_in": {"train": 60, "test": 20}},
            "modelnet40": {"stand_in": {"train": 1, "test": 1}, "pool": 64},
            "celeba": {"stand_in": {"train": 40, "validation": 40, "test": 40}},
            "redmapper": {"stand_in": {"clusters": 20}},
        },
        {
            "mnist_sums": {"train": 4, "validation": 2},
            "point_clouds": {"particles": 12},
            "outlier_faces": {"members": 4, "train": 2, "validation": 1, "test": 1},
            "redshift": {},
        },
        {"batch_size": 1000},
    ),
}


class Tasks:
    """Makes tasks on stand-ins; stores and sets are made once, when they are first asked for."""

    def __init__(self, folder: Path, size: str = "small"):
        scale, data, self.fewer, self.training = SIZES[size]
        self.folder, self.small = folder, size == "small"
        self.config = resolve(
            yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")), scale, {"datasets": data}
        )
        self.variants = [(name, variant) for name in EXPERIMENTS for variant in self.config.experiment(name).variants]

    @cache  # noqa: B019, there is one for a process
    def store(self, dataset: str) -> Path:
        folder = self.folder / dataset
        settings, module = self.config.dataset(dataset), dataset_module(dataset)
        module.prepare(module.fetch(settings, folder / "cache"), folder / "store", settings)
        return folder / "store"

    @cache  # noqa: B019
    def sets(self, experiment: str, name: str) -> Path:
        settings = self.config.experiment(experiment)
        folder = self.folder / experiment / name
        sets = settings.sets[name].model_copy(update=self.fewer[experiment])
        experiment_module(experiment, "sets").make_sets(sets, 0, self.store(settings.dataset), folder)
        return folder

    def make(self, experiment: str, variant: str, device: torch.device, **training: Any) -> Any:
        """Make the task of a variant, with its `training` changed."""
        settings = self.config.experiment(experiment)
        chosen = settings.variants[variant]
        changed = chosen.training.model_copy(update={"epochs": 1} | self.training | training)
        narrow = {"width": 16} if self.small and hasattr(chosen, "width") else {}
        chosen = chosen.model_copy(update={"training": changed} | narrow)
        store, sets = self.store(settings.dataset), self.sets(experiment, chosen.sets)
        return experiment_module(experiment, "task").Task(chosen, store, sets, device)


def without_randomness(model: nn.Module) -> nn.Module:
    """Switch off what is drawn while training: devices draw other numbers."""
    for module in model.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
        if hasattr(module, "least"):  # the transformation of clouds
            module.angle, module.least = 0.0, 1.0
    return model


def one_step(task: Any, weights: dict[str, torch.Tensor] | None = None) -> tuple[float, torch.Tensor, dict]:
    """Return the loss of the first batch, its gradient in main memory, and the weights that it was taken with."""
    fix_seeds(0)
    model = without_randomness(task.build_model()).train()
    if weights is not None:
        model.load_state_dict(weights)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    model.to(task.device)
    loss, _ = task.loss(model, next(iter(task.train_batches(torch.Generator().manual_seed(0)))))
    loss.backward()
    gradient = torch.cat([parameter.grad.cpu().reshape(-1) for parameter in model.parameters()])
    return loss.item(), gradient, start


def differences(tasks: Tasks, experiment: str, variant: str, device: torch.device) -> tuple[float, float]:
    """Return how far loss and gradient of a device are from those of the CPU, relative to these."""
    loss, gradient, weights = one_step(tasks.make(experiment, variant, CPU))
    other_loss, other_gradient, _ = one_step(tasks.make(experiment, variant, device), weights)
    return abs(other_loss - loss) / abs(loss), float((other_gradient - gradient).norm() / gradient.norm())


def train_epochs(tasks: Tasks, experiment: str, variant: str, device: torch.device, epochs: int) -> tuple[Any, float]:
    """Train for some epochs; return all weights in main memory, and the seconds of a step in the quickest epoch."""
    task = tasks.make(experiment, variant, device)
    training = task.settings.training
    fix_seeds(0)
    model = task.build_model().to(device)
    optimizer = make_optimizer(training.optimizer, model)
    steps = sum(1 for _ in task.train_batches(torch.Generator().manual_seed(0)))
    seconds = []
    for epoch in range(1, epochs + 1):
        started = time.perf_counter()
        _train_epoch(task, training, model, optimizer, 0, epoch, device)  # it returns numbers, so the GPU is done
        seconds.append((time.perf_counter() - started) / steps)
    return torch.cat([value.cpu().reshape(-1).double() for value in model.state_dict().values()]), min(seconds)


@contextmanager
def short_way() -> Iterator[None]:
    """Let `SetEncoder` go the short way on a GPU, whatever there is room for."""
    kept, encoder.KEPT_BYTES = encoder.KEPT_BYTES, 0
    try:
        yield
    finally:
        encoder.KEPT_BYTES = kept


def check(tasks: Tasks, experiment: str, variant: str, device: torch.device) -> dict[str, Any]:
    """Return one row of the table."""
    loss, gradient = differences(tasks, experiment, variant, device)
    _, on_cpu = train_epochs(tasks, experiment, variant, CPU, 2)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    first, on_device = train_epochs(tasks, experiment, variant, device, 3)
    again, _ = train_epochs(tasks, experiment, variant, device, 3)
    row = {
        "variant": f"{experiment}/{variant}",
        "loss off by": f"{loss:.1e}",
        "gradient off by": f"{gradient:.1e}",
        "agrees": "yes" if loss < 1e-4 and gradient < 1e-2 else "**no**",
        "same bits twice": "yes" if torch.equal(first, again) else "**no**",
        "CPU ms a step": f"{1e3 * on_cpu:.1f}",
        f"{device.type} ms a step": f"{1e3 * on_device:.1f}",
        "times faster": f"{on_cpu / on_device:.1f}",
    }
    if device.type == "cuda":
        row["peak MB"] = describe(device)["gpu"]["peak_memory_mb"]
    if variant in ("set-1000", "set-5000"):
        with short_way():
            row["short way, ms"] = f"{1e3 * train_epochs(tasks, experiment, variant, device, 3)[1]:.1f}"
    return row


PLACED = """
import sys
import torch
from equiset.training.devices import choose_device
device = choose_device(sys.argv[1])
print(torch.cuda.current_device() if device.type == "cuda" else None, torch.cuda.device_count(), flush=True)
sys.stdin.read()
"""
"""A job that says which GPU it got, of how many, and keeps it until it is told to end."""


def placement(device: str) -> str:
    """Let two jobs ask for a GPU at once, and say what they got."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    jobs = [subprocess.Popen([sys.executable, "-c", PLACED, device], env=environment, **pipes) for _ in range(2)]
    (one, count), (two, _) = [job.stdout.readline().split() for job in jobs]  # both have one before either ends
    for job in jobs:
        job.communicate()
    if one == "None":
        return "two jobs: no GPU to share"
    if one != two:
        return f"two jobs: GPUs {one} and {two}"
    return f"two jobs: both on GPU {one}, {'the only one' if count == '1' else f'**one of {count}**'}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="the smallest networks and sets, seconds")
    parser.add_argument("--only", help="a variant")
    parser.add_argument("--output", type=Path, default=Path("results/gpu_check"))
    arguments = parser.parse_args(argv)
    keep_freed_memory()
    device = choose_device(arguments.device)
    fix_arithmetic("float32", device)
    if arguments.small:
        torch.set_num_threads(1)
    placed = placement(arguments.device)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(Path(folder), "small" if arguments.small else "paper")
        for experiment, variant in tasks.variants:
            if arguments.only in (None, variant):
                rows.append(check(tasks, experiment, variant, device))
                print(*rows[-1].values(), flush=True)
    bad = sum("**no**" in row.values() for row in rows) + ("**" in placed)
    about = {**describe(device), "torch": torch.__version__, "CPU threads": torch.get_num_threads()}
    lines = [f"- {name}: {value}" for name, value in {**about, "placement": placed}.items()]
    table = pd.DataFrame(rows).fillna("").to_markdown(index=False, disable_numparse=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    file = arguments.output / "gpu_check.md"
    file.write_text("\n".join(["# GPU check", "", *lines, "", table, ""]), encoding="utf-8")
    print(file.read_text(encoding="utf-8"), f"{file}: {bad or 'no'} fault(s)", sep="\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
