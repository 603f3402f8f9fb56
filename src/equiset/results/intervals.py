"""How sure a number is: every spread and every 95 % interval of this project is made here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

MIN_SEEDS = 3
"""From so many trainings on, an interval is over them; two say next to nothing about their spread."""
MIN_ITEMS = 100
"""With fewer test items, an interval over them is not to be trusted."""
LAST_POINTS = 5
"""Points at the end of a curve that show how much a network still moves. A shorter curve does not show its end."""
RISE = 0.01
"""An accuracy that would gain this much from a doubling of the epochs still rises."""
FALL = 0.02
"""An error that would lose this share of itself by a doubling still falls: half a unit of the last digit of .025."""


@dataclass(frozen=True)
class Sample:
    """What one run says of a measure."""

    values: np.ndarray
    items: np.ndarray | None = None
    """What each value was measured on. Values of one item belong together, as the draws of a mesh and the members of a
    cluster do. None: the value is of the run as a whole."""
    draws: np.ndarray | None = None
    """Which draw of test particles each value is of, where the paper's spread is over these."""
    less: "Sample | None" = None
    """What is subtracted, measured on items of its own."""
    statistic: Callable[[np.ndarray], float] = np.mean

    @property
    def value(self) -> float:
        return float(self.statistic(self.values)) - (self.less.value if self.less else 0.0)

    @property
    def is_share(self) -> bool:
        """Whether it is a share of right answers, one for each item."""
        alone = self.less is None and self.items is not None and len(np.unique(self.items)) == len(self.items)
        return alone and self.statistic is np.mean and bool(np.isin(self.values, (0.0, 1.0)).all())


@dataclass(frozen=True)
class Estimate:
    """A number and how sure it is."""

    value: float
    low: float
    """Ends of the 95 % interval."""
    high: float
    spread: float
    """One standard deviation, what stands behind ±: trainings, draws of test particles and the choice of test items,
    added in squares."""
    seed_sd: float = np.nan
    """The part of it over trainings; NaN for a single one."""
    draw_sd: float = np.nan
    """The part of it over draws; NaN where there are none."""
    method: str = ""
    """What the interval is over."""
    seeds: int = 0
    """Runs behind it; 0 if none was needed."""
    items: int = 0
    answers: int = 0
    """Values of all runs."""
    doubt: str = ""
    """Why the interval must not decide anything; empty if it may."""


def estimate(
    samples: Sequence[Sample],
    movements: Sequence[float | None] = (),
    trained: bool = True,
    min_items: int = MIN_ITEMS,
) -> Estimate:
    """Return the number that some runs give, one sample for each seed.

    From three seeds on, the interval is over the seeds. With fewer, it is over test items, and what is known takes the
    place of the spread between trainings: how much a network moved at the end of its own training (`movements`, None
    where that is not known), or the difference of two seeds. An interval over fewer than `min_items` test items decides
    nothing. The interval of a number that is not `trained` need not cover other trainings.
    """
    whole, runs = _pooled(samples), len(samples)
    error, items = standard_error(whole)
    values = [sample.value for sample in samples]
    value = float(np.mean(values)) if trained else whole.value
    seed_sd = float(np.std(values, ddof=1)) if trained and runs > 1 else np.nan
    draw_sd = float(np.mean([draws_sd(sample) for sample in samples]))
    known = [movement for movement in movements if movement is not None]
    moved = float(np.sqrt(np.mean(np.square(known)))) if trained and len(known) == runs else np.nan
    between, doubt = float(np.nanmax([0.0, moved, seed_sd])), ""
    if trained and runs >= MIN_SEEDS:
        (low, high), between, method = student_interval(values), seed_sd, f"{runs} seeds"
    else:
        half = _student(items - 1) * float(np.hypot(error, between / np.sqrt(runs)))
        low, high = (value - half, value + half) if items or not np.isnan(moved) else (np.nan, np.nan)
        method = f"{items:,} test items" if items else ""
        if not np.isnan(moved):
            method = f"{method} and the last {LAST_POINTS} points of the curve".removeprefix(" and ")
        elif whole.is_share:
            low, high = binomial_interval(int(whole.values.sum()), len(whole.values))
        if 0 < items < min_items:
            doubt = f"only {items} test items"
        elif trained and np.isnan(moved):
            doubt = f"{'one seed' if runs == 1 else f'{runs} seeds'}, and no curve that shows how much it moves"
    spread = float(np.sqrt(np.sum(np.square([error, np.nan_to_num(draw_sd), between]))))
    return Estimate(value, low, high, spread, seed_sd, draw_sd, method, runs, items, len(whole.values), doubt)


