"""Numbers that claims are judged by, with their intervals, from the files that runs left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from equiset.errors import EquisetError
from equiset.parquet import read_parquet
from equiset.results.claims import Complexity, Difference, LossByChange, Measurement, Metric
from equiset.results.runs import Run

LEAST_SEEDS = 3
"""From so many trainings on, an interval is over them; two say next to nothing about their spread."""
LEAST_ITEMS = 100
"""With fewer test items, an interval over them is not to be trusted."""
LEAST_UNITS = 5


class NotTestedError(Exception):
    """A claim cannot be judged; the message says why, in a few words."""


@dataclass(frozen=True)
class Evidence:
    """The result files that claims are judged from. What is missing leaves claims untested."""

    scale: str
    runs: dict[str, dict[str, list[Run]]]
    """Experiment -> variant -> its runs, one per seed."""
    analyses: dict[str, Path] = field(default_factory=dict)
    """Name of an analysis of the point clouds -> its Parquet file."""
    measured: dict[str, Path] = field(default_factory=dict)
    """Name of a measurement of `equiset.laws` -> its Parquet file."""

    def variant(self, experiment: str, variant: str) -> list[Run]:
        if experiment not in self.runs:
            raise NotTestedError("experiment not run")
        if variant not in self.runs[experiment]:
            raise NotTestedError(f"variant {variant} not run")
        return self.runs[experiment][variant]


@dataclass(frozen=True)
class Estimate:
    """A number and how sure it is."""

    value: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    over: str
    """What the interval is over, such as `3 seeds`; empty if there is no interval."""
    sources: tuple[Path, ...]
    """Folders of runs, or files, that it was read from."""
    seeds: int = 0
    """Trainings behind it; 0 if none was needed."""
    items: int | None = None
    """Test items that the interval is over, if it is over them."""
    spread: float = 0.0
    """Standard deviation over seeds and, added in squares, over test items or draws of particles."""
    percent: bool = False
    """Whether people read it in percent, or in points of it."""
    right: int | None = None
    """Right answers, if it is a share of them, of `answers`."""
    answers: int = 0
    chance: float | None = None
    """The share that guessing gets right."""


# One series for each run: its values, and as index what they were measured on. Values with the same index belong
# together: the draws of a mesh, the members of a cluster. Differences are taken row by row.
Values = Callable[[Run], pd.Series]


@dataclass(frozen=True)
class Measure:
    """A metric of an experiment."""

    values: Values
    percent: bool = True
    draws: Values | None = None
    """The metric for each draw of test particles, where the paper's spread is over these."""
    chance: Callable[[Run], float] | None = None

    def __call__(self, run: Run) -> pd.Series:
        try:
            return self.values(run)
        except KeyError as error:
            file = run.folder / "predictions.parquet"
            raise EquisetError(f"{file} lacks {error}: another version made it. Delete it and run again") from None


def _sums(split: str) -> Values:
    def right(run: Run) -> pd.Series:
        part = _sets_of_digits(run, split)
        return (part["label"] == part["predicted"]).astype(float)

    return right


def _sets_of_digits(run: Run, split: str) -> pd.DataFrame:
    part = run.predictions[run.predictions["split"] == split]
    # Every seed draws its own sets.
    return part.set_index(pd.MultiIndex.from_product([[run.info["sets"]["digest"]], range(len(part))]))


def _distance_from_mean(run: Run) -> pd.Series:
    part = _sets_of_digits(run, "validation")
    return (part["predicted"] - part["label"].mean()).abs()


def _clouds(run: Run) -> pd.Series:
    table = run.predictions
    return (table["label"] == table["predicted"]).astype(float).set_axis(table["mesh"])


def _draws(run: Run) -> pd.Series:
    right = run.predictions["label"] == run.predictions["predicted"]
    return right.groupby(run.predictions["draw"]).mean()


def _outliers(split: str) -> Values:
    def right(run: Run) -> pd.Series:
        part = run.predictions[run.predictions["split"] == split]
        probability, outlier = (np.stack(part[name].to_numpy()) for name in ("probability", "outlier"))
        found = np.take_along_axis(outlier, probability.argmax(axis=1)[:, None], axis=1)[:, 0]
        sets = pd.MultiIndex.from_product([[run.info["sets"]["digest"]], range(len(part))])
        return pd.Series(found.astype(float), sets)

    return right


def _scatter(column: str) -> Values:
    def error(run: Run) -> pd.Series:
        table = run.predictions[run.predictions["split"] == "test"]
        z_spec = table["z_spec"].to_numpy(np.float64)
        return pd.Series(np.abs(table[column].to_numpy(np.float64) - z_spec) / (1 + z_spec), table["cluster"])

    return error


def _one_of_the_members(run: Run) -> float:
    return 1 / run.info["sets"]["members"]


