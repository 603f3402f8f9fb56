"""Train on more galaxies than fit: python benchmarks/streaming.py [--clusters N] [--memory-mb N] [--folder FOLDER]

A simulated catalogue of 17 million galaxies, ten times redMaPPer, goes through the stages of the workflow; then the
paper's network is trained for one epoch within a budget of memory (`memory_mb`), members read in windows. Each stage is
a process of its own, so that its peak memory is known. At last, batches of the streamed and of the mapped catalogue
take turns with the same network, from the reading of a batch to the step; and clouds are drawn from pools of points of
3 GB. 5 GB of disk.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from instrument import keep_freed_memory

from equiset.config.training import Training
from equiset.data.redmapper import FILES, RedmapperSettings, fetch, prepare
from equiset.experiments.point_clouds.task import Clouds
from equiset.experiments.redshift.sets import make_sets
from equiset.experiments.redshift.settings import RedshiftSets, RedshiftVariant
from equiset.experiments.redshift.task import Task
from equiset.files import read_json, write_json
from equiset.training.loop import Batch, make_optimizer, train
from equiset.training.provenance import peak_memory_mb

CPU = torch.device("cpu")
EVERYTHING_MB = 10**6
TRAINING = Training(epochs=1, batch_size=128, optimizer={"learning_rate": 0.001})


def make_task(folder: Path, options: argparse.Namespace, memory_mb: int) -> Task:
    values = {"sets": "clusters", "model": "set", "channels": [options.width] * 3, "dropout": 0.5}
    settings = RedshiftVariant.model_validate(
        {**values, "target": "standardised", "memory_mb": memory_mb, "training": TRAINING.model_dump()}
    )
    return Task(settings, folder / "store", folder / "sets", CPU)


def simulate(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    from equiset.data.redmapper import stand_in

    (folder / "raw").mkdir()
    paths = (folder / "raw" / FILES[role].removesuffix(".gz") for role in ("catalogue", "members"))
    stand_in.write(*paths, options.clusters, 0)
    manifest = fetch(RedmapperSettings(source="folder", folder=str(folder / "raw")), folder)
    write_json(folder / "manifest.json", manifest)
    return {}


def store(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    prepare(read_json(folder / "manifest.json"), folder / "store")
    return {"members": read_json(folder / "store" / "store.json")["members"]}


def sets(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    make_sets(RedshiftSets(test_share=0.1), 0, folder / "store", folder / "sets")
    return {}


def epoch(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    task = make_task(folder, options, options.memory_mb)
    _, progress = train(task, TRAINING, 0, CPU, folder / f"checkpoint-{time.time_ns()}.pt")
    return {"windows": 0 if task.splits else -(-(len(task.edges) - 1) // task.blocks_at_once), **progress.metrics[0]}


def compare(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Let batches of both kinds take turns; the time to read a window counts."""
    budgets = {"streamed": options.memory_mb, "mapped": EVERYTHING_MB}
    tasks = {name: make_task(folder, options, memory_mb) for name, memory_mb in budgets.items()}
    torch.manual_seed(0)
    model = tasks["mapped"].build_model()
    optimizer = make_optimizer(TRAINING.optimizer, model)

    def learn(batches: Iterator[Batch]) -> int:
        batch = next(batches)
        optimizer.zero_grad()
        tasks["mapped"].loss(model, batch)[0].backward()
        optimizer.step()
        return len(batch[1])

    learn(tasks["mapped"].train_batches(torch.Generator()))  # what torch does once
    batches = {name: task.train_batches(torch.Generator().manual_seed(0)) for name, task in tasks.items()}
    members = dict.fromkeys(tasks, 0)
    taken = {name: np.zeros(2) for name in tasks}
    for _ in range(options.batches):
        for name in tasks:
            start = np.array([time.process_time(), time.perf_counter()])
            members[name] += learn(batches[name])
            taken[name] += np.array([time.process_time(), time.perf_counter()]) - start
    speeds = {name: members[name] / taken[name] for name in tasks}
    found = {f"{name}, members per cpu s": round(speed[0]) for name, speed in speeds.items()}
    ratio = speeds["streamed"] / speeds["mapped"]
    return found | {"streamed / mapped, cpu time": round(ratio[0], 3), "wall time": round(ratio[1], 3)}


def pools(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Draw the clouds of an epoch from pools of 3 GB, which are mapped, not held; a file without content will do."""
    meshes, points = 25_000, 10_000
    pd.DataFrame({"points": [points] * meshes}).to_parquet(folder / "meshes.parquet")
    with (folder / "pool.f32").open("wb") as file:
        file.truncate(meshes * points * 3 * 4)
    clouds, rng = Clouds(folder), np.random.default_rng(0)
    start = time.process_time()
    for chosen in np.array_split(rng.permutation(meshes), meshes // 64):
        clouds.draw(chosen, 1000, rng)
    (folder / "pool.f32").unlink()
    return {"clouds of 1000 points per cpu s": round(meshes / (time.process_time() - start))}


STAGES = {function.__name__: function for function in (simulate, store, sets, epoch, compare, pools)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=261_110)
    parser.add_argument("--memory-mb", type=int, default=2000)
    parser.add_argument("--width", type=int, default=128, help="channels of the three layers; the paper's are 128")
    parser.add_argument("--batches", type=int, default=600, help="of each kind in the comparison")
    parser.add_argument("--folder", type=Path, help="where the catalogue is, or will be and stay")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        keep_freed_memory()
        torch.set_num_threads(1)
        start, cpu = time.perf_counter(), time.process_time()
        found = STAGES[options.stage](options.folder, options)
        times = {"seconds": time.perf_counter() - start, "cpu seconds": time.process_time() - cpu}
        rounded = {name: round(value, 1) for name, value in times.items()}
        print(json.dumps(rounded | {"peak MB": peak_memory_mb()} | found))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True)
        for stage in STAGES:
            if (folder / {"simulate": "manifest.json", "store": "store", "sets": "sets"}.get(stage, "none")).exists():
                continue
            command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder)]
            command += ["--clusters", str(options.clusters), "--memory-mb", str(options.memory_mb)]
            done = subprocess.run(
                [*command, "--batches", str(options.batches), "--width", str(options.width)],
                stdout=subprocess.PIPE,
                check=True,
            )
            print(f"{stage}: {done.stdout.decode().strip()}", flush=True)


if __name__ == "__main__":
    main()
