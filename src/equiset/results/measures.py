"""Every number once: what is measured on the runs of an experiment, with its interval, as rows of `measures.parquet`.

An experiment's `measures.py` has a `Measure` for each name. On each run it takes a `Sample`, the values per test item;
`intervals.estimate` makes of the samples of all seeds an `Estimate`, a value with its interval; and with what it was
measured on that is a `Number`, a row of the file. Tables, figures, claims, the report and MLflow read the rows.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from equiset.errors import EquisetError, MissingFileError
from equiset.files import canonical_json, read_parquet, write_parquet
from equiset.results.intervals import (
    LAST_POINTS,
    MIN_SEEDS,
    Estimate,
    Sample,
    difference,
    estimate,
    gain_of_doubling,
    movement,
    still_improves,
)
from equiset.results.runs import Run, kind_of_data, require_numbers


class Part(NamedTuple):
    """Which test items a number is of, or what was done to them: a name, and where there is one a value."""

    name: str = ""
    at: float = 0.0


WHOLE = Part()
IMPROVING = "‡"
"""The mark of a number whose runs have not ended; it has no interval."""
ABOUT_IMPROVING = (
    f"{IMPROVING} Still improving at the last epoch, or too few epochs to tell: no interval, and ± only over "
    "three seeds or more."
)


@dataclass(frozen=True)
class Measure:
    """What is measured on every run."""

    sample: Callable[[Run], Sample | dict[Part, Sample] | None]
    """Values per test item, of all of them or by parts; None where the measure does not apply."""
    curves: tuple[str, ...] = ()
    """Columns of the metrics by epoch, of which the first that a run has shows whether the number still moves."""
    unit: Literal["", "%", "points"] = ""
    """How tables show it: as it is, in percent, or, if it is a difference of percentages, in points."""
    chance: Callable[[Run], float] | None = None
    """What guessing gets."""
    compared: bool = False
    """Whether variants that learn from the same sets are compared by it."""
    moves: tuple[str, ...] = ()
    """Columns as in `curves` that show how much the number moves, if these are of another kind than the number."""
    trained: bool = True
    """Whether its interval must cover other trainings."""
    min_items: int = 100


@dataclass(frozen=True, kw_only=True)
class Number(Estimate):
    """A row of `measures.parquet`."""

    experiment: str
    variant: str
    measure: str
    less: str = ""
    """The variant that was subtracted."""
    part: str = ""
    at: float = 0.0
    unit: str = ""
    chance: float = np.nan
    unfinished: str = ""
    """Why more epochs might give another number; empty if they would not."""
    lengths: str = ""
    """Epochs of the two variants of a difference, and their curves after equal ones, if the number is not of these."""
    scale: str = ""
    data: str = ""
    kind: str = ""
    """Whose data: `equiset.data.source.Kind`; empty for generated sets."""
    share: float = np.nan
    epochs: int = 0
    parameters: int = 0
    settings: str = "{}"
    """JSON: the settings of the variant, and what its sets are."""
    sets: str = "{}"
    runs: str = ""
    """Folders or files that it was read from."""

    @property
    def percent(self) -> bool:
        return bool(self.unit)

    @property
    def text(self) -> str:
        """The value as tables show it, without its unit."""
        return self.format(self.value)

    @property
    def with_spread(self) -> str:
        mark = IMPROVING if self.unfinished else ""
        # How much a network moved at the end is what it learnt, and no spread, while it still improves.
        known = self.spread > 0 and (self.seeds >= MIN_SEEDS or not self.unfinished)
        return f"{self.text} ± {self.format(self.spread)}{mark}" if known else f"{self.text}{mark}"

    @property
    def with_interval(self) -> str:
        if self.unfinished:
            return f"{self.text}{IMPROVING}"
        return self.text if self.low == self.high or self.interval == "—" else f"{self.text} ({self.interval})"

    @property
    def interval(self) -> str:
        if self.unfinished or np.isnan(self.low + self.high):
            return "—"
        least, most = (0.0, 1.0) if self.measure.endswith("accuracy") and not self.less else (-np.inf, np.inf)
        return f"{self.format(max(self.low, least))} to {self.format(min(self.high, most))}"

    def format(self, value: float, sign: bool = False) -> str:
        """Return a value in the form of this number: its first three digits decide how many decimals all have."""
        if np.isnan(value):
            return "—"
        form = ".1f" if self.percent else "#.3g" if value % 1 else ".3g"
        if not self.percent and value % 1 and self.value % 1 and abs(self.value) >= 1e-4:
            form = f".{max(2 - math.floor(math.log10(abs(self.value))), 0)}f"
        return f"{100 * value if self.percent else value:{'+' if sign else ''}{form}}".replace("-", "−")

    def columns(self, name: str = "") -> dict[str, float]:
        """Return the columns that a CSV file has of it."""
        name = name or self.measure
        ends = {"": self.value, "_low95": self.low, "_high95": self.high, "_spread": self.spread}
        return {f"{name}{end}": value for end, value in ends.items()}


class Measures:
    """The rows of one `measures.parquet`, or of several."""

    def __init__(self, numbers: list[Number]):
        self.numbers = numbers

    @classmethod
    def read(cls, *paths: Path) -> "Measures":
        numbers = []
        numeric = [field.name for field in fields(Number) if field.type in (int, float)]
        for path in paths:
            table = read_parquet(path)
            require_numbers(table, [name for name in numeric if name in table], path)
            try:
                numbers += [Number(**row) for row in table.to_dict("records")]
            except TypeError:
                raise EquisetError(f"{path} holds other things than what `measure_runs` writes") from None
        return cls(numbers)

    def write(self, path: Path) -> None:
        write_parquet(path, pd.DataFrame(map(asdict, self.numbers)))

    def select(self, **fields: str) -> list[Number]:
        """Return the numbers whose fields have these values, in their order."""
        return [number for number in self.numbers if all(getattr(number, key) == fields[key] for key in fields)]

    def get(self, variant: str, measure: str, less: str = "") -> Number | None:
        """Return a measure of a variant on all test items; None if it was not measured."""
        return next(iter(self.select(variant=variant, measure=measure, less=less, part="")), None)

    def __getitem__(self, key: tuple[str, str]) -> Number:
        """Return a measure of a variant on all test items, which must be there: `measures[variant, measure]`."""
        if (number := self.get(*key)) is None:
            raise EquisetError(
                f"{key[1]} of {key[0]} was not measured: run snakemake again, or delete measures.parquet"
            )
        return number


def measure_runs(experiment: str, runs: dict[str, list[Run]], measures: dict[str, Measure]) -> Measures:
    """Measure everything on the runs of each variant, and the differences of variants that learn from the same sets."""
    numbers = []
    for name, measure in measures.items():
        samples = {variant: _samples(group, name, measure) for variant, group in runs.items()}
        for variant, group in runs.items():
            numbers += _numbers(experiment, name, measure, {variant: group}, samples[variant])
        if not measure.compared:
            continue
        for one, other in permutations(runs, 2):
            if _sets(runs[one]) == _sets(runs[other]):
                pairs = _pairs(name, runs[one], runs[other], samples[one], samples[other])
                groups = {one: runs[one], other: runs[other]}
                numbers += _numbers(experiment, name, measure, groups, pairs)
    return Measures(numbers)


def _sets(group: list[Run]) -> object:
    return group[0].settings.get("sets")


Samples = dict[int, dict[Part, Sample]] | str
"""By seed and part; or why there are none."""


def _samples(group: list[Run], name: str, measure: Measure) -> Samples:
    found = {}
    for run in group:
        try:
            sample = measure.sample(run)
        except MissingFileError as error:
            return f"no {error.path.stem}"
        except KeyError as error:
            raise EquisetError(
                f"{run.folder}: its files lack {error}, which {name} needs; another version made them. Run it again"
            ) from None
        if parts := {WHOLE: sample} if isinstance(sample, Sample) else sample:
            found[run.seed] = parts
    return found


def _pairs(name: str, one: list[Run], other: list[Run], first: Samples, second: Samples) -> Samples:
    """Return the differences of two variants seed by seed, after equal numbers of epochs where their curves tell."""
    for samples in (first, second):
        if isinstance(samples, str):
            return samples
    runs = [{run.seed: run for run in group} for group in (one, other)]
    found = {}
    for seed in (seed for seed in first if seed in second):
        pair = [by_seed[seed] for by_seed in runs]
        values = [samples[seed][WHOLE] for samples in (first, second)]
        if (shared := _shared_epoch(name, pair)) is not None:
            values = [_at_epoch(value, name, run, shared) for value, run in zip(values, pair, strict=True)]
        same = pair[0].info["sets"].get("digest") == pair[1].info["sets"].get("digest")
        found[seed] = {WHOLE: difference(*values, same)}
    return found


def _shared_epoch(name: str, runs: list[Run]) -> int | None:
    """Return the last epoch of the shortest run, if the metrics of longer ones have this very measure then; or None."""
    last = min(map(_epochs, runs))
    for run in (run for run in runs if _epochs(run) > last):
        if name not in run.metrics or run.metrics.loc[run.metrics["epoch"] == last, name].isna().all():
            return None
    return last


def _epochs(run: Run) -> int:
    return int(run.metrics["epoch"].max())


def _at_epoch(sample: Sample, name: str, run: Run, epoch: int) -> Sample:
    """Return a sample of the last epoch less what the run gained since an earlier one."""
    if epoch == _epochs(run):
        return sample
    curve = run.metrics.set_index("epoch")[name].dropna()
    return replace(sample, values=sample.values - (curve.iloc[-1] - curve[epoch]))


def _lengths(name: str, measure: Measure, groups: list[list[Run]]) -> str:
    """Return the unequal epochs of two variants whose difference is not of equal ones; else nothing.

    What curves they have is compared after equal epochs, even if it is of another measure than the difference.
    """
    runs = [run for group in groups for run in group]
    epochs = [max(map(_epochs, group)) for group in groups]
    if len(set(epochs)) < 2 or _shared_epoch(name, runs) is not None:
        return ""
    said = f"{epochs[0]:,} and {epochs[1]:,} epochs"
    for curve in (curve for curve in measure.curves if all(curve in run.metrics for run in runs)):
        if (shared := _shared_epoch(curve, runs)) is not None:
            first, second = (
                float(np.mean([run.metrics.set_index("epoch")[curve][shared] for run in group])) for group in groups
            )
            values = f"{100 * first:.1f} and {100 * second:.1f} %" if measure.unit else f"{first:.3g} and {second:.3g}"
            shown = curve.replace("train_", "training_").replace("_", " ")
            return f"{said}, {shown} after {shared}: {values}"
    return said


def _numbers(
    experiment: str, name: str, measure: Measure, groups: dict[str, list[Run]], samples: Samples
) -> Iterator[Number]:
    if not samples:
        return
    (variant, runs), *others = groups.items()
    everything = [run for group in groups.values() for run in group]
    # An analysis need not have all seeds, and two variants are compared by the seeds that both have.
    facts = _facts(runs, experiment, [run for run in everything if isinstance(samples, str) or run.seed in samples])
    facts |= {"variant": variant, "measure": name, "less": others[0][0] if others else ""}
    facts["unit"] = "points" if measure.unit and others else measure.unit
    if isinstance(samples, str):
        yield Number(*(np.nan,) * 4, seeds=len(runs), doubt=samples, **facts)
        return
    used = {seed: [run for group in groups.values() for run in group if run.seed == seed] for seed in samples}
    facts["chance"] = measure.chance(runs[0]) if measure.chance else np.nan
    facts["unfinished"] = _unfinished([run for some in used.values() for run in some], measure)
    facts["lengths"] = _lengths(name, measure, list(groups.values())) if others else ""
    for part in dict.fromkeys(part for found in samples.values() for part in found):
        present = {seed: found[part] for seed, found in samples.items() if part in found}
        movements = [_movement(used[seed], measure) for seed in present]
        found = estimate(list(present.values()), movements, measure.trained, measure.min_items)
        yield Number(**asdict(found), part=part.name, at=part.at, **facts)


def _facts(runs: list[Run], experiment: str, sources: list[Run]) -> dict[str, Any]:
    info = runs[0].info
    kind, share = kind_of_data(sources)
    return {
        "experiment": experiment,
        "scale": info["spec"]["scale"],
        "data": "; ".join(sorted({run.info["sets"]["data"] for run in sources})),
        "kind": kind,
        "share": share,
        "epochs": runs[0].settings["training"]["epochs"],
        "parameters": info["parameters"],
        "settings": canonical_json(runs[0].settings),
        "sets": canonical_json(info["sets"]),
        "runs": ";".join(str(run.folder) for run in sources),
    }


def _curve(run: Run, columns: tuple[str, ...]) -> pd.Series:
    """Return the first of the columns that a run has, by epoch; without epochs if it has none of them."""
    for name in columns:
        if name in run.metrics and run.metrics[name].notna().any():
            return run.metrics.set_index("epoch")[name].dropna()
    return pd.Series(dtype=float)


def _movement(runs: list[Run], measure: Measure) -> float | None:
    """Return how much a number moved at the end of one run, or a difference at the end of two."""
    found = [movement(_curve(run, measure.moves or measure.curves).to_numpy()) for run in runs]
    return None if None in found else float(np.sqrt(np.sum(np.square(found))))


def _unfinished(runs: list[Run], measure: Measure) -> str:
    """Return which runs ended too early: while their curve still improved, or before that can be judged."""
    found = {}
    for run in runs if measure.curves else []:
        curve, epochs = _curve(run, measure.curves), _epochs(run)
        if len(curve) < LAST_POINTS:
            found[run.variant] = f"{run.variant}: too few epochs ({epochs}) to see it end"
            continue
        accuracy = str(curve.name).endswith("accuracy")
        gain = gain_of_doubling(curve.index.to_numpy(float), curve.to_numpy(float), falls=not accuracy)
        if still_improves(gain, falls=not accuracy):
            by = f"{100 * gain:.1f} {'points' if accuracy else '%'} for each doubling"
            found[run.variant] = f"{run.variant} still improves after {epochs} epochs, {by}"
    return "; ".join(found.values())
