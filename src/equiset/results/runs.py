"""What tables and figures are made of: the files of the runs, read on demand."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from equiset.files import read_json
from equiset.parquet import read_parquet


@dataclass(frozen=True)
class Run:
    """One trained network."""

    folder: Path

    @cached_property
    def info(self) -> dict[str, Any]:
        """The content of run.json."""
        return read_json(self.folder / "run.json")

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per epoch."""
        return read_parquet(self.folder / "metrics.parquet")

    @cached_property
    def predictions(self) -> pd.DataFrame:
        return read_parquet(self.folder / "predictions.parquet")

    @property
    def variant(self) -> str:
        return self.info["spec"]["variant"]

    @property
    def seed(self) -> int:
        return self.info["spec"]["seed"]

    @property
    def settings(self) -> dict[str, Any]:
        return self.info["spec"]["settings"]


@dataclass(frozen=True)
class Material:
    """All that an experiment's tables, figures and analyses may read."""

    folders: list[Path]
    """Folders of the runs, in the order of the config."""
    store: Path
    """The prepared data."""
    analyses: dict[str, Path]
    """Parquet files of the analyses, by name."""

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """The runs of each variant, one per seed, in the order of the config."""
        runs: dict[str, list[Run]] = {}
        for folder in self.folders:
            run = Run(folder)
            runs.setdefault(run.variant, []).append(run)
        return runs

    def analysis(self, name: str) -> pd.DataFrame:
        return read_parquet(self.analyses[name])


DATA = {"real": "real data", "user": "data of the USER'S OWN, not the paper's", "stand-in": "STAND-IN data"}


def kind_of_data(sets: dict[str, Any]) -> str:
    """Return `real` for the paper's data, `user` for files that someone brought, else `stand-in`: see `DATA`.

    Files that someone brought are real only if they were recognised as the paper's; a stand-in stays one in any folder.
    """
    if sets["real"]:
        return "real"
    return "user" if sets.get("source") == "folder" and "stand-in" not in sets["data"] else "stand-in"


def what_was_measured(runs: dict[str, list[Run]]) -> str:
    """Say in one line on which data, at which scale and with how many seeds numbers were measured."""
    infos = [run.info for group in runs.values() for run in group]
    kinds = {f"{DATA[kind_of_data(info['sets'])]}: {info['sets']['data']}" for info in infos}
    scales = sorted({info["spec"]["scale"] for info in infos})
    seeds = sorted({info["spec"]["seed"] for info in infos})
    return f"{'; '.join(sorted(kinds))}. Scale: {', '.join(scales)}. Seeds: {', '.join(map(str, seeds))}."