METRICS: dict[str, dict[str, Measure]] = {
    "mnist_sums": {
        "validation_accuracy": Measure(_sums("validation")),
        "train_accuracy": Measure(_sums("train")),
        "distance_from_mean": Measure(_distance_from_mean, percent=False),
    },
    "point_clouds": {"test_accuracy": Measure(_clouds, draws=_draws)},
    "outlier_faces": {
        "test_accuracy": Measure(_outliers("test"), chance=_one_of_the_members),
        "train_accuracy": Measure(_outliers("train"), chance=_one_of_the_members),
    },
    "redshift": {
        "scatter": Measure(_scatter("z"), percent=False),
        "catalogue_scatter": Measure(_scatter("z_catalogue"), percent=False),
    },
}
"""Experiment -> name of a metric -> how it is read; all are of the last epoch."""


def _measure(experiment: str, name: str) -> Measure:
    known = METRICS.get(experiment, {})
    if name not in known:
        raise EquisetError(f"the claims file names the metric {name!r} of {experiment!r}; known: {list(known)}")
    return known[name]


def over_seeds(values: list[float]) -> tuple[float, float, float]:
    """Return the mean with its 95 % interval after Student."""
    mean, count = float(np.mean(values)), len(values)
    half = stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count)
    return mean, mean - float(half), mean + float(half)


def over_items(values: pd.Series) -> tuple[float, float, int]:
    """Return the mean, its standard error over items, and the number of items.

    Values of the same item belong together, so the error is that of a ratio: the sum of an item's values to their
    number, over items.
    """
    items = values.groupby(level=list(range(values.index.nlevels)), sort=False).agg(["sum", "count"])
    mean, count = float(values.mean()), len(items)
    if count < 2:
        return mean, float("inf"), count
    residual = items["sum"] - mean * items["count"]
    return mean, float(np.sqrt(count / (count - 1) * (residual**2).sum()) / len(values)), count


def estimate_metric(what: Metric, evidence: Evidence) -> Estimate:
    """Return a metric of a variant over its seeds."""
    measure = _measure(what.experiment, what.metric)
    runs = evidence.variant(what.experiment, what.variant)
    by_run = [measure(run) for run in runs]
    pooled = pd.concat(by_run)
    means = [float(values.mean()) for values in by_run]
    _, error, _ = over_items(pooled)
    if measure.draws and all(len(measure.draws(run)) > 1 for run in runs):
        error = float(np.mean([measure.draws(run).std(ddof=1) for run in runs]))
    seeds = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
    share = set(pooled.unique()) <= {0.0, 1.0}
    return _with_interval(
        by_run,
        runs,
        spread=float(np.hypot(error, seeds)),
        percent=measure.percent,
        right=int(pooled.sum()) if share else None,
        answers=len(pooled),
        chance=measure.chance(runs[0]) if measure.chance else None,
    )


def estimate_difference(what: Difference, evidence: Evidence) -> Estimate:
    """Return the difference of two variants, or of two metrics of one, over the seeds that both have."""
    first = _measure(what.experiment, what.metric)
    second = _measure(what.experiment, what.less_metric or what.metric)
    runs = {run.seed: run for run in evidence.variant(what.experiment, what.variant)}
    others = {run.seed: run for run in evidence.variant(what.experiment, what.less or what.variant)}
    seeds = [seed for seed in runs if seed in others]
    if not seeds:
        raise NotTestedError(f"{what.variant} and {what.less} have no seed in common")
    pairs = [(first(runs[seed]), second(others[seed])) for seed in seeds]
    used = [runs[seed] for seed in seeds] + ([others[seed] for seed in seeds] if what.less else [])
    if len(seeds) < LEAST_SEEDS and not all(one.index.equals(other.index) for one, other in pairs):
        return _unpaired(pairs, used, first.percent)
    if len(seeds) < LEAST_SEEDS:
        return _with_interval([one - other.to_numpy() for one, other in pairs], used, percent=first.percent)
    value, low, high = over_seeds([float(one.mean() - other.mean()) for one, other in pairs])
    return Estimate(value, low, high, f"{len(seeds)} seeds", _folders(used), len(seeds), percent=first.percent)


def _unpaired(pairs: list[tuple[pd.Series, pd.Series]], used: list[Run], percent: bool) -> Estimate:
    sides = [over_items(pd.concat(side)) for side in zip(*pairs, strict=True)]
    value, error = sides[0][0] - sides[1][0], float(np.hypot(sides[0][1], sides[1][1]))
    items = min(sides[0][2], sides[1][2])
    half = float(stats.t.ppf(0.975, max(items - 1, 1))) * error
    over = f"{items:,} test items"
    return Estimate(value, value - half, value + half, over, _folders(used), len(pairs), items, percent=percent)


