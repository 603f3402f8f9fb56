"""The peak memory of training and evaluation at the paper's sizes, on CPU: `python benchmarks/training_memory.py`.

For the variants of config.yaml that are largest in their experiment: some training steps and a part of the predictions
on data of the paper's shapes but few of them, each in a process of its own. What grows with the number of sets is
mapped from files. The numbers are what `mem_mb` of the rules `train` and `evaluate` rests on.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
LARGEST = {
    "point_clouds": ["set-5000", "set-1000-dropout", "set-1000-sum", "graph-1000"],
    "outlier_faces": ["set-layer", "set-pooling"],
    "mnist_sums": ["I-N6", "IV-N6"],
}


def clouds(folder: Path, particles: int) -> None:
    from equiset.files import write_json

    meshes = 192
    points = np.random.default_rng(0).normal(size=(meshes, particles, 3)).astype(np.float32)
    points.tofile(folder / "pool.f32")
    split = ["train"] * 128 + ["test"] * 64
    table = {"label": np.arange(meshes) % 40, "split": split, "points": particles, "twin_in_training": False}
    pd.DataFrame(table).to_parquet(folder / "meshes.parquet")
    about = {"dataset": "modelnet40", "source": "stand-in", "kind": "stand-in", "share": 0.0, "description": "noise"}
    sizes = {"pool": particles, "test_pool": 3 * particles, "classes": list(range(40)), "skipped": [], "twins": {}}
    write_json(folder / "store.json", about | sizes | {"digest": "0"})


def faces(folder: Path) -> None:
    from equiset.data.celeba import _write_faces
    from equiset.data.celeba.stand_in import annotate
    from equiset.files import write_json

    known = annotate((2000, 500, 500), seed=0)
    _write_faces(known, np.arange(len(known.files)), folder / "faces.parquet")
    pixels = np.random.default_rng(0).integers(0, 256, (len(known.files), 64, 64, 3), dtype=np.uint8)
    np.save(folder / "images.npy", pixels)
    about = {
        "dataset": "celeba",
        "source": "stand-in",
        "kind": "stand-in",
        "share": 0.0,
        "description": "noise",
        "digest": "0",
    }
    write_json(folder / "store.json", about | {"attributes": list(known.names)})


def digits(folder: Path) -> None:
    from equiset.files import write_json

    dice = np.random.default_rng(0)
    np.save(folder / "images.npy", dice.integers(0, 256, (70_000, 28, 28), dtype=np.uint8))
    np.save(folder / "labels.npy", dice.integers(0, 10, 70_000, dtype=np.uint8))
    about = {
        "dataset": "mnist",
        "source": "stand-in",
        "kind": "stand-in",
        "share": 0.0,
        "description": "noise",
        "digest": "0",
    }
    write_json(folder / "store.json", about | {"train": 60_000, "test": 10_000})


def measure(experiment: str, variant: str) -> None:
    import torch
    from instrument import keep_freed_memory

    from equiset.config.resolve import resolve
    from equiset.experiments import experiment_module
    from equiset.training.loop import _train_epoch, make_optimizer

    keep_freed_memory()
    torch.set_num_threads(1)
    config = resolve(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")), "paper").experiment(experiment)
    settings = config.variants[variant]
    with tempfile.TemporaryDirectory() as name:
        store, sets = Path(name) / "store", Path(name) / "sets"
        store.mkdir()
        fewer = {}
        if experiment == "point_clouds":
            clouds(store, config.sets[settings.sets].particles)
        elif experiment == "outlier_faces":
            faces(store)
            fewer = {"train": 24, "validation": 16, "test": 16}
        else:
            digits(store)
            fewer = {"train": 256, "validation": 256}
        drawn = config.sets[settings.sets].model_copy(update=fewer)
        experiment_module(experiment, "sets").make_sets(drawn, 0, store, sets)
        device = torch.device("cpu")
        task = experiment_module(experiment, "task").Task(settings, store, sets, device)
        model = task.build_model()
        _train_epoch(task, settings.training, model, make_optimizer(settings.training.optimizer, model), 0, 1, device)
        trained = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        with torch.no_grad():
            task.predict(model.eval())
    evaluated = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{experiment} {variant}: training {trained} MB, with predictions {evaluated} MB", flush=True)


def main() -> None:
    if len(sys.argv) == 3:
        return measure(*sys.argv[1:])
    for experiment, variants in LARGEST.items():
        for variant in variants:
            subprocess.run([sys.executable, __file__, experiment, variant], check=True)
    return None


if __name__ == "__main__":
    main()
