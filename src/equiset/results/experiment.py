"""What the tables and figures of an experiment are made of."""

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from equiset.config.roles import Role
from equiset.errors import EquisetError
from equiset.results.claims import Claim
from equiset.results.measures import Measures
from equiset.results.runs import Run
from equiset.results.tables import Cell


@dataclass(frozen=True)
class ExperimentResults:
    """The runs of an experiment, what was measured on them, and what the paper says. Files are read on demand."""

    runs: dict[str, list[Run]]
    """The runs of each variant, one per seed, in the order of the config."""
    store: Path | None = None
    """The prepared data. Published runs have none."""
    measures: Measures = field(default_factory=lambda: Measures([]))
    claims: dict[str, Claim] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    """What each variant is in tables and figures."""

    def analysis(self, name: str) -> pd.DataFrame:
        """Return the rows of an analysis, of all runs."""
        found = [run.analysis(name) for group in self.runs.values() for run in group]
        rows = [table for table in found if table is not None and len(table)]
        if not rows:
            raise EquisetError(f"the analysis {name!r} was made of none of these runs")
        return pd.concat(rows, ignore_index=True)

    def role(self, variant: str) -> Role:
        return self.roles.get(variant, Role())

    def title(self, variant: str) -> str:
        """Return what a variant is called: its title, or its name in the config."""
        return self.role(variant).title or variant

    @property
    def own_data(self) -> bool:
        """Whether a run is on a user's own data, which no number of the paper is about."""
        return any(run.info["sets"]["kind"] == "own" for group in self.runs.values() for run in group)

    def paper_cells(self, claim: str, heading: str = "Paper") -> list[Cell]:
        """Return the column with what the paper says in a claim, from the claims file; none on own data."""
        said = self.claims[claim].paper if claim in self.claims else "—"
        return [] if self.own_data else [("paper", heading, said)]

    @property
    def main_runs(self) -> dict[str, list[Run]]:
        """The runs of the paper's main networks, without those that change one of them."""
        return {name: group for name, group in self.runs.items() if not self.role(name).changes}

    @property
    def changed_runs(self) -> dict[str, list[Run]]:
        """The runs of networks that change one of the paper's main networks."""
        return {name: group for name, group in self.runs.items() if self.role(name).changes}


def run_cells(group: list[Run]) -> list[Cell]:
    """Return what every table says about the runs behind a row."""
    info = group[0].info
    return [
        ("parameters", "Parameters|", info["parameters"], f"{info['parameters']:,}"),
        ("epochs", "Epochs|Ep.", group[0].settings["training"]["epochs"]),
        ("seeds", "Seeds", len(group)),
        ("data_kind", "", info["sets"]["kind"]),
        ("data_share", "", info["sets"]["share"]),
        ("scale", "", info["spec"]["scale"]),
    ]
