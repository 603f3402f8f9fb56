"""Made-up result files of each experiment, as their runs leave them."""

import numpy as np
import pandas as pd

from equiset.files import write_json
from equiset.results.runs import Run

DATA = {"mnist_sums": "MNIST", "point_clouds": "ModelNet40", "outlier_faces": "CelebA", "redshift": "redMaPPer"}
SIZES = {"members": 6, "train": 10000, "validation": 10000}


def write_run(folder, experiment, variant, predictions, seed=0, scale="paper", kind="whole", curve=None, **sets):
    run = folder / experiment / variant / f"seed{seed}"
    run.mkdir(parents=True)
    about = {"kind": kind, "share": float(kind == "whole"), "data": DATA[experiment], "digest": f"seed{seed}", **sets}
    spec = {"experiment": experiment, "variant": variant, "seed": seed, "scale": scale, "settings": {}}
    write_json(run / "run.json", {"spec": spec, "sets": about})
    predictions.to_parquet(run / "predictions.parquet", index=False)
    metrics = pd.DataFrame({"epoch": range(1, 11), "train_loss": 1.0})
    if curve is not None:
        metrics["validation_accuracy"] = curve
    metrics.to_parquet(run / "metrics.parquet", index=False)
    return Run(run)


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
    return pd.DataFrame({"split": split, "outlier": list(outlier), "probability": list(probability)})


def galaxies(scatter, catalogue=0.025, clusters=200, members=5):
    """Redshifts that are off by a scatter, whose sign alternates; those of a holdout are off by far more."""
    z_spec = np.tile(np.linspace(0.1, 0.5, members), clusters)
    cluster = np.repeat(np.arange(clusters), members)
    sign = np.where(cluster % 2, 1, -1) * (1 + z_spec)
    table = {
        "cluster": cluster,
        "z_spec": z_spec,
        "z": z_spec + scatter * sign,
        "z_catalogue": z_spec + catalogue * sign,
    }
    test = pd.DataFrame({"split": "test", **table})
    return pd.concat([test, test.assign(split="holdout", z=9.0)], ignore_index=True)
