"""What is measured on the runs of the point clouds."""

import numpy as np
import pandas as pd

from equiset.results.intervals import Sample
from equiset.results.measures import Measure, Part
from equiset.results.runs import Run

# The reported runs have no validation: their curve is that of training.
CURVES = ("validation_accuracy", "train_accuracy")
CELL = 0.5
"""Side of a cell, in standard deviations of a cloud: the more cells its particles are in, the more complex it is."""


def _right(table: pd.DataFrame) -> Sample:
    right = (table["label"] == table["predicted"]).to_numpy(float)
    return Sample(right, table["mesh"].to_numpy(), draws=table["draw"].to_numpy())


def _unseen(run: Run) -> Sample | None:
    """Return the answers on test meshes that are no training mesh as well; None if there are none, or none is known."""
    if "twin_in_training" not in run.predictions or run.predictions["twin_in_training"].all():
        return None
    return _right(run.predictions[~run.predictions["twin_in_training"]])


def _train(run: Run) -> Sample:
    return Sample(np.array([run.metrics["train_accuracy"].iloc[-1]]))


def _best_epoch(run: Run) -> Sample | None:
    """Return how much more accurate the best epoch was on the test meshes than the last; None if it is unknown."""
    if "test_accuracy" not in run.metrics:
        return None
    curve = run.metrics["test_accuracy"].dropna()
    return Sample(np.array([curve.max() - curve.iloc[-1]])) if len(curve) > 1 else None


def _changed(run: Run) -> dict[Part, Sample]:
    """Return the answers on test clouds that were changed."""
    table = run.analysis("robustness")
    rows = [] if table is None else table.itertuples()
    right = {Part(row.changed, row.value): np.asarray(row.right, float) for row in rows}
    return {part: Sample(values, np.arange(len(values))) for part, values in right.items()}


def _lost(run: Run) -> dict[Part, Sample]:
    """Return what is lost on changed clouds, mesh by mesh, against as many particles as in training, unchanged."""
    answers = _changed(run)
    unchanged = {"particles": run.info["sets"]["particles"], "rotation_degrees": 0.0, "scale": 1.0}
    references = {part.name: answers.get(Part(part.name, unchanged[part.name])) for part in answers}
    return {
        part: Sample(reference.values - sample.values, sample.items)
        for part, sample in answers.items()
        if (reference := references[part.name])
    }


def _complexity(run: Run) -> dict[Part, Sample]:
    """Return the logarithm of the cells that clouds of active units of layer 2 occupy, less that of layer 1.

    The parts are what the clouds maximise: the largest activation among their particles, or the mean.
    """
    table = run.analysis("activations")
    found = {}
    for objective, clouds in () if table is None else table[table["activated"]].groupby("objective"):
        first, second = (
            np.log([_occupied(cloud) for cloud in clouds.loc[clouds["layer"] == layer, "cloud"]]) for layer in (1, 2)
        )
        if min(len(first), len(second)) >= 2:
            less = Sample(first, np.arange(len(first)))
            found[Part(objective)] = Sample(second, np.arange(len(second)), less=less)
    return found


def _occupied(cloud: np.ndarray) -> int:
    return len(np.unique(np.floor(np.asarray(cloud).reshape(-1, 3) / CELL).astype(int), axis=0))


MEASURES = {
    "test_accuracy": Measure(lambda run: _right(run.predictions), CURVES, unit="%", compared=True),
    "test_accuracy_without_twins": Measure(_unseen, CURVES, unit="%", compared=True),
    # Running, with dropout: the mean over the batches of the last epoch.
    "train_accuracy": Measure(_train, ("train_accuracy",), unit="%"),
    # What would be gained by reporting the epoch that is best on the test meshes, on one draw of their particles.
    "best_epoch_gain": Measure(_best_epoch, unit="points", trained=False),
    "changed_accuracy": Measure(_changed, CURVES, unit="%"),
    "accuracy_lost": Measure(_lost, CURVES, unit="points"),
    # Of one network, as in the paper: the interval is over its units.
    "complexity": Measure(_complexity, CURVES, trained=False, min_items=5),
}
