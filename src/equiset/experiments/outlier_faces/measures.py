"""What is measured on the runs of the outlier faces."""

from collections.abc import Callable

import numpy as np

from equiset.results.intervals import Sample
from equiset.results.measures import WHOLE, Measure, Part
from equiset.results.runs import Run

CURVES = ("validation_accuracy",)
BINS = np.linspace(0, 1, 11)


class Answers:
    """What a network answered on the sets of one split: probabilities, truth, and the two attributes."""

    def __init__(self, run: Run, split: str = "test"):
        table = run.predictions[run.predictions["split"] == split]
        self.probability = np.stack(table["probability"].to_numpy())
        self.outlier = np.stack(table["outlier"].to_numpy())
        self.sets = run.own_items(len(table))
        self.table = table
        self.sigmoid = run.settings.get("output") == "sigmoid"

    @property
    def pairs(self) -> np.ndarray:
        return self.table[["first", "second"]].astype(str).to_numpy()

    @property
    def right(self) -> np.ndarray:
        """Whether each set is answered right: the most probable is an outlier; with sigmoids, all are judged right."""
        if self.sigmoid:
            return ((self.probability > 0.5) == self.outlier).all(axis=1)
        # A tie earns no credit: the first of the largest counts.
        return np.take_along_axis(self.outlier, self.probability.argmax(axis=1)[:, None], axis=1)[:, 0]

    def sample(self, values: np.ndarray, chosen: np.ndarray | slice = slice(None)) -> Sample:
        return Sample(np.asarray(values, float)[chosen], self.sets[chosen])

    @property
    def bins(self) -> np.ndarray:
        """The range of probabilities that each member of each set is in."""
        return np.clip(np.digitize(self.probability, BINS) - 1, 0, len(BINS) - 2).ravel()


def _test(run: Run) -> dict[Part, Sample]:
    """Return the answers on all test sets, by attribute, by pair of attributes, and by number of outliers."""
    answers = Answers(run)
    right, pairs, outliers = answers.right, answers.pairs, answers.outlier.sum(axis=1)
    names = np.array([f"pair {first}, {second}" for first, second in np.sort(pairs, axis=1)])
    parts: dict[Part, np.ndarray | slice] = {WHOLE: slice(None)}
    parts |= {Part(f"attribute {name}"): (pairs == name).any(axis=1) for name in np.unique(pairs)}
    parts |= {Part(str(name)): names == name for name in np.unique(names)}
    parts |= {Part("outliers", float(number)): outliers == number for number in np.unique(outliers)}
    return {part: answers.sample(right, chosen) for part, chosen in parts.items()}


def _train(run: Run) -> Sample:
    answers = Answers(run, "train")
    return answers.sample(answers.right)


def _guess(run: Run) -> float:
    """Return the accuracy of guessing: one member at random, or with sigmoids always `no outlier`."""
    answers = Answers(run)
    return float((~answers.outlier.any(axis=1)).mean()) if answers.sigmoid else 1 / answers.outlier.shape[1]


def _positions(run: Run) -> Sample | None:
    """Return how many different positions are answered in all test sets; one that never varies ignores its input."""
    answers = Answers(run)
    return None if answers.sigmoid else Sample(np.array([len(np.unique(answers.probability.argmax(axis=1)))], float))


def _by_bin(which: str) -> Callable[[Run], dict[Part, Sample]]:
    def sample(run: Run) -> dict[Part, Sample]:
        answers = Answers(run)
        sets = np.repeat(answers.sets, answers.probability.shape[1])
        values = (answers.outlier if which == "outlier" else answers.probability).ravel().astype(float)
        bins = answers.bins
        return {Part("bin", float(at)): Sample(values[bins == at], sets[bins == at]) for at in np.unique(bins)}

    return sample


def _calibration_error(run: Run) -> Sample:
    """Return the expected calibration error over ten ranges of the members' probabilities."""
    answers = Answers(run)
    bins = answers.bins
    gaps = np.bincount(bins, answers.probability.ravel() - answers.outlier.ravel(), minlength=len(BINS))
    return Sample(np.array([np.abs(gaps).sum() / len(bins)]))


def _by_outliers(which: str) -> Callable[[Run], dict[Part, Sample] | None]:
    """Return a measure of the answers of a network with sigmoids, by the number of outliers of a set."""

    def sample(run: Run) -> dict[Part, Sample] | None:
        answers = Answers(run)
        if not answers.sigmoid:
            return None
        truth, count = answers.outlier, answers.outlier.sum(axis=1)
        # Are the most probable members, as many as there are outliers, the outliers?
        rank = np.argsort(np.argsort(-answers.probability, axis=1, kind="stable"), axis=1)
        named = rank < count[:, None] if which == "most_probable" else answers.probability > 0.5
        values = named.sum(axis=1) if which == "named" else (named & truth).sum(axis=1) / np.maximum(count, 1)
        return {
            Part("outliers", float(number)): answers.sample(values, count == number)
            for number in np.unique(count)
            if number or which == "named"
        }

    return sample


MEASURES = {
    "test_accuracy": Measure(_test, CURVES, "%", chance=_guess, compared=True),
    # As many training sets, after the last epoch, without dropout.
    "train_accuracy": Measure(_train, CURVES, "%", chance=_guess),
    "positions_answered": Measure(_positions, trained=False),
    "calibration_error": Measure(_calibration_error),
    "outlier_share": Measure(_by_bin("outlier")),
    "mean_probability": Measure(_by_bin("probability")),
    "outliers_found": Measure(_by_outliers("found"), unit="%"),
    "named_per_set": Measure(_by_outliers("named")),
    "outliers_among_most_probable": Measure(_by_outliers("most_probable"), unit="%"),
}