def _student(freedom: int) -> float:
    """Return how many standard errors the half of a 95 % interval is."""
    from scipy import stats  # here, because it takes half a second and whoever only reads numbers does not need it

    return float(stats.t.ppf(0.975, freedom if freedom > 0 else np.inf))


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of independent values, by Student's t."""
    half = _student(len(values) - 1) * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def draws_sd(sample: Sample) -> float:
    """Return the standard deviation over draws of test particles; NaN without several."""
    if sample.draws is None or len(draws := np.unique(sample.draws)) < 2:
        return np.nan
    return float(np.std([sample.values[sample.draws == draw].mean() for draw in draws], ddof=1))


def standard_error(sample: Sample) -> tuple[float, int]:
    """Return the standard error over items, and their number.

    That of a mean is the error of a ratio, the sum of an item's values to their number. That of any other statistic
    comes from drawing items with replacement. Two parts of a difference have independent errors.
    """
    if sample.items is None:
        return 0.0, 0
    if sample.less:
        (error, count), (other, fewer) = standard_error(replace(sample, less=None)), standard_error(sample.less)
        return float(np.hypot(error, other)), min(count, fewer)
    _, item = np.unique(sample.items, return_inverse=True)
    counts = np.bincount(item)
    if len(counts) < 2:
        return np.nan, len(counts)
    if sample.statistic is np.mean:
        residual = np.bincount(item, sample.values - sample.values.mean())
        return float(np.sqrt(len(counts) / (len(counts) - 1) * (residual**2).sum()) / len(item)), len(counts)
    values, starts = sample.values[np.argsort(item, kind="stable")], np.cumsum(counts) - counts
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        drawn = rng.integers(len(counts), size=len(counts))
        ends = np.cumsum(counts[drawn])
        places = np.repeat(starts[drawn] - ends + counts[drawn], counts[drawn]) + np.arange(ends[-1])
        found.append(sample.statistic(values[places]))
    return float(np.std(found, ddof=1)), len(counts)


def binomial_interval(right: int, answers: int) -> tuple[float, float]:
    """Return the exact (Clopper and Pearson) interval of a share of right answers."""
    from scipy import stats

    found = stats.binomtest(right, answers).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def difference(one: Sample, other: Sample, paired: bool) -> Sample:
    """Return one sample less another: item by item if they are of the same ones."""
    if paired and one.items is not None and np.array_equal(one.items, other.items):
        return replace(one, values=one.values - other.values)
    return replace(one, less=other)


def movement(curve: np.ndarray) -> float | None:
    """Return the standard deviation of the last points of a curve; None if there are too few."""
    return float(np.std(curve[-LAST_POINTS:], ddof=1)) if len(curve) >= LAST_POINTS else None


def gain_of_doubling(epochs: np.ndarray, curve: np.ndarray, falls: bool = False) -> float:
    """Return what twice as many epochs would gain: a line through the second half of the curve, by log epochs.

    That of an accuracy is a difference; that of an error, which `falls`, is the share of itself that it would lose.
    """
    half = epochs >= epochs[-1] / 2
    values = np.log(curve[half]) if falls else curve[half]
    slope = float(np.polyfit(np.log2(epochs[half]), values, 1)[0])
    return 1 - float(np.exp(slope)) if falls else slope


def still_improves(gain: float, falls: bool = False) -> bool:
    """Return whether a run whose doubling would gain this much has not ended."""
    return gain >= (FALL if falls else RISE)


def _pooled(samples: Sequence[Sample]) -> Sample:
    def joined(arrays: list[np.ndarray | None]) -> np.ndarray | None:
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    less = [sample.less for sample in samples if sample.less]
    return replace(
        samples[0],
        values=np.concatenate([sample.values for sample in samples]),
        items=joined([sample.items for sample in samples]),
        draws=None,
        less=_pooled(less) if less else None,
    )
