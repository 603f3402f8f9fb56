"""Made-up result files of each experiment, as their runs leave them."""

from pathlib import Path

import numpy as np
import pandas as pd

from equiset.config.resolve import read_config, resolve
from equiset.experiments import experiment_module
from equiset.results.claims import read_claims
from equiset.results.experiment import ExperimentResults
from equiset.results.measures import Measures, measure_runs
from equiset.results.runs import Run, read_runs

from ..report_folder import write_run_files

ROOT = Path(__file__).parents[2]
PAPER = resolve(read_config(ROOT / "config.yaml"), "paper")
CLAIMS = {claim.id: claim for claim in read_claims(ROOT / "workflow" / "claims.yaml")}
DATA = {"mnist_sums": "MNIST", "point_clouds": "ModelNet40", "outlier_faces": "CelebA", "redshift": "redMaPPer"}
CURVES = {"mnist_sums": "validation_accuracy", "point_clouds": "train_accuracy", "outlier_faces": "validation_accuracy"}
FLAT = (0.5,) * 20
"""A curve that has ended, and does not move."""


def write_run(folder, experiment, variant, predictions, seed=0, scale="paper", kind="whole", curve=FLAT, **more):
    """Write what a run leaves. Its sets and settings are the config's at paper scale, but for what `more` says.

    Args:
        more: `settings`, changes with dots in their keys, and anything that `sets.json` is to say.
    """
    run = folder / experiment / variant / f"seed{seed}"
    run.mkdir(parents=True)
    config = PAPER.experiment(experiment)
    settings = config.variants[variant].model_dump(mode="json", exclude={"role"})
    sets = config.sets[settings["sets"]].model_dump(mode="json")
    about = {"kind": kind, "share": float(kind == "whole"), "data": DATA[experiment], **sets}
    about |= {"digest": f"seed{seed}", "seed": seed}
    settings["training"]["epochs"] = len(curve)
    for key, value in more.pop("settings", {}).items():
        node = settings
        for part in key.split(".")[:-1]:
            node = node[part]
        node[key.split(".")[-1]] = value
    spec = {"experiment": experiment, "variant": variant, "seed": seed, "scale": scale, "settings": settings}
    if predictions is not None:
        predictions.to_parquet(run / "predictions.parquet", index=False)
    name = CURVES.get(experiment, "train_scatter")
    constant = {"train_accuracy": 0.9, "train_loss": 1.0, "validation_loss": 1.0}
    metrics = {key: [value] * len(curve) for key, value in constant.items()} | {name: list(curve)}
    return Run(write_run_files(run, spec, about | more, metrics, epoch_seconds=[60.0]))


def measured(*runs: Run, analyses=None) -> Measures:
    """Return all numbers of some runs, of any experiments."""
    groups: dict = {}
    for run in runs:
        run = Run(run.folder, analyses or {})
        groups.setdefault(run.info["spec"]["experiment"], {}).setdefault(run.variant, []).append(run)
    found = [
        measure_runs(name, variants, experiment_module(name, "measures").MEASURES) for name, variants in groups.items()
    ]
    return Measures([number for measures in found for number in measures.numbers])


def results_of(experiment: str, *runs: Run, store: Path = Path("nowhere"), analyses=None) -> ExperimentResults:
    """Return what the tables and figures of an experiment are made of."""
    variants = PAPER.experiment(experiment).variants
    roles = {name: variant.role for name, variant in variants.items()}
    numbers = measured(*runs, analyses=analyses)
    groups = read_runs([run.folder for run in runs], analyses)
    return ExperimentResults(groups, store, numbers, CLAIMS, roles)


def rights(accuracy, count, start=0):
    """Return 0 and 1, with the given share of ones, which begin at a place."""
    return np.roll(np.arange(count) < round(accuracy * count), start)


def sums(validation, train=0.9, count=1000, start=0, predicted=None):
    """Sums of digits: the label is 27, a wrong answer 26."""
    right = np.concatenate([rights(train, count), rights(validation, count, start)])
    answers = np.where(right, 27, 26) if predicted is None else np.full(2 * count, predicted)
    return pd.DataFrame({"split": np.repeat(["train", "validation"], count), "label": 27, "predicted": answers})


def clouds(accuracies, count=1000, start=0):
    """Classes of meshes, with one accuracy for each draw of their particles."""
    parts = [
        pd.DataFrame({"mesh": range(count), "draw": draw, "label": 1, "predicted": rights(share, count, start) * 1})
        for draw, share in enumerate(accuracies)
    ]
    return pd.concat(parts, ignore_index=True)


def faces(train, test, count=1000, members=16):
    """Outliers, always the first member; a wrong answer is the second."""
    right = np.concatenate([rights(train, count), rights(test, count)])
    probability = np.zeros((2 * count, members))
    probability[np.arange(2 * count), np.where(right, 0, 1)] = 1
    outlier = np.zeros((2 * count, members), bool)
    outlier[:, 0] = True
    split = np.repeat(["train", "test"], count)
    answers = {"split": split, "outlier": list(outlier), "probability": list(probability)}
    return pd.DataFrame({**answers, "first": "Smiling", "second": "Young"})


def galaxies(scatter, catalogue=0.025, clusters=200, members=5):
    """Redshifts that are off by a scatter, whose sign alternates; those of a holdout are off by far more."""
    z_spec = np.tile(np.linspace(0.1, 0.5, members), clusters)
    cluster = np.repeat(np.arange(clusters), members)
    sign = np.where(cluster % 2, 1, -1) * (1 + z_spec)
    table = {
        "row": np.arange(len(cluster)),
        "cluster": cluster,
        "z_spec": z_spec,
        "z": z_spec + scatter * sign,
        "z_catalogue": z_spec + catalogue * sign,
    }
    test = pd.DataFrame({"split": "test", **table})
    return pd.concat([test, test.assign(split="holdout", z=9.0)], ignore_index=True)
