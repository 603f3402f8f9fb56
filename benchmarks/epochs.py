"""Epoch times of the paper's networks on one core: python benchmarks/epochs.py [--against FOLDER] [--only VARIANT ...]

Each network takes a few training steps, and evaluates a batch where an epoch ends with validation, at the paper's sizes
on a small stand-in, through the training loop itself. The epoch is extrapolated from the least processor time of both;
it is not run. FOLDER is a checkout of another version of this project: both versions then take turns, each in a process
of its own, and the table has their ratio.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
# Freed memory stays in the process, as in the jobs of the workflow. Other versions have no function for it.
KEPT = {f"MALLOC_{name}_THRESHOLD_": str(2**32) for name in ("MMAP", "TRIM")}
MESHES = 9843  # of ModelNet40, for training
SECONDS = 20
# Experiment, variant, and the size of a batch where it is not that of config.yaml.
NETWORKS: list[tuple[str, str, int | None]] = [
    *(("point_clouds", name, None) for name in ("set-100", "set-1000", "pooling-1000", "graph-1000", "set-5000")),
    *(("point_clouds", f"set-1000-{name}", None) for name in ("sum", "mean", "max", "narrow", "dropout")),
    *(("outlier_faces", name, None) for name in ("set-layer", "set-pooling")),
    *(("mnist_sums", f"{model}-N6", batch) for batch in (8, 128) for model in ("I", "II", "III", "IV")),
]
DATA = {
    "mnist": {"source": "stand-in", "stand_in": {"train": 200, "test": 100}},
    "modelnet40": {"source": "stand-in", "stand_in": {"train": 2, "test": 1}},
    "celeba": {"source": "stand-in", "stand_in": {"train": 200, "validation": 60, "test": 60}},
}


class Asked:
    """A task that gives one batch in each epoch, when it is asked to on stdin, and says on stdout what that took."""

    def __init__(self, task: Any):
        self.task = task
        self.build_model, self.loss = task.build_model, task.loss

    def train_batches(self, generator: Any) -> Iterator[Any]:
        if not sys.stdin.readline():
            sys.exit()
        started = time.process_time()
        yield next(iter(self.task.train_batches(generator)))
        print("step", time.process_time() - started, flush=True)  # the loop is back, so the step is done

    def validation_batches(self) -> dict[str, Iterator[Any]]:
        first, batches = next(iter(self.task.validation_batches().items()))
        return {first: self._one_of(batches)}

    def _one_of(self, batches: Iterator[Any]) -> Iterator[Any]:
        started, sets = time.process_time(), 0
        for batch in batches:
            sets = len(batch[1])
            yield batch
            break
        print("evaluated", time.process_time() - started, sets, flush=True)


def serve(root: Path, data: Path, experiment: str, variant: str, batch: int | None) -> None:
    """Train a network step by step, as asked, with the package on this process's path.

    Args:
        root: the version's checkout.
        data: folder for its prepared data, which all its networks share.
        experiment: of config.yaml.
        variant: of that experiment.
        batch: sets per step, if not those of config.yaml.
    """
    import torch
    import yaml

    from equiset.config.resolve import resolve
    from equiset.data import dataset_module
    from equiset.experiments import experiment_module
    from equiset.training.loop import train

    torch.set_num_threads(1)
    config = resolve(yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8")), "paper", {"datasets": DATA})
    chosen = config.experiment(experiment)
    settings = chosen.variants[variant]
    changes = {"epochs": 10_000, **({"batch_size": batch} if batch else {})}
    settings = settings.model_copy(update={"training": settings.training.model_copy(update=changes)})
    drawn, size = chosen.sets[settings.sets], settings.training.batch_size
    steps, evaluated = math.ceil(getattr(drawn, "train", MESHES) / size), getattr(drawn, "validation", 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        module, source, store = dataset_module(chosen.dataset), config.dataset(chosen.dataset), data / chosen.dataset
        if not store.exists():
            module.prepare(module.fetch(source, folder / "cache"), store, source)
        fewer = {} if experiment == "point_clouds" else {"train": size, "validation": 256}
        if experiment == "outlier_faces":
            fewer |= {"validation": 8, "test": 8}
        drawn = drawn.model_copy(update=fewer)
        experiment_module(experiment, "sets").make_sets(drawn, 0, store, folder / "sets")
        device = torch.device("cpu")
        task = experiment_module(experiment, "task").Task(settings, store, folder / "sets", device)
        print("ready", size, steps, evaluated, flush=True)
        train(Asked(task), settings.training, 0, device, folder / "checkpoint.pt")


class Version:
    """One version of the project that trains one network."""

    def __init__(self, root: Path, data: Path, experiment: str, variant: str, batch: int | None):
        command = [sys.executable, __file__, "--serve", str(root), str(data), experiment, variant, str(batch or 0)]
        environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", **KEPT}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)
        self.batch, self.steps, self.evaluated = map(int, self._answer("ready"))
        self.step = self.evaluation = math.inf

    def take_step(self) -> None:
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        self.step = min(self.step, float(self._answer("step")[0]))
        seconds, sets = map(float, self._answer("evaluated"))
        self.evaluation = min(self.evaluation, seconds / sets * self.evaluated if self.evaluated else 0.0)

    @property
    def epoch(self) -> float:
        return self.steps * self.step + self.evaluation

    def _answer(self, kind: str) -> list[str]:
        words = self.process.stdout.readline().split()
        if not words or words[0] != kind:
            command = " ".join(self.process.args[1:])
            raise RuntimeError(f"expected {kind}, got {' '.join(words) or 'an end'}; to see why, run python {command}")
        return words[1:]

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(experiment: str, variant: str, batch: int | None, roots: dict[Path, Path], rounds: int) -> dict[str, Any]:
    """Return the row of a network; `roots` has the checkout of each version, ours first, and a folder for its data."""
    versions: list[Version] = []
    try:
        for root, data in roots.items():
            versions.append(Version(root, data, experiment, variant, batch))
        done, started = 0, time.perf_counter()
        # Short steps are taken more often. The first of a process takes longer, and is never the least.
        while done <= rounds or (done < 20 * rounds and time.perf_counter() - started < SECONDS):
            for version in versions:
                version.take_step()
            done += 1
    finally:
        for version in versions:
            version.end()
    ours = versions[0]
    row = {"experiment": experiment, "variant": variant, "batch": ours.batch, "step_seconds": ours.step}
    row |= {"steps": ours.steps, "validation_seconds": ours.evaluation, "epoch_seconds": ours.epoch}
    if len(versions) > 1:
        row |= {"epoch_seconds_before": versions[1].epoch, "ratio": versions[1].epoch / ours.epoch}
    return row


def write(rows: list[dict[str, Any]], folder: Path, against: str | None) -> None:
    from instrument import about

    from equiset.results.tables import Table

    shown = [
        {
            "network": f"{row['experiment']} {row['variant']}",
            "batch": str(row["batch"]),
            "step (s)": f"{row['step_seconds']:.3f}",
            "steps": f"{row['steps']:,}",
            "validation (s)": f"{row['validation_seconds']:.0f}" if row["validation_seconds"] else "",
            "epoch (s)": f"{row['epoch_seconds']:,.0f}",
            **(
                {"before (s)": f"{row['epoch_seconds_before']:,.0f}", "ratio": f"{row['ratio']:.2f}"} if against else {}
            ),
        }
        for row in rows
    ]
    notes = (
        f"{about()}. One thread, processor time, least of some steps in turns; epochs are extrapolated, not run. "
        f"Float32, first weights, clouds of the stand-in, {MESHES:,} meshes for training.",
        *([f"Before: {against}."] if against else []),
    )
    table = Table(pd.DataFrame(rows), pd.DataFrame(shown), "Epochs at the paper's sizes, on one core", notes)
    for kind in ("csv", "md"):
        table.write(folder / f"epochs.{kind}")


def _place(row: dict[str, Any]) -> int:
    """Return the place of a row in the table."""
    return [batch in (None, row["batch"]) and name == row["variant"] for _, name, batch in NETWORKS].index(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="checkout of another version")
    parser.add_argument("--only", nargs="+", help="measure these variants again; the others stay as they are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("results/bench"))
    options = parser.parse_args()
    roots = [ROOT, *([options.against.resolve()] if options.against else [])]
    log = ["git", "-C", str(roots[-1]), "log", "-1", "--format=commit %h of %cs"]
    against = subprocess.run(log, capture_output=True, encoding="utf-8").stdout.strip() if options.against else None
    options.output.mkdir(parents=True, exist_ok=True)
    earlier = options.output / "epochs.csv"
    rows = pd.read_csv(earlier).to_dict("records") if options.only and earlier.exists() else []
    with tempfile.TemporaryDirectory() as name:
        data = {root: Path(name) / str(number) for number, root in enumerate(roots)}
        for folder in data.values():
            folder.mkdir()
        for experiment, variant, batch in NETWORKS:
            if options.only and variant not in options.only:
                continue
            row = measure(experiment, variant, batch, data, options.rounds)
            print(*(f"{value:.4g}" if isinstance(value, float) else value for value in row.values()), flush=True)
            same = {key: row[key] for key in ("variant", "batch")}
            rows = [other for other in rows if any(other[key] != value for key, value in same.items())] + [row]
            write(sorted(rows, key=_place), options.output, against)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        root, data, experiment, variant, batch = sys.argv[2:]
        serve(Path(root), Path(data), experiment, variant, int(batch) or None)
    else:
        main()
