"""Train with one process and with several: python benchmarks/processes.py [RUN ...] [--processes N] [--epochs N]

RUN is the folder of a finished run, by default every first seed of results/smoke. Each is trained anew, by one process
and by several that share each step, and the metrics of all epochs are compared. The time is that of the quickest epoch,
one thread for each process; with fewer idle cores than processes it says little. The processor time of all processes
together says how much work there is more than in one: that holds on a busy machine as well.

Rounding can decide which of two nearly equal values is the maximum of a pooling; the gradient then takes another way,
and the first steps of Adam, which are as large for a small gradient as for a large one, show it. `--double` computes in
float64 (but for the graph network), where this hardly happens: what then differs would be a fault.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from equiset import launch, parallel
from equiset.experiments import experiment_module
from equiset.files import read_json, write_json
from equiset.process import keep_freed_memory, run_stage
from equiset.training.devices import choose_device
from equiset.training.loop import train


def in_double(model: nn.Module) -> nn.Module:
    model.double().register_forward_pre_hook(lambda _, inputs: tuple(x.to(torch.float64) for x in inputs))
    return model


def train_all(runs: list[Path], epochs: int | None, double: bool, folder: Path) -> None:
    """Train all runs in this process and those that it was started with."""
    keep_freed_memory()
    torch.set_num_threads(1)
    about = [read_json(run / "run.json") for run in runs]
    with launch.joined(choose_device(about[0]["spec"]["device"])) as device:
        for number, (run, info) in enumerate(zip(runs, about, strict=True)):
            spec = info["spec"]
            settings_class = experiment_module(spec["experiment"], "settings").ExperimentSettings.variant_class()
            settings = settings_class.model_validate(spec["settings"])
            training = settings.training.model_copy(update={"epochs": epochs or settings.training.epochs})
            store = run.parents[3] / "data" / info["sets"]["dataset"] / "store"
            sets = run.parents[2] / "sets" / settings.sets / f"seed{spec['seed']}"
            task = experiment_module(spec["experiment"], "task").Task(settings, store, sets, device)
            if double and spec["settings"]["model"] != "graph":
                task.build_model = lambda build=task.build_model: in_double(build())
            start = time.process_time()
            _, progress = train(task, training, spec["seed"], device, folder / f"{number}.pt")
            cpu = parallel.add_up({"cpu": time.process_time() - start}, device)
            if parallel.is_first():
                write_json(folder / f"{number}.json", vars(progress) | cpu)


def difference(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return the largest relative difference of any metric in any epoch."""
    return float(((one - other).abs() / one.abs().where(one != 0, 1)).max(axis=None))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, help="instead of the runs' own numbers")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    runs = options.runs or sorted(path.parent for path in Path("results/smoke").glob("*/runs/*/seed0/run.json"))
    if options.work:
        train_all(runs, options.epochs, options.double, options.work)
        return
    heads = ["run", "epochs", "largest relative difference"]
    heads += ["s, 1 process", f"s, {options.processes} processes", "times faster", "CPU time, times one"]
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", flush=True)
    found = []
    for processes in (1, options.processes):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [*map(str, runs), "--work", folder]
            arguments += ["--epochs", str(options.epochs)] if options.epochs else []
            arguments += ["--double"] if options.double else []
            if processes > 1:
                launch.launch(processes, __file__, arguments)
            else:
                subprocess.run([sys.executable, __file__, *arguments], check=True)
            found.append([read_json(Path(folder) / f"{number}.json") for number in range(len(runs))])
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for run, one, other in zip(runs, *found, strict=True):
        metrics = [pd.DataFrame(progress["metrics"]) for progress in (one, other)]
        first, second = min(one["epoch_seconds"]), min(other["epoch_seconds"])
        print(
            f"| {run.parents[2].name} {run.parent.name} | {one['epochs']} | {difference(*metrics):.1e} "
            f"| {first:.2f} | {second:.2f} | {first / second:.2f} | {other['cpu'] / one['cpu']:.2f} |"
        )


if __name__ == "__main__":
    run_stage(main)