def _with_interval(by_run: list[pd.Series], used: list[Run], **more: object) -> Estimate:
    """Return the mean over runs, with an interval over seeds, or over test items where seeds are few."""
    seeds = len(by_run)
    if seeds >= LEAST_SEEDS:
        value, low, high = over_seeds([float(values.mean()) for values in by_run])
        return Estimate(value, low, high, f"{seeds} seeds", _folders(used), seeds, **more)  # type: ignore[arg-type]
    value, error, items = over_items(pd.concat(by_run))
    half = float(stats.t.ppf(0.975, max(items - 1, 1))) * error
    over = f"{items:,} test items"
    return Estimate(value, value - half, value + half, over, _folders(used), seeds, items, **more)  # type: ignore[arg-type]


def _folders(runs: list[Run]) -> tuple[Path, ...]:
    return tuple(run.folder for run in runs)


def estimate_loss_by_change(what: LossByChange, evidence: Evidence) -> Estimate:
    """Return the most accuracy lost within the range, over seeds; without an interval where these are few."""
    runs = evidence.variant("point_clouds", what.variant)
    table = _read(evidence.analyses, "robustness").query("variant == @what.variant and changed == @what.changed")
    lost = []
    for _, part in table.groupby("seed"):
        accuracy = part.set_index("value")["accuracy"]
        inside = accuracy[(accuracy.index >= what.lowest) & (accuracy.index <= what.highest)]
        if what.reference not in accuracy.index or inside.drop(what.reference, errors="ignore").empty:
            raise NotTestedError(f"accuracy by {what.changed.replace('_', ' ')} was not measured in that range")
        lost.append(float(accuracy[what.reference] - inside.min()))
    if not lost:
        raise NotTestedError(f"analysis robustness of {what.variant} not run")
    sources = (*_folders(runs), evidence.analyses["robustness"])
    if len(lost) < LEAST_SEEDS:
        value = float(np.mean(lost))
        return Estimate(value, value, value, "", sources, len(lost), percent=True)
    return Estimate(*over_seeds(lost), f"{len(lost)} seeds", sources, len(lost), percent=True)


def estimate_complexity(what: Complexity, evidence: Evidence) -> Estimate:
    """Return how many more cells clouds of layer 2 occupy than clouds of layer 1, relative, over activated units."""
    runs = evidence.variant("point_clouds", "set-1000")
    table = _read(evidence.analyses, "activations").query("objective == @what.objective and activated")
    cells = [
        np.array([_occupied(cloud, what.cell) for cloud in table.loc[table["layer"] == layer, "cloud"]])
        for layer in (1, 2)
    ]
    fewest = min(map(len, cells))
    if fewest < LEAST_UNITS:
        raise NotTestedError(f"only {fewest} units of a layer were activated")
    first, second = cells
    value = second.mean() / first.mean() - 1
    # The ratio of two means, to first order.
    error = (1 + value) * np.hypot(*(some.std(ddof=1) / np.sqrt(len(some)) / some.mean() for some in cells))
    half = stats.t.ppf(0.975, fewest - 1) * error
    over = f"{len(first)} and {len(second)} units"
    sources = (runs[0].folder, evidence.analyses["activations"])
    return Estimate(float(value), float(value - half), float(value + half), over, sources, 1)


def _occupied(cloud: np.ndarray, side: float) -> int:
    return len(np.unique(np.floor(np.asarray(cloud).reshape(-1, 3) / side).astype(int), axis=0))


def estimate_measurement(what: Measurement, evidence: Evidence) -> Estimate:
    """Return the mean of a column with its interval over rows, or its largest value."""
    table = _read(evidence.measured, what.item)
    if what.column not in table:
        raise EquisetError(f"the claims file names the column {what.column!r} of {what.item}; known: {list(table)}")
    values, source = table[what.column].astype(float), (evidence.measured[what.item],)
    if values.isna().any():
        raise EquisetError(f"{evidence.measured[what.item]}: the column {what.column} has gaps; measure anew")
    if what.summary == "largest":
        value = float(values.abs().max())
        return Estimate(value, value, value, "", source)
    if len(values) < LEAST_SEEDS:
        raise NotTestedError(f"only {len(values)} repetitions")
    return Estimate(*over_seeds(values.tolist()), f"{len(values)} repetitions", source)


def _read(files: dict[str, Path], name: str) -> pd.DataFrame:
    if name not in files:
        raise NotTestedError(f"{name.replace('_', ' ')} not measured")
    return read_parquet(files[name])


def estimate(what: Metric | Difference | LossByChange | Complexity | Measurement, evidence: Evidence) -> Estimate:
    """Return what a condition measures, or raise `NotTestedError`."""
    match what:
        case Metric():
            return estimate_metric(what, evidence)
        case Difference():
            return estimate_difference(what, evidence)
        case LossByChange():
            return estimate_loss_by_change(what, evidence)
        case Complexity():
            return estimate_complexity(what, evidence)
        case Measurement():
            return estimate_measurement(what, evidence)
