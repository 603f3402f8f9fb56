"""The tables and figures of an experiment."""

from pathlib import Path
from typing import Any

from equiset.config.roles import Role
from equiset.config.settings import validate
from equiset.errors import choose
from equiset.experiments import experiment_module
from equiset.results.claims import read_claims
from equiset.results.material import Material
from equiset.results.measures import Measures
from equiset.results.runs import runs_of


def show(
    experiment: str,
    item: str,
    runs: list[Path],
    store: Path | None,
    analyses: list[Path],
    measures: Path,
    claims: Path,
    roles: dict[str, Any],
    output: list[Path],
) -> None:
    """Write one table or figure of an experiment, from the numbers that were measured and the files of its runs.

    Args:
        experiment: its name.
        item: of the table or figure.
        runs: folders of the runs, in table order.
        store: folder of the prepared data, if they are there.
        analyses: files of `analyse_runs`.
        measures: file of `measure`.
        claims: the claims file, with the paper's values.
        roles: what each variant is in tables and figures.
        output: files; the suffix decides the format.
    """
    runs_of(experiment, runs)
    settings = experiment_module(experiment, "settings").ExperimentSettings
    choose(dict.fromkeys([*settings.tables, *settings.figures]), item, f"table or figure of {experiment}")
    material = Material(
        runs,
        store,
        {path.stem: path for path in analyses},
        Measures.read(measures),
        {claim.id: claim for claim in read_claims(claims)},
        {name: validate(Role, role, "roles", name) for name, role in roles.items()},
    )
    shown = getattr(experiment_module(experiment, "results"), item)(material)
    for path in output:
        shown.write(path)
