"""Trained networks by the files of their runs, read on demand, and the data that they learnt from."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equiset.errors import EquisetError
from equiset.files import read_json, read_parquet


@dataclass(frozen=True)
class Run:
    """One trained network."""

    folder: Path
    analyses: dict[str, Path] = field(default_factory=dict)
    """Parquet files of what else was measured on the networks of its experiment, by name."""

    @cached_property
    def info(self) -> dict[str, Any]:
        """The content of run.json."""
        info = read_json(path := self.folder / "run.json")
        if not (isinstance(info, dict) and {"spec", "sets"} <= info.keys()):
            raise EquisetError(f"{path} is damaged: it is not what equiset writes")
        return info

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per epoch."""
        table = read_parquet(path := self.folder / "metrics.parquet")
        return require_numbers(table, list(table), path)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        return read_parquet(self.folder / "predictions.parquet")

    def analysis(self, name: str) -> pd.DataFrame | None:
        """Return the rows of an analysis that are of this run; None if it was not made."""
        if name not in self.analyses:
            return None
        table = read_parquet(path := self.analyses[name])
        rows = table[(table["variant"] == self.variant) & (table["seed"] == self.seed)]
        if not (rows["weights_sha256"] == self.info["weights_sha256"]).all():
            raise EquisetError(
                f"{path} was measured on other weights of {self.variant}, seed {self.seed}, than {self.folder} has. "
                f"Measure it again: make analyse ANALYSIS={self.info['spec']['experiment']}/{name}, then make publish"
            )
        return rows

    def own_items(self, count: int) -> np.ndarray:
        """Return numbers for test items that this run has drawn itself: no other seed has the same items."""
        return self.seed * 2**32 + np.arange(count)

    @property
    def variant(self) -> str:
        return self.info["spec"]["variant"]

    @property
    def seed(self) -> int:
        return self.info["spec"]["seed"]

    @property
    def settings(self) -> dict[str, Any]:
        return self.info["spec"]["settings"]


def require_numbers(table: pd.DataFrame, columns: list[str], path: Path) -> pd.DataFrame:
    """Return a table that was read from a file, if these of its columns hold nothing but finite numbers and NaN."""
    for name in columns:
        number = pd.api.types.is_numeric_dtype(table[name])
        if not number or np.isinf(table[name]).any():
            found = "an infinite number" if number else "what is no number"
            raise EquisetError(f"{path}: its column {name} holds {found}. Delete the file and run snakemake again")
    return table


def read_runs(
    folders: list[Path], analyses: dict[str, Path] | None = None, experiment: str = ""
) -> dict[str, list[Run]]:
    """Return the runs of each variant, one per seed, in the order of the folders.

    Args:
        folders: of the runs.
        analyses: Parquet files of what else was measured on them, by name.
        experiment: that all must be runs of; any if it is empty.
    """
    runs: dict[str, list[Run]] = {}
    for folder in folders:
        run = Run(folder, analyses or {})
        if experiment and (found := run.info["spec"].get("experiment", experiment)) != experiment:
            raise EquisetError(f"{run.folder} is a run of {found}, not of {experiment}")
        runs.setdefault(run.variant, []).append(run)
    return runs


DATA = {
    "whole": "the paper's data, whole",
    "part": "the paper's data, in PART",
    "own": "OWN data, not the paper's",
    "stand-in": "STAND-IN data",
}
"""The kinds of data (`equiset.data.source.Kind`) in the words of tables and figures, the best kind first."""
WARNINGS = {
    "whole": "",
    "part": "The other items are absent, and numbers may differ from the paper's for that reason.",
    "own": "These numbers are not comparable with the paper's.",
    "stand-in": "These numbers show that the code works. They reproduce nothing of the paper.",
}
"""What a reader of numbers must know of each kind."""


def kind_of_data(runs: list[Run]) -> tuple[str, float]:
    """Return the kind of data, and the share of the paper's, of those runs that are farthest from the paper's."""
    found = [(run.info["sets"]["kind"], run.info["sets"]["share"]) for run in runs]
    return max(found, key=lambda pair: (list(DATA).index(pair[0]), -pair[1]))


def measured_on(runs: dict[str, list[Run]]) -> str:
    """Return the sentence that names the data, the scale and the seeds of some runs."""
    infos = [run.info for group in runs.values() for run in group]
    kinds = {f"{DATA[info['sets']['kind']]}: {info['sets']['data']}" for info in infos}
    scales = sorted({info["spec"]["scale"] for info in infos})
    seeds = sorted({info["spec"]["seed"] for info in infos})
    return f"Measured on {'; '.join(sorted(kinds))}. Scale: {', '.join(scales)}. Seeds: {', '.join(map(str, seeds))}."
