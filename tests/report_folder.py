"""A small folder of results, as the workflow would leave it: for tests of what is made of it."""

import base64
import csv
from pathlib import Path

import pandas as pd

from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import read_json, write_json
from equiset.results.tables import Table

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATASETS = dict(zip(EXPERIMENTS, ("mnist", "modelnet40", "celeba", "redmapper"), strict=True))
CLAIM = {
    "claim": "M2",
    "place": "figure 1, right",
    "statement": "Six digits: the set layer is above 80 %.",
    "paper": "> 80 %",
    "ours": "first: 61.7 %; second: 12 %",
    "verdict": "no data here",
    "reason": "stand-in data",
    "changed": "",
    "rests_on": "",
    "data": "stand-in for MNIST",
    "data_kind": "stand-in",
    "data_share": "0.0",
    "scale": "demo",
    "seeds": "2",
}


def write_results(folder: Path) -> Path:
    """Write the results of one scale, `demo`, and return their folder."""
    results = folder / "results" / "demo"
    for experiment in EXPERIMENTS:
        _write_experiment(results, experiment)
    run = str(results / "mnist_sums" / "runs" / "one" / "seed0")
    write_claims(
        results,
        [
            CLAIM | {"runs": run},
            CLAIM | {"claim": "L1", "verdict": "holds", "rests_on": "generated sets", "runs": ""},
        ],
    )
    return results


def write_claims(results: Path, claims: list[dict[str, str]]) -> None:
    path = results / "claims" / "claims.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, claims[0])
        writer.writeheader()
        writer.writerows(claims)
    for ending in ("md", "tex", "png"):
        path.with_suffix(f".{ending}").write_bytes(PIXEL)


def _write_experiment(results: Path, experiment: str) -> None:
    settings, dataset = experiment_module(experiment, "settings").ExperimentSettings, DATASETS[experiment]
    kind = "whole" if experiment == "mnist_sums" else "stand-in"
    description = "MNIST" if kind == "whole" else f"stand-in for {dataset}"
    folder = results / experiment
    shown = pd.DataFrame(
        {"Model": ["set layer", "MVCNN (quoted)"], "Accuracy (%)": ["61.7 ± 0.3", "—"], "Paper": [80, 90]}
    )
    for name in settings.tables:
        table = Table(shown, shown, f"Caption of {name}.", ("A note.", f"Measured on {description}."))
        for ending in ("csv", "md", "tex", "html"):
            table.write(folder / "tables" / f"{name}.{ending}")
    for name in settings.figures:
        for ending in ("png", "pdf"):
            path = folder / "figures" / f"{name}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(PIXEL)
    run = folder / "runs" / "one" / "seed0"
    training = {"epochs": 3, "optimizer": {"learning_rate": 0.1}}
    some = {"model": "set-layer", "sets": "some", "training": training}
    spec = {"experiment": experiment, "variant": "one", "seed": 0, "scale": "demo", "settings": some}
    sets = {"dataset": dataset, "source": "download" if kind == "whole" else "stand-in", "kind": kind}
    sets |= {"share": float(kind == "whole"), "data": description, "digest": "d" * 64, "store_digest": "5" * 64}
    curve = [1 - 0.5**epoch for epoch in (1, 2, 3)]
    write_run_files(run, spec, sets, {"validation_accuracy": curve, "train_loss": curve[::-1]})
    write_json(
        results / "data" / dataset / "manifest.json",
        {
            "dataset": dataset,
            "source": "download" if kind == "whole" else "stand-in",
            "files": {"all": {"path": "x/all.gz", "files": 1, "bytes": 1234, "sha256": "f" * 64}},
        },
    )
    write_json(
        results / "data" / dataset / "store" / "store.json",
        {"kind": kind, "description": description, "digest": "5" * 64},
    )


WEIGHTS = "5eed" * 16
"""The digest of the weights of all made-up runs."""


def write_run_files(folder: Path, spec: dict, sets: dict, metrics: dict[str, list[float]], **changes: object) -> Path:
    """Write the run.json and the metrics of a run, and return its folder.

    Args:
        folder: of the run.
        spec: what decides it.
        sets: what sets.json says of its data.
        metrics: values for each epoch.
        changes: to what run.json says of the training.
    """
    folder.mkdir(parents=True, exist_ok=True)
    epochs = len(next(iter(metrics.values())))
    about = {
        "spec_hash": "abc",
        "parameters": 12345,
        "threads": 1,
        "device": "cpu (x86_64)",
        "git_commit": "c0ffee" * 6,
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "machine": {"processor": "A processor", "cores": 2, "platform": "Linux"},
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T01:00:00+00:00",
        "epoch_seconds": [20.0] * epochs,
        "peak_memory_mb": 432.1,
        "weights_sha256": WEIGHTS,
    }
    write_json(folder / "run.json", {"spec": spec, "sets": sets} | about | changes)
    pd.DataFrame({"epoch": range(1, epochs + 1), **metrics}).to_parquet(folder / "metrics.parquet", index=False)
    return folder


def change(path: Path, **values: object) -> None:
    """Change some values of a JSON file."""
    write_json(path, read_json(path) | values)
