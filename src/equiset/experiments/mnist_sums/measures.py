"""What is measured on the runs of the MNIST sums."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from equiset.results.intervals import Sample
from equiset.results.measures import Measure
from equiset.results.runs import Run

VALIDATION = ("validation_accuracy",)
SAME_IMAGES = "same_images_accuracy"


def _part(run: Run, split: str) -> pd.DataFrame:
    return run.predictions[run.predictions["split"] == split]


def _right(split: str) -> Callable[[Run], Sample]:
    def sample(run: Run) -> Sample:
        part = _part(run, split)
        return Sample((part["label"] == part["predicted"]).to_numpy(float), run.own_items(len(part)))

    return sample


def _within_one(run: Run) -> Sample:
    part = _part(run, "validation")
    return Sample(((part["label"] - part["predicted"]).abs() <= 1).to_numpy(float), run.own_items(len(part)))


def _memorised(run: Run) -> Sample:
    train, validation = _right("train")(run), _right("validation")(run)
    return Sample(train.values, train.items, less=validation)


def _same_images(run: Run) -> Sample | None:
    """Return the accuracy on new sets of the training images after the last epoch; None of runs that do not have it."""
    if SAME_IMAGES not in run.metrics:
        return None
    return Sample(run.metrics[SAME_IMAGES].dropna().to_numpy()[-1:])


def _best(run: Run) -> Sample:
    return Sample(np.array([run.metrics["validation_accuracy"].max()]))


def _best_epoch(run: Run) -> Sample:
    return Sample(np.array([run.metrics["epoch"][run.metrics["validation_accuracy"].idxmax()]], float))


def _offsets(run: Run, column: str) -> Sample:
    part = _part(run, "validation")
    return Sample((part[column] - part["label"].mean()).to_numpy(float), run.own_items(len(part)), statistic=np.std)


def _distance(run: Run) -> Sample:
    offsets = _offsets(run, "predicted")
    return Sample(np.abs(offsets.values), offsets.items)


def _guess(run: Run) -> Sample:
    validation, train = _part(run, "validation"), _part(run, "train")
    right = validation["label"] == train["label"].mode()[0]
    return Sample(right.to_numpy(float), run.own_items(len(right)))


MEASURES = {
    "validation_accuracy": Measure(_right("validation"), VALIDATION, unit="%", compared=True),
    "validation_within_one": Measure(_within_one, VALIDATION, unit="%"),
    # The training sets after the last epoch, without dropout; the metrics by epoch have it with dropout, as it learns.
    "train_accuracy": Measure(_right("train"), ("train_accuracy",), unit="%"),
    # Above validation by what the network has memorised of images; below training by what it has memorised of sets.
    SAME_IMAGES: Measure(_same_images, (SAME_IMAGES,), unit="%"),
    "memorised": Measure(_memorised, VALIDATION, unit="points"),
    "best_validation_accuracy": Measure(_best, VALIDATION, unit="%"),
    "best_epoch": Measure(_best_epoch),
    # How far predictions are from the mean label: at it, the network answers with values near the mean.
    "distance_from_mean": Measure(_distance, VALIDATION, compared=True, moves=("validation_distance_from_mean",)),
    "predictions_sd": Measure(lambda run: _offsets(run, "predicted")),
    "labels_sd": Measure(lambda run: _offsets(run, "label"), trained=False),
    # Always the most frequent training sum.
    "guess_accuracy": Measure(_guess, unit="%", trained=False),
}
