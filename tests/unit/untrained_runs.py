"""Networks with random weights in the folders of runs, and what the command `predict` says of them."""

from pathlib import Path

import pandas as pd
import torch

from equiset.__main__ import main
from equiset.files import digest, read_json, write_json
from equiset.training.loop import fix_seeds, save_weights
from equiset.training.run import evaluate_run

from .small_tasks import Tasks

CPU = torch.device("cpu")
DATA = {
    "mnist_sums": "mnist",
    "point_clouds": "modelnet40",
    "outlier_faces": "celeba",
    "redshift": "redmapper",
}


class UntrainedRun:
    """A variant with random weights, one folder for each seed, and what `evaluate` says of its first."""

    def __init__(self, tasks: Tasks, root: Path, experiment: str, variant: str, seeds: int = 1):
        task = tasks.make(experiment, variant, CPU)
        self.store = tasks.store(DATA[experiment])
        self.sets = tasks.sets(experiment, task.settings.sets)
        self.variant = root / "results" / "smoke" / experiment / "runs" / variant
        here = root / "results" / "smoke" / "data" / DATA[experiment]
        here.mkdir(parents=True)
        (here / "store").symlink_to(self.store)
        for seed in range(seeds):
            fix_seeds(seed)
            model = task.build_model()
            settings = task.settings.model_dump(mode="json", exclude={"role"})
            names = {"experiment": experiment, "variant": variant, "seed": seed, "scale": "smoke", "device": "cpu"}
            about = {"spec": names | {"settings": settings}, "sets": read_json(self.sets / "sets.json")}
            weights = self.variant / f"seed{seed}" / "weights.safetensors"
            save_weights(model, weights)
            write_json(weights.with_name("run.json"), about | {"weights_sha256": digest(weights)})
        self.run = self.variant / "seed0"

    def evaluated(self) -> pd.DataFrame:
        output = self.run / "predictions.parquet"
        evaluate_run(self.run, self.store, self.sets, output)
        return pd.read_parquet(output)


def predicted(run: Path, source: Path, *more: str, ending: str = "parquet") -> pd.DataFrame:
    output = run.parent / f"predicted.{ending}"
    main(["predict", str(run), str(source), "--output", str(output), *more])
    return pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
