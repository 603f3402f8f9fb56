"""What an experiment's tables, figures and analyses are made of: files, read on demand."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from equiset.config.roles import Role
from equiset.files import read_parquet
from equiset.results.claims import Claim
from equiset.results.measures import Measures
from equiset.results.runs import Run, by_variant


@dataclass(frozen=True)
class Material:
    """All that an experiment's tables, figures and analyses may read."""

    folders: list[Path]
    """Folders of the runs, in the order of the config."""
    store: Path | None = None
    """The prepared data. Published runs have none."""
    analyses: dict[str, Path] = field(default_factory=dict)
    """Parquet files of the analyses, by name."""
    measures: Measures = field(default_factory=lambda: Measures([]))
    claims: dict[str, Claim] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    """What each variant is in tables and figures."""

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """The runs of each variant, one per seed, in the order of the config."""
        return by_variant(self.folders, self.analyses)

    def analysis(self, name: str) -> pd.DataFrame:
        return read_parquet(self.analyses.get(name, Path(f"{name}.parquet")))

    def role(self, variant: str) -> Role:
        return self.roles.get(variant, Role())

    def paper(self, variant: str) -> str:
        """Return what the paper says of a variant, from the claims file."""
        return self.says(self.role(variant).claim)

    def says(self, claim: str) -> str:
        return self.claims[claim].paper if claim in self.claims else "—"

    def main(self, *, changes: bool = False) -> dict[str, list[Run]]:
        """Return the runs of the networks of the paper's main results, or those of changes to them."""
        return {name: group for name, group in self.runs.items() if bool(self.role(name).changes) == changes}
